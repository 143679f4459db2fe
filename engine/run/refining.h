/* What a run knows of refining (admin/model_refine.c), which is done while it serves. */
#ifndef MOEFS_ENGINE_RUN_REFINING_H
#define MOEFS_ENGINE_RUN_REFINING_H

#include "engine/convert/convert.h"
#include "engine/model.h"

#include <pthread.h>
#include <stdatomic.h>

enum refining_phase { REFINING_ROUNDS, REFINING_WRITES, REFINING_GATHERS };

struct refining {
	/* Of the text while the model writes it, in tokens; then of the whole. total 0: neither is
	 * under way. */
	struct convert_progress progress;
	_Atomic int phase; /* enum refining_phase: what is done now */
	_Atomic bool measuring; /* what a store loses (admin/model_loss.c) */
	_Atomic bool stop;  /* for good */
	_Atomic bool yield; /* a turn has begun: refining while idle stops */
	_Atomic bool asked; /* a turn has ever begun: only such models are refined while idle */
	/* Of -o refine=idle: */
	pthread_t thread; /* model_refine_idle.c's, which model_close waits for */
	bool has_thread;
	pthread_t measurer; /* admin/loss_idle.c's, likewise */
	bool measures;
	struct err failure; /* (lock) why it stopped; code 0: it did not, or continues */
};

/* Stops refining while idle, within a row of weights; its text waits for the turn anyway. */
static inline void refining_send_away(struct refining *r)
{
	atomic_store(&r->asked, true);
	atomic_store(&r->yield, true);
}

#endif
