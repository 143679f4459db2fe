/* The forward pass: a batch of rows (step.h) through all layers.
 *
 * In each layer a mixer and a feed-forward add to the residual stream. The backend computes them
 * (backend.h). Differences between families are data in the config.
 *
 * Results do not depend on the chunks of a text, the other rows of the batch, the number of threads or
 * the cache (promise 2): matrix products compute each token independently, attention works in blocks
 * of 64 absolute positions, delta nets compute one token after the other, and experts are summed in
 * ascending order.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "engine/compute/arena.h"
#include "engine/compute/backend.h"

/* A step on its way through the layers, with everything that it needs between two layers. So a
 * prompt's pass can wait between two layers while passes of answers and draft layers run. */
struct forward_pass {
	uint32_t rows; /* most rows of a step */
	const struct backend *backend;
	struct residual_stream *stream; /* owned by the backend: the rows' data from layer to layer */
	struct rotation rotations[CONFIG_ROPES];
	struct step_span *spans; /* [rows] at most */
	uint32_t *span_of;	 /* [rows] */
	uint32_t *tokens;	 /* [rows], as in the batch */
	bool *untold;		 /* [layers], see struct step */
	bool settled;		 /* nothing of the layers is left to the backend */

	struct step step;
	const struct step_batch *batch; /* NULL: no step is in progress */
	const struct observer *observer;
	float *logits;
	uint32_t layer; /* the next layer; after the last layer come the outputs */
	/* Rows whose logits are wanted: in the step, in the batch, and among those of the batch. */
	uint32_t *wanted, *wanted_row, *wanted_index; /* [rows] */
	uint32_t wanted_count, wanted_done;
	void *memory;
	size_t bytes;
};

/* The forward pass of one model. Used by one thread at a time. */
struct forward {
	struct environment env;
	uint32_t chunk; /* most rows per call */
	/* Made by forward_init. All passes share scratch, routing and logits: none needs them between
	 * two layers. */
	struct scratch *scratch; /* owned by the backend */
	struct routing routing;	 /* empty in a model without experts */
	/* [HEAD_ROWS][vocabulary]: where logits go, which may be the backend's memory; and memory of
	 * the forward pass. */
	float *logits, *own_logits;
	struct candidate largest[HEAD_ROWS]; /* of the logits of some rows, for a reader */
	void *memory;		 /* of routing and logits */
	size_t bytes;
	struct forward_pass pass; /* of forward_run, and of draft layers; never waits */
	uint64_t token_count;	  /* tokens computed since loading: the pager's clock */
};

/* Set env and chunk first; forward_init allocates the rest. It touches all pages, so that memory_look
 * counts them. -ENOMEM with a sentence. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Replaces this memory by memory for `chunk` rows per call, at least as many as a waiting pass has.
 * After an error the old memory stays. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* Bytes of this memory for `chunk` rows. */
uint64_t forward_bytes(const struct backend *b, const struct config *c, uint32_t chunk);

/* Computes 1 … chunk rows and appends their tokens to their contexts; contexts with a recurrent
 * state are then behind by their drafted rows.
 *
 * logits: [rows that want logits][vocabulary], in the order of the rows; NULL: f->logits, which has
 * room for HEAD_ROWS rows; unused if the batch has a reader. If the batch wants `normed`,
 * forward_normed returns it: [rows][hidden]. Values of dead rows are undefined.
 *
 * Spans end independently (struct step_account): a call that returns 0 may have stopped or failed
 * spans. An error of the call concerns all spans: -ENOMEM, the result of the batch's reader, or
 * -EINVAL for an impossible batch. Exception: the failure of a span without an account is returned,
 * too, although the other spans have ended independently.
 *
 * After an error, of the call or of a span, the contexts are as before, except that a recurrent state
 * may have to go back further: its context then holds fewer tokens than before. */
int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e);
/* Has a context's recurrent state in main memory, wherever the backend keeps it: before it is read
 * there, or the context is left to other threads. Between two steps, by the thread that computes. A state
 * that is lost is computed again by the context's next step. */
void forward_bring_state(struct forward *f, struct context *x);
/* Returns the final norm's output in main memory, valid until the next step or draft. */
float *forward_normed(struct forward *f);

/* ---- a step that may wait between two layers ---- */

/* Allocates a pass of up to `rows` rows, beside the forward pass's own. -ENOMEM with a sentence. */
int forward_pass_init(struct forward_pass *p, const struct environment *env, uint32_t rows,
		      struct err *e);
void forward_pass_free(struct forward_pass *p); /* no step may be in progress */
uint64_t forward_pass_bytes(const struct backend *b, const struct config *c, uint32_t rows);

/* Begins a step that forward_go_on continues. The pass uses batch, logits and contexts until it has
 * ended. 1: the pass waits before its first layer. Other results: it has ended, as in forward_run. */
int forward_begin(struct forward *f, struct forward_pass *p, const struct step_batch *b,
		  float *logits, struct err *e);
/* Computes the next `pieces` of a waiting pass. Pieces are its layers and then, if the batch has a
 * reader, groups of HEAD_ROWS logits. pieces 0: only ends spans that have been asked to stop. Returns
 * as forward_begin. Other passes of the same forward may run between two calls. */
int forward_go_on(struct forward *f, struct forward_pass *p, uint32_t pieces, struct err *e);
/* Ends a waiting pass; its spans fail with `why`. */
void forward_give_up(struct forward *f, struct forward_pass *p, const struct err *why);

/* ---- pieces of a pass, for the draft layer, whose pass has one layer ---- */

/* Returns a step of the rows of the pass's first `count` spans, with the rows' rotations. p->tokens
 * must hold the rows' tokens. */
struct step forward_step(struct forward *f, struct forward_pass *p, uint32_t count);
/* Reserves room in every context and embeds the rows' tokens. Rows for which that fails die and are
 * removed from the stream. */
void forward_embed(struct step *s);
/* Runs the stream through a layer; the contexts have room for the rows. Rows may have died. */
int forward_layer(struct step *s, uint32_t layer, struct err *e);

#endif
