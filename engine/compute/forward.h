/* The forward pass: a batch of rows (batch.h) through all layers.
 *
 * forward.c is the residual stream and its two halves: a mixer (attention.h, delta.h) and a
 * feed-forward (dense.h, moe.h), which know nothing of it or of each other: each is given the step
 * (step.h). What differs between families is data in the config.
 * Every result is independent of how a text is cut into chunks, of the rows of others in the batch,
 * of the number of threads and of the cache (promise 2): matrix products treat each token by
 * itself, attention works in blocks of 64 absolute positions, delta nets take token after token,
 * and experts are summed in ascending index.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "engine/compute/attention.h"
#include "engine/compute/delta.h"
#include "engine/compute/dense.h"
#include "engine/compute/latent.h"
#include "engine/compute/moe.h"

/* Arrays of a pass, allocated together for so many rows: [rows][…] unless said. What is a part's
 * own its file describes. */
struct scratch {
	float *x;		  /* the residual stream */
	struct activation normed; /* input of projections */
	float *out;		  /* what is added to x */
	struct rotation rotations[CONFIG_ROPES];
	struct attention_scratch attention;
	struct latent_scratch latent;
	struct delta_scratch delta;
	struct dense_scratch dense;
	struct moe_scratch moe;
	struct span *spans; /* of the step */
	uint32_t *span_of;  /* [rows] */
	uint32_t *wanted;   /* [rows]: those whose logits are */
	float *logits;	    /* [ANSWER_ROWS][vocabulary] */
	void *memory;
	size_t bytes;
};

/* What the forward pass of one model needs; one thread at a time. */
struct forward {
	struct environment env;
	uint32_t chunk;		  /* most rows per call */
	struct scratch scratch;	  /* made by forward_init */
	uint64_t token_count;	  /* tokens computed since loading: the pager's clock */
	uint64_t experts_dropped; /* reads that drop_missing has saved since loading */
};

/* ENOTSUP, in words: the config has a layer that is not computed. */
int forward_computes(const struct config *c, struct err *e);

/* Takes env and chunk from *f, allocates the scratch: all of it is taken from the system when it
 * returns, so that memory_look sees it. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Other scratch, for so many tokens per call; the old one is given back, but after an error. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* What scratch for so many tokens takes. */
uint64_t forward_bytes(const struct config *c, uint32_t chunk);

/* Computes 1 … chunk rows and appends their tokens to their contexts; then contexts with a
 * recurrent state are behind by what was drafted. logits receives [rows that want
 * them][vocabulary], in the rows' order; NULL: scratch.logits, of at most ANSWER_ROWS rows, unless
 * the batch's own reader takes them. If the
 * batch wants `normed`, scratch.normed.f has it: [rows][hidden]. A failed call leaves the contexts
 * as they were, but for a recurrent state, which may have to go back: then its context holds fewer
 * tokens than before. */
int forward_run(struct forward *f, const struct batch *b, float *logits, struct err *e);

/* ---- of a pass, for draft_layer.c, whose pass is another ---- */

/* A step of the rows of `count` spans, which outlive it, and the rows' rotations. */
struct step forward_step(struct forward *f, const struct span *spans, uint32_t count);
/* A row of the stream = the token's row of the embedding. */
int forward_embed(struct step *s, uint32_t row, uint32_t token, struct err *e);
/* The stream through a layer; the contexts have room for the rows. */
int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e);
/* Only what later rows see of these in a layer of attention: their keys and values. */
void forward_keys(struct forward *f, struct step *s, uint32_t layer);
/* scratch.normed = the norm of these n rows of the stream (NULL: of the first n), one after the
 * other; and their logits, of what is in it: [n][vocabulary]. */
void forward_normalise(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n);
void forward_head(struct step *s, uint32_t n, float *logits);

#endif
