/* What a router picked, as whoever watches a model's steps is shown it (environment.h). */
#ifndef MOEFS_ENGINE_COMPUTE_PICKS_H
#define MOEFS_ENGINE_COMPUTE_PICKS_H

#include "engine/compute/batch.h"

/* Of one context's rows in one layer, before any of it is computed: the experts that they pass
 * through, without what drop_missing has saved. */
struct picks {
	const struct span *span;
	uint32_t layer; /* among all layers */
	uint32_t stride;
	const uint32_t *kept;	/* [span->n]: how many experts each row has */
	const uint32_t *chosen; /* [span->n][stride], descending weight */
	/* [experts]: it was not in memory, and nobody has been shown yet for whom it is read. Who
	 * shows it for a row clears it: an expert is read once for all rows of a step. */
	bool *absent;
};

#endif
