/* A hybrid's own draft layer (multi-token prediction: Gloeckle et al. 2024, in the form of
 * DeepSeek-V3, 2024): from what the model has made of a position, and the token that was drawn
 * there, it guesses the token after that one.
 *
 * A row is a position of the text. It takes the embedding of the token that follows the position
 * and a hidden state: the model's own, after the final norm; or, one token further, what the draft
 * layer itself gave for the row before, so that it feeds itself to any depth. Both are normed,
 * joined and projected to the hidden size; then come a layer like the model's with a feed-forward
 * of the same kind, a norm, and the model's own output head.
 *
 * The layer attends to the rows before, whose keys and values are in a context of its own
 * (context_init_draft), where each row's token is the one that follows its position. Rows are as
 * independent of chunks, threads and the cache as those of the model (forward.h).
 */
#ifndef MOEFS_ENGINE_COMPUTE_DRAFT_LAYER_H
#define MOEFS_ENGINE_COMPUTE_DRAFT_LAYER_H

#include "engine/compute/forward.h"

/* Belongs to whom the forward pass belongs to, and works in its scratch. */
struct draft_layer {
	struct forward *forward;
	struct activation joined; /* input of the projection, for a few rows at a time */
	struct losses losses;	  /* of the next call */
	void *memory;
};

/* The weights of the forward pass were loaded with drafts, and there are some. */
int draft_layer_init(struct draft_layer *d, struct forward *f, struct err *e);
void draft_layer_free(struct draft_layer *d);
/* What it takes besides. */
uint64_t draft_layer_bytes(const struct config *c);

/* Computes n rows, 1 … forward.chunk, at the context's next positions, and appends tokens[n] to it.
 * hidden: [n][hidden size]; may be scratch.normed.f. If all_logits is not NULL it receives
 * [n][vocabulary], and scratch.normed the rows' output; else scratch.logits and scratch.normed have
 * those of the last row. A failed call leaves the context as it was. */
int draft_layer_run(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		    const float *hidden, uint32_t n, float *all_logits, struct err *e);
/* The same without logits and output, for rows whose guess nobody wants (a prompt's, and those of
 * drafts that stood): only the keys and values that later rows attend to. It needs no expert. */
int draft_layer_keys(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		     const float *hidden, uint32_t n, struct err *e);

#endif
