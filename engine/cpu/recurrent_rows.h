/* What recurrent mixers share: how the rows of a step meet the states of their contexts.
 *
 * A state moves on by the rows that it was behind (recurrent.h) and by the step's certain rows; what
 * the drafted rows would do to it is kept with it. Rows are taken one by one in their order, so
 * cutting a text into chunks changes nothing.
 *
 * A mixer begins with its inputs of the convolution, [rows][channels]. It fills the other parts of
 * each row, of which recurrent_rows_taps gives the convolution's inputs. recurrent_heads_run then
 * moves heads' matrices through the rows, and recurrent_rows_keep ends it.
 */
#ifndef MOEFS_ENGINE_CPU_RECURRENT_ROWS_H
#define MOEFS_ENGINE_CPU_RECURRENT_ROWS_H

#include "engine/compute/step.h"

struct recurrent_rows {
	const struct step *step;
	const struct layer_weights *weights; /* of the layer */
	struct recurrent_shape shape;
	size_t at; /* of the layer, in a context's state */
	/* The step's rows: [rows][shape.row[part]] each. */
	const float *part[RECURRENT_PARTS];
};

/* part[]: parts that the mixer does not have are NULL; they are not read. */
struct recurrent_rows recurrent_rows_of(const struct step *s, uint32_t layer,
					const float *const part[RECURRENT_PARTS]);
/* The inputs of a row's convolution, the oldest first, its own last: taps[shape.width]. */
void recurrent_rows_taps(const struct recurrent_rows *r, uint32_t row, const float **taps);

/* Heads whose state is a matrix (kernels/delta.h). */
struct recurrent_heads {
	const struct recurrent_rows *rows;
	enum delta_rule rule;
	uint32_t heads, key_heads, key_dim, value_dim;
	bool tiled;	  /* as in struct delta_net */
	uint32_t q, k, v; /* where those of the first head begin in RECURRENT_MIXED */
	float *out;	  /* [rows][heads][value_dim] */
};
/* Moves the states through the rows, by all threads: out = what the rows' queries read. */
void recurrent_heads_run(const struct recurrent_heads *h);

/* Keeps the last inputs of the convolution and the drafted rows, with each span's state. */
void recurrent_rows_keep(const struct recurrent_rows *r);

#endif
