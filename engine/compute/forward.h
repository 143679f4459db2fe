/* The forward pass: a batch of rows (step.h) through all layers.
 *
 * In each layer a mixer and a feed-forward add to the residual stream. What they compute is the
 * backend's (backend.h). What differs between families is data in the config.
 *
 * Every result is independent of how a text is cut into chunks, of the other rows of the batch, of
 * the number of threads and of the cache (promise 2): matrix products treat each token by itself,
 * attention works in blocks of 64 absolute positions, delta nets take token after token, and
 * experts are summed in ascending index.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "engine/compute/arena.h"
#include "engine/compute/backend.h"

/* A step on its way through the layers: all that it needs between two of them. So one pass, a
 * prompt's, can wait there while others run (those of answers, and draft layers). */
struct forward_pass {
	uint32_t rows; /* for which there is room */
	const struct backend *backend;
	struct residual_stream *stream; /* the backend's: what the rows keep from layer to layer */
	struct rotation rotations[CONFIG_ROPES];
	struct step_span *spans; /* [rows] at most */
	uint32_t *span_of;	 /* [rows] */
	uint32_t *tokens;	 /* [rows], as in the batch */

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

/* What the forward pass of one model needs; one thread at a time. */
struct forward {
	struct environment env;
	uint32_t chunk; /* most rows per call */
	/* Made by forward_init; what passes share is needed by none between two layers: */
	struct scratch *scratch; /* the backend's */
	struct routing routing;	 /* empty in a model without experts */
	float *logits;		 /* [HEAD_ROWS][vocabulary] */
	void *memory;		 /* of the last two */
	size_t bytes;
	struct forward_pass pass; /* of forward_run, and of draft layers; never waits */
	uint64_t token_count;	  /* tokens computed since loading: the pager's clock */
};

/* Takes env and chunk from *f and allocates the rest. All the memory is taken from the system
 * when the call returns, so that memory_look sees it. -ENOMEM in words. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Replaces this memory by some for `chunk` rows per call, no fewer than a pass that waits has;
 * after an error the old one stays. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* Bytes of this memory for `chunk` rows. */
uint64_t forward_bytes(const struct backend *b, const struct config *c, uint32_t chunk);

/* Computes 1 … chunk rows and appends their tokens to their contexts; contexts with a recurrent
 * state are then behind by their drafted rows.
 *
 * logits: [rows that want logits][vocabulary], in the rows' order; NULL: f->logits, which has
 * room for HEAD_ROWS rows; unused if the batch has a reader. If the batch wants `normed`,
 * forward_normed has it: [rows][hidden]. What belongs to dead rows is undefined.
 *
 * Spans end for themselves (struct step_account), and a call that returns 0 may have spans that
 * were stopped or have failed. An error of the call is one of all spans: -ENOMEM, what the batch's
 * reader returns, -EINVAL for a batch that cannot be; or else the failure of a span without an
 * account, and then the others have ended for themselves.
 *
 * After an error the contexts are as before the call, except that a recurrent state may have to go
 * back further: its context then holds fewer tokens than before. The same holds for each span. */
int forward_run(struct forward *f, const struct step_batch *b, float *logits, struct err *e);
/* Rows of the final norm, in main memory, until the next step or draft. */
float *forward_normed(struct forward *f);

/* ---- a step that may wait between two layers ---- */

/* Room for passes of up to `rows` rows, beside the forward pass's own. -ENOMEM in words. */
int forward_pass_init(struct forward_pass *p, const struct backend *b, const struct config *c,
		      uint32_t rows, struct err *e);
void forward_pass_free(struct forward_pass *p); /* no step is on its way */
uint64_t forward_pass_bytes(const struct backend *b, const struct config *c, uint32_t rows);

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

/* ---- pieces of a pass, for the draft layer, whose pass has one layer ---- */

/* A step of the rows of the first `count` of the pass's spans, with the rows' rotations. The pass's
 * tokens are those of the rows. */
struct step forward_step(struct forward *f, struct forward_pass *p, uint32_t count);
/* Reserves room in every context, and embeds the rows' tokens. Rows for which that fails die, and
 * are taken out of the stream. */
void forward_embed(struct step *s);
/* Runs the stream through a layer; the contexts have room for the rows. Rows may have died. */
int forward_layer(struct step *s, uint32_t layer, struct err *e);

#endif
