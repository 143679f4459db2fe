/* The forward pass: a batch of rows (step.h) through all layers.
 *
 * forward.c is the residual stream. In each layer a mixer and a feed-forward (layers.h) add to the
 * stream. What differs between families is data in the config.
 *
 * Every result is independent of how a text is cut into chunks, of the other rows of the batch, of
 * the number of threads and of the cache (promise 2): matrix products treat each token by itself,
 * attention works in blocks of 64 absolute positions, delta nets take token after token, and
 * experts are summed in ascending index.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "engine/compute/layers.h"

/* Arrays of a pass, allocated together for `chunk` rows. */
struct scratch {
	float *x;		  /* [rows][hidden]: the residual stream */
	struct activation normed; /* [rows][hidden]: input of projections */
	float *out; /* [rows][hidden]: added to x, with room for a dense up projection */
	struct rotation rotations[CONFIG_ROPES];
	struct attention_scratch attention;
	struct latent_scratch latent;
	struct delta_scratch delta;
	struct dense_scratch dense;
	struct moe_scratch moe;
	struct step_span *spans; /* [rows] at most */
	uint32_t *span_of;	 /* [rows] */
	uint32_t *wanted;	 /* [rows]: the rows whose logits are wanted */
	float *logits;		 /* [ANSWER_ROWS][vocabulary] */
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

/* -ENOTSUP in words: the config has a layer that this program cannot compute. */
int forward_computes(const struct config *c, struct err *e);

/* Takes env and chunk from *f and allocates the scratch. All its memory is taken from the system
 * when the call returns, so that memory_look sees it. -ENOMEM in words. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Replaces the scratch by one for `chunk` rows per call; after an error the old one stays. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* Bytes of the scratch for `chunk` rows. */
uint64_t forward_bytes(const struct config *c, uint32_t chunk);

/* Computes 1 … chunk rows and appends their tokens to their contexts; contexts with a recurrent
 * state are then behind by their drafted rows.
 *
 * logits: [rows that want logits][vocabulary], in the rows' order; NULL: scratch.logits, which has
 * room for ANSWER_ROWS rows; unused if the batch has a reader. If the batch wants `normed`,
 * scratch.normed.f has it: [rows][hidden].
 *
 * After an error the contexts are as before the call, except that a recurrent state may have to go
 * back further: its context then holds fewer tokens than before. */
int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e);

/* ---- pieces of a pass, for drafter.c, whose pass has one layer ---- */

/* A step of the rows of `count` spans, which outlive it, with the rows' rotations. */
struct step forward_step(struct forward *f, const struct step_span *spans, uint32_t count);
/* A row of the stream = the token's row of the embedding. */
int forward_embed(struct step *s, uint32_t row, uint32_t token, struct err *e);
/* Runs the stream through a layer; the contexts have room for the rows. */
int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e);
/* Only computes the keys and values that later rows see of these rows in an attention layer. */
void forward_layer_keys(struct forward *f, struct step *s, uint32_t layer);
/* scratch.normed[n] = the norm of rows[n] of the stream; NULL: of the first n rows. */
void forward_normalise(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n);
/* logits[n][vocabulary] = the output head of the first n rows of scratch.normed. */
void forward_head(struct step *s, uint32_t n, float *logits);

#endif
