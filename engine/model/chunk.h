/* How a prompt is cut into steps, and the memory that long ones take.
 *
 * A step reads each expert of a layer at most once, so a prompt in fewer steps reads less, if the
 * budget does not hold all experts. But the scratch memory of a step grows with its tokens. Unless
 * -o chunk= names a size, a prompt is cut into equal steps, and their number is chosen so that the
 * prompt reads least. If all experts fit, steps are short.
 *
 * The memory of longer steps is counted with the budgets: the experts' budget is lowered at once by
 * the part that is not free. It is given back when no session has a prompt to compute.
 *
 * For the generation thread of a loaded model, which holds no lock.
 */
#ifndef MOEFS_ENGINE_MODEL_CHUNK_H
#define MOEFS_ENGINE_MODEL_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct model;

enum {
	CHUNK_DEFAULT = 512, /* about 32 tokens for each of 128 experts: arithmetic gains no more */
	CHUNK_MOST = 4096,
};

/* How many of a prompt's `left` tokens (at least 1) the next step takes: at most `most` (at least
 * 1); the model's forward pass, and the pass that waits between layers, have room for them. */
uint32_t chunk_next(struct model *m, size_t left, uint32_t most);
/* Gives back what chunk_next took. Without memory for short steps the long ones stay. */
void chunk_end(struct model *m);
/* The same where the forward pass is gone already. */
void chunk_forget(struct model *m);

#endif
