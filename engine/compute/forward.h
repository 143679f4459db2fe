/* The forward pass: a chunk of one session's tokens through all layers.
 *
 * forward.c is the residual stream and its two halves: a mixer (attention.h, delta.h) and a
 * feed-forward (dense.h, moe.h), which know nothing of it or of each other: each is given the step
 * (step.h). What differs between families is data in the config.
 * Every result is independent of how a text is cut into chunks, of the number of threads and of the
 * cache (promise 2): matrix products treat each token by itself, attention works in blocks of 64
 * absolute positions, delta nets take token after token, and experts are summed in ascending index.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "engine/compute/attention.h"
#include "engine/compute/delta.h"
#include "engine/compute/dense.h"
#include "engine/compute/moe.h"

enum { ANSWER_ROWS = 5 }; /* at most */

/* Arrays of a pass, allocated together for so many rows: [rows][…] unless said. What is a part's
 * own its file describes. */
struct scratch {
	float *x;		  /* the residual stream */
	struct activation normed; /* input of projections */
	float *out;		  /* what is added to x */
	struct rotation rotations[CONFIG_ROPES];
	struct attention_scratch attention;
	struct delta_scratch delta;
	struct dense_scratch dense;
	struct moe_scratch moe;
	float *logits; /* [ANSWER_ROWS][vocabulary]: of the last token, or of an answer's rows */
	void *memory;
};

/* What the forward pass of one model needs; one thread at a time. */
struct forward {
	struct environment env;
	uint32_t chunk; /* most tokens per call */
	/* Of the next call; they may change between calls. */
	enum rows_kind kind;
	struct losses losses;

	struct scratch scratch;	  /* made by forward_init */
	uint64_t token_count;	  /* tokens computed since loading: the pager's clock */
	uint64_t experts_dropped; /* reads that drop_missing has saved since loading */
};

/* ENOTSUP, in words: the config has a layer that is not computed. */
int forward_computes(const struct config *c, struct err *e);

/* Takes env and chunk from *f, allocates the scratch. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Other scratch, for so many tokens per call. A longer one is all taken from the system when it
 * returns, so that memory_look sees it, and the old one given back. After an error the old scratch
 * is still there. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* What scratch for so many tokens takes. */
uint64_t forward_bytes(const struct config *c, uint32_t chunk);

/* Computes tokens[n], n in 1 … chunk, at the context's next positions and appends them to it. If
 * all_logits is not NULL it receives [n][vocabulary]; else if want_logits, scratch.logits the last
 * row. A failed call leaves the context as it was, but for a recurrent state, which may have to go
 * back: then it holds fewer tokens than before. */
int forward_run(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
		bool want_logits, float *all_logits, struct err *e);

/* ---- of a pass, for draft_layer.c, whose pass is another ---- */

/* A step of n rows at the context's next positions, and their rotations. */
struct step forward_step(struct forward *f, struct context *x, uint32_t n);
/* The stream = the tokens' rows of the embedding. */
int forward_embed(struct step *s, const uint32_t *tokens, struct err *e);
/* The stream through a layer; in the context the rows follow its tokens, for which it has room. */
int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e);
/* Only what later rows see of these in a layer of attention: their keys and values. */
void forward_keys(struct forward *f, struct step *s, uint32_t layer);
/* scratch.normed = the norm of the stream, and its logits: of the last row, to scratch.logits, or
 * if `all` is not NULL of all rows, to that. */
void forward_logits(struct forward *f, struct step *s, enum tensor_role norm, float *all);

#endif
