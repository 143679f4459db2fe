/* How a prompt is cut into steps, and the memory that long ones take.
 *
 * A step reads each expert of a layer at most once, so the fewer steps a prompt takes the less is
 * read of what the budget does not hold. But what a step computes with grows with its tokens, and
 * has to come from the memory that is there. Unless a size was asked for (-o chunk=), a prompt is
 * cut into equal steps, as many as make it read least; where all experts fit these are short ones.
 *
 * What a longer step takes is counted with the budgets, which lower the experts' at once by as much
 * as is not to be had besides; it is given back when no session is in its prompt any more.
 *
 * For the generation thread of a loaded model, which holds no lock.
 */
#ifndef MOEFS_ENGINE_SERVE_CHUNK_H
#define MOEFS_ENGINE_SERVE_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct model;

enum {
	CHUNK_DEFAULT = 512, /* about 32 tokens for each of 128 experts: arithmetic gains no more */
	CHUNK_MOST = 4096,
};

/* How many of a prompt's `left` tokens (at least 1) the next step takes; the model's forward pass
 * has room for them. */
uint32_t chunk_next(struct model *m, size_t left);
/* Gives back what chunk_next took. Without memory for short steps the long ones stay. */
void chunk_end(struct model *m);
/* The same where the forward pass is gone already. */
void chunk_forget(struct model *m);

#endif
