/* The state of refining (admin/model_refine.c), which goes on while the run answers. */
#ifndef MOEFS_ENGINE_RUN_REFINING_H
#define MOEFS_ENGINE_RUN_REFINING_H

#include "engine/convert/convert.h"
#include "engine/model.h"

#include <pthread.h>
#include <stdatomic.h>

enum refining_phase { REFINING_ROUNDS, REFINING_WRITES, REFINING_GATHERS };

struct refining {
	/* Progress: tokens while the model writes the text, then of refining as a whole. total 0:
	 * nothing is in progress. */
	struct convert_progress progress;
	_Atomic int phase;	/* enum refining_phase: the current one */
	_Atomic bool measuring; /* a store's loss is being measured (admin/model_loss.c) */
	_Atomic bool stop;	/* stop, and do not start again */
	_Atomic bool yield;	/* a turn has begun: stop refining while idle */
	_Atomic bool asked; /* a turn has begun since the mount: only used models are refined while
			       idle */
	/* For -o refine=idle: */
	pthread_t thread; /* of model_refine_idle.c; model_close waits for it */
	bool has_thread;
	pthread_t measurer; /* of admin/loss_idle.c; model_close waits for it */
	bool measures;
	struct err failure; /* (lock) why refining stopped; code 0: it did not stop */
};

/* Stops refining while idle within the time of one row of weights. A text that the model writes for
 * refining waits for the turn in any case. */
static inline void refining_send_away(struct refining *r)
{
	atomic_store(&r->asked, true);
	atomic_store(&r->yield, true);
}

#endif
