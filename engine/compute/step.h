/* A step on its way through the layers: what a mixer or a feed-forward is given, besides arrays of
 * its own. It reads `normed` and leaves in `out` what is to be added to the stream. */
#ifndef MOEFS_ENGINE_COMPUTE_STEP_H
#define MOEFS_ENGINE_COMPUTE_STEP_H

#include "engine/compute/batch.h"
#include "engine/compute/product.h"
#include "engine/compute/rotation.h"

struct step {
	const struct environment *env;
	uint32_t n;		  /* rows */
	const struct span *spans; /* what follows which context */
	uint32_t span_count;
	const uint32_t *span_of; /* [n] */
	uint64_t clock; /* tokens computed since loading, these among them: the pager's clock */

	float *x;			  /* [n][hidden]: the residual stream */
	struct activation *normed;	  /* of hidden size: input of the projections */
	float *out;			  /* [n][hidden], with room for a dense up projection */
	const struct rotation *rotations; /* [CONFIG_ROPES]: of these rows */
	uint64_t dropped;		  /* experts that drop_missing has saved */
};

static inline const struct span *step_span(const struct step *s, size_t row)
{
	return &s->spans[s->span_of[row]];
}

/* to = RMSNorm of n rows of `from`, which has hidden size, with that weight: of those named in
 * `rows`, or if it is NULL of the first, and then `from` may be `to`. */
void step_norm(const struct step *s, float *to, const float *from, const uint32_t *rows,
	       const float *weight, uint32_t n);

/* Shows rows[n][width] to whoever looks, context by context. */
void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows);

#endif
