/* Refining (model.h): a new version of a model's store, whose weights are rounded by what is known
 * of their inputs. First a text goes through the model while moments are gathered
 * (refine_gather.c); they are kept beside the store to be, so that gathering is taken up where it
 * was. Then the store is made as a conversion makes one, in a folder of its own (refine.c). */
#ifndef MOEFS_ENGINE_SERVE_REFINE_H
#define MOEFS_ENGINE_SERVE_REFINE_H

#include "engine/convert/convert.h"
#include "engine/model.h"

#include <pthread.h>
#include <stdatomic.h>

struct moments;

struct refining {
	struct convert_progress progress; /* of either part; total 0: neither is under way */
	_Atomic bool gathering;
	_Atomic bool stop;  /* for good */
	_Atomic bool yield; /* somebody has begun a turn: what is done while idle ends */
	/* Of -o refine=idle: */
	pthread_t thread; /* refine_idle.c's, which model_close waits for */
	bool has_thread;
	struct err failure; /* (schedule.lock) why it stopped; code 0: it did not, or goes on */
};

/* Ends what is done while idle, within a row of weights or a step of the text. */
static inline void refine_send_away(struct refining *r)
{
	atomic_store(&r->yield, true);
}

/* Reads what the request names, or has the model write, until it is whole, as far as `moments` have
 * it not. weights: the sum of the key of the store that they are of (model_run.h). -ECANCELED: it
 * was stopped, somebody else's turn began, or the model was loaded anew with other weights; what is
 * kept is kept. */
int refine_gather(struct model *m, const struct model_refining *r, uint64_t weights,
		  struct moments *moments, const char *folder, struct err *e);

#endif
