/* A step on its way through the layers: what a mixer or a feed-forward is given, besides arrays of
 * its own. It reads `normed` and leaves in `out` what is to be added to the stream. */
#ifndef MOEFS_ENGINE_COMPUTE_STEP_H
#define MOEFS_ENGINE_COMPUTE_STEP_H

#include "engine/compute/context.h"
#include "engine/compute/losses.h"
#include "engine/compute/product.h"
#include "engine/compute/rotation.h"

/* What the rows of a step are: a prompt's chunk, of which the last rows are most like what comes,
 * or an answer's last token, with what may follow it (drafts). */
enum rows_kind { ROWS_PROMPT, ROWS_ANSWER };

struct step {
	const struct environment *env;
	struct context *context;
	uint32_t n; /* rows, at the context's next positions */
	enum rows_kind kind;
	struct losses losses;
	uint64_t clock; /* tokens computed since loading, these among them: the pager's clock */

	float *x;			  /* [n][hidden]: the residual stream */
	struct activation *normed;	  /* of hidden size: input of the projections */
	float *out;			  /* [n][hidden], with room for a dense up projection */
	const struct rotation *rotations; /* [CONFIG_ROPES]: of these rows */
	uint64_t dropped;		  /* experts that drop_missing has saved */
};

#endif
