/* The gated delta net (Yang, Kautz and Hatamizadeh 2024, as Qwen3-Next has it): a mixer whose state
 * does not grow with the text.
 *
 * One projection gives queries, keys and values, another the gate of the output, two small ones the
 * gates of the state. Queries, keys and values pass a short causal convolution and silu; queries
 * and keys are brought to length 1; each value head then lets its state fade, corrects what the
 * key finds in it, and asks it with the query (kernels.h, delta_steps). The result is normalised
 * head by head and multiplied by silu of its gate.
 *
 * Tokens are taken one by one in their order, so cutting a text into chunks changes nothing;
 * threads share heads, which do not influence each other.
 */
#ifndef MOEFS_ENGINE_COMPUTE_DELTA_H
#define MOEFS_ENGINE_COMPUTE_DELTA_H

#include "engine/compute/step.h"

struct delta_scratch {
	float *in, *mixed;	 /* queries, keys and values before and after the convolution */
	float *a, *b;		 /* [rows][value_heads]: projections for the gates */
	float *decay, *beta;	 /* [rows][value_heads]: the gates */
	float *out;		 /* [rows][value_heads · value_dim] */
	struct activation gated; /* first the output's gate, then out times it */
};

void delta_take(struct delta_scratch *d, struct arena *arena, const struct config *c, size_t rows);
/* out = the delta net of normed. Each context's state moves on by what it was behind and by the
 * rows that are certain; what drafted ones would do to it is kept. */
void delta_run(struct delta_scratch *d, struct step *s, uint32_t layer);

#endif
