/* The forward pass: a batch of rows (step.h) through all layers.
 *
 * In each layer a mixer and a feed-forward (layers.h) add to the
 * residual stream. What differs between families is data in the config.
 *
 * Every result is independent of how a text is cut into chunks, of the other rows of the batch, of
 * the number of threads and of the cache (promise 2): matrix products treat each token by itself,
 * attention works in blocks of 64 absolute positions, delta nets take token after token, and
 * experts are summed in ascending index.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "engine/compute/layers.h"

/* A step on its way through the layers: all that it needs between two of them. So one pass, a
 * prompt's, can wait there while others run (those of answers, and draft layers). */
struct forward_pass {
	uint32_t rows; /* for which there is room */
	float *x;      /* [rows][streams][hidden]: the residual stream */
	float *per_layer; /* [rows][layers][per_layer], or NULL */
	struct rotation rotations[CONFIG_ROPES];
	struct chosen_entries chosen;
	struct step_span *spans; /* [rows] at most */
	uint32_t *span_of;	 /* [rows] */
	uint32_t *tokens;	 /* [rows], as in the batch */
	bool *embedded, *per_layer_read; /* [rows]: rows of the tables that have been read */

	struct step step;
	const struct step_batch *batch; /* NULL: no step is on its way */
	const struct observer *observer;
	float *logits;
	uint32_t layer; /* the next one; after the last come the outputs */
	/* Rows whose logits are wanted: in the step, in the batch, and among those of the batch. */
	uint32_t *wanted, *wanted_row, *wanted_index; /* [rows] */
	uint32_t wanted_count, wanted_done;
	void *memory;
	size_t bytes;
};

/* Arrays that nobody needs between two layers, allocated together for `chunk` rows. */
struct scratch {
	struct activation normed; /* [rows][hidden]: input of projections */
	float *out; /* [rows][hidden]: added to x, with room for a dense up projection */
	struct residual_scratch residual;
	struct ngram_scratch ngrams;
	struct chooser_scratch chooser;
	struct attention_scratch attention;
	struct latent_scratch latent;
	struct compressed_scratch compressed;
	struct delta_scratch delta;
	struct kimi_scratch kimi;
	struct mamba_scratch mamba;
	struct convolution_scratch convolution;
	struct dense_scratch dense;
	struct per_layer_scratch per_layer;
	struct moe_scratch moe;
	float *logits;		  /* [HEAD_ROWS][vocabulary] */
	struct forward_pass pass; /* of forward_run, and of draft layers; never waits */
	void *memory;
	size_t bytes;
};

/* What the forward pass of one model needs; one thread at a time. */
struct forward {
	struct environment env;
	uint32_t chunk;		/* most rows per call */
	struct scratch scratch; /* made by forward_init */
	uint64_t token_count;	/* tokens computed since loading: the pager's clock */
};

/* -ENOTSUP in words: the config has a layer that this program cannot compute. */
int forward_computes(const struct config *c, struct err *e);

/* Takes env and chunk from *f and allocates the scratch. All its memory is taken from the system
 * when the call returns, so that memory_look sees it. -ENOMEM in words. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Replaces the scratch by one for `chunk` rows per call, no fewer than a pass that waits has; after
 * an error the old one stays. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* Bytes of the scratch for `chunk` rows. */
uint64_t forward_bytes(const struct config *c, uint32_t chunk);

/* Computes 1 … chunk rows and appends their tokens to their contexts; contexts with a recurrent
 * state are then behind by their drafted rows.
 *
 * logits: [rows that want logits][vocabulary], in the rows' order; NULL: scratch.logits, which has
 * room for HEAD_ROWS rows; unused if the batch has a reader. If the batch wants `normed`,
 * scratch.normed.f has it: [rows][hidden]. What belongs to dead rows is undefined.
 *
 * Spans end for themselves (struct step_account), and a call that returns 0 may have spans that
 * were stopped or have failed. An error of the call is one of all spans: -ENOMEM, what the batch's
 * reader returns, -EINVAL for a batch that cannot be; or else the failure of a span without an
 * account, and then the others have ended for themselves.
 *
 * After an error the contexts are as before the call, except that a recurrent state may have to go
 * back further: its context then holds fewer tokens than before. The same holds for each span. */
int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e);

/* ---- a step that may wait between two layers ---- */

/* Room for passes of up to `rows` rows, beside the forward pass's own. -ENOMEM in words. */
int forward_pass_init(struct forward_pass *p, const struct config *c, uint32_t rows, struct err *e);
void forward_pass_free(struct forward_pass *p); /* no step is on its way */
uint64_t forward_pass_bytes(const struct config *c, uint32_t rows);

/* Begins what forward_run does at once; batch, logits and contexts are the pass's until it has
 * ended. 1: it waits before its first layer. Otherwise it has ended, as forward_run would. */
int forward_begin(struct forward *f, struct forward_pass *p, const struct step_batch *b,
		  float *logits, struct err *e);
/* Computes the next `pieces` of a pass that waits, which are its layers, and then its groups of
 * HEAD_ROWS logits where the batch has a reader; with 0 pieces it only ends spans that are to stop.
 * Returns like forward_begin. Between two calls any other passes of the same forward may run. */
int forward_go_on(struct forward *f, struct forward_pass *p, uint32_t pieces, struct err *e);
/* Ends a pass that waits; its spans fail for the reason given. */
void forward_give_up(struct forward *f, struct forward_pass *p, const struct err *why);

/* ---- pieces of a pass, for drafter.c, whose pass has one layer ---- */

/* A step of the rows of the first `count` of the pass's spans, with the rows' rotations. */
struct step forward_step(struct forward *f, struct forward_pass *p, uint32_t count);
/* A row of the stream = the token's row of the embedding. */
int forward_embed(struct step *s, uint32_t row, uint32_t token, struct err *e);
/* Runs the stream through a layer; the contexts have room for the rows. Rows may have died. */
int forward_layer(struct forward *f, struct step *s, uint32_t layer, struct err *e);
/* Only computes the keys and values that later rows see of these rows in an attention layer. */
void forward_layer_keys(struct forward *f, struct step *s, uint32_t layer);
/* scratch.normed[n] = the norm of rows[n] of a draft layer's stream; NULL: of the first n rows. */
void forward_normalise(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n);
/* logits[n][vocabulary] = the output head of the first n rows of scratch.normed. */
void forward_head(struct step *s, uint32_t n, float *logits);

#endif
