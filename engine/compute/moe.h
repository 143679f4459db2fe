/* The routed feed-forward (Shazeer et al. 2017): the experts that router.c chose for a whole step,
 * and the shared one.
 *
 * The tokens of a step are grouped by expert, so that each expert is fetched once and its weights
 * meet all its tokens together. Experts are taken from the pager in whatever order they become
 * ready; each one's output is kept, and every token sums its own in ascending order of expert, so
 * that the order of arrival cannot change a bit.
 */
#ifndef MOEFS_ENGINE_COMPUTE_MOE_H
#define MOEFS_ENGINE_COMPUTE_MOE_H

#include "engine/compute/router.h"
#include "engine/compute/shared.h"

struct moe_scratch {
	struct routing routing;
	struct activation hidden;  /* [assignment][expert size]: silu(gate) · up */
	float *up;		   /* [assignment][expert size] */
	float *out;		   /* [assignment][hidden] */
	struct pager_ready *ready; /* [experts] */
	struct shared_scratch shared;
	/* Another norm of the stream than `normed`, where the family has one: the input of the
	 * router, and then that of the experts. Width 0: it has not. */
	struct activation apart;
};

void moe_take(struct moe_scratch *m, struct arena *arena, const struct config *c, size_t rows);
/* out = the experts of normed. An expert that cannot be read is -EIO, in words. */
int moe_run(struct moe_scratch *m, struct step *s, uint32_t layer, struct err *e);

#endif
