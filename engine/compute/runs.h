/* Rows of one context that look back together, for the mixers that do (attention.h, latent.h). */
#ifndef MOEFS_ENGINE_COMPUTE_RUNS_H
#define MOEFS_ENGINE_COMPUTE_RUNS_H

#include "engine/compute/step.h"

struct row_run {
	uint32_t first, n;
};

/* Cuts the step into runs, as many as rows at most; returns their number, and in *seen the
 * positions that the rows of the longest one look at, through a window if that is not 0. */
uint32_t runs_make(const struct step *s, uint32_t window, struct row_run *runs, uint64_t *seen);

/* What a run's rows look at in a layer, with what they have in common: whose blocks, of what type,
 * how far the first sees. */
struct attention runs_look(const struct step *s, const struct row_run *run,
			   const struct layer *layer);

#endif
