/* Divides a prompt into steps, and accounts for the memory of long steps.
 *
 * A step reads each expert of a layer at most once. So if the budget does not hold all experts, a
 * prompt in fewer steps reads less from disk. But the scratch memory of a step grows with its
 * number of tokens. Without -o chunk=, a prompt is divided into equal steps, whose number is chosen
 * so that the prompt reads least. If all experts fit into memory, steps are short.
 *
 * The budgets include the memory of long steps: if it is not free, the expert budget is lowered at
 * once. The memory is freed when no session has a prompt to compute.
 *
 * Only the generation thread of a loaded model may call these functions, with no lock held.
 */
#ifndef MOEFS_ENGINE_MODEL_CHUNK_H
#define MOEFS_ENGINE_MODEL_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct model;

enum {
	CHUNK_DEFAULT = 512, /* about 32 tokens for each of 128 experts: more gains no speed */
	CHUNK_MOST = 4096,
};

/* How many of a prompt's `left` tokens (at least 1) the next step takes, at most `most` (at least
 * 1). Makes room for them in the model's forward pass and in the pass that can pause between
 * layers. */
uint32_t chunk_next(struct model *m, size_t left, uint32_t most);
/* Frees the memory that chunk_next took. If memory for short steps cannot be allocated, the memory
 * for long steps stays. */
void chunk_end(struct model *m);
/* The same after the forward pass was freed. */
void chunk_forget(struct model *m);

#endif
