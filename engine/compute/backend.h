/* The backend: a table of whole operations on arrays that only the backend sees.
 *
 * The forward pass (forward.c, experts.c, drafter_layer.c) says what is computed of which rows, and
 * in which order; the backend computes. A part of a layer is one operation, from the residual
 * stream and back to it. So a backend decides what it computes together: products and norms are its
 * own affair.
 *
 * Arrays of the backend, which nobody else looks into:
 * - a residual stream: what a pass keeps from layer to layer. [rows][streams][hidden], and what
 *   belongs to its rows: inputs of each layer's own, and what attention has chosen;
 * - scratch, which passes share: what is needed within an operation, or from one to the next of the
 *   same layer; and `normed`, [rows][hidden], what the output head reads.
 *
 * In main memory: what comes from outside or is looked at there. Tokens and angles (step.h), the
 * router's choice (routing.h), an expert's record in its slot, logits, and the rows that `show` and
 * `normed` give out; the dense weights (weights.h), and keys, values and states (context.h).
 *
 * One thread at a time calls operations: the one that computes the step. Bits are those of
 * kernels/kernels.h, whatever computes. What step.h says of taps and observers is for the backend
 * to do, but for TAP_STATE, TAP_NORMED and the router's choice.
 */
#ifndef MOEFS_ENGINE_COMPUTE_BACKEND_H
#define MOEFS_ENGINE_COMPUTE_BACKEND_H

#include "engine/compute/routing.h"

enum { JOINED_ROWS = 64 }; /* most rows of a draft layer's input that are made at once */

struct backend {
	const char *name;
	/* -ENOTSUP in words: the config has a layer that the backend cannot compute. */
	int (*computes)(const struct config *c, struct err *e);

	/* ---- memory ---- */

	/* For steps of up to `rows` rows; all of it is taken from the system when the call returns,
	 * so that memory_look sees it. -ENOMEM in words. Freeing NULL is fine. */
	int (*stream_make)(struct residual_stream **out, const struct config *c, uint32_t rows,
			   struct err *e);
	void (*stream_free)(struct residual_stream *x);
	uint64_t (*stream_bytes)(const struct config *c, uint32_t rows);
	int (*scratch_make)(struct scratch **out, const struct config *c, uint32_t rows,
			    struct err *e);
	void (*scratch_free)(struct scratch *x);
	uint64_t (*scratch_bytes)(const struct config *c, uint32_t rows);

	/* ---- the stream ---- */

	/* The stream = the embeddings of the step's tokens. Rows that cannot be read die. */
	void (*embed)(struct step *s);
	/* Once the dead rows are gone: what else is computed before the first layer. */
	void (*begin)(struct step *s);
	/* Rows [from, from + n) of the stream move to the rows from `to` on, before them. */
	void (*move)(struct step *s, uint32_t to, uint32_t from, uint32_t n);
	/* The residual stream in main memory, [rows][streams][hidden], until the next operation. */
	const float *(*show)(struct step *s);

	/* ---- a layer ---- */

	/* Adds what the n-grams of its tokens are to each row. Rows that cannot be read die, and
	 * are taken out of the stream; maybe none is left. */
	void (*ngrams)(struct step *s, uint32_t layer);
	/* The mixer: reads the stream, puts keys, values and states into the rows' contexts, which
	 * have room for them, and adds to the stream. */
	void (*mix)(struct step *s, uint32_t layer);
	/* Only puts keys and values into the contexts, in a layer of attention. */
	void (*mix_keys)(struct step *s, uint32_t layer);
	/* The dense feed-forward: reads the stream, and adds to it. */
	void (*feed)(struct step *s, uint32_t layer);
	/* What a layer does to the stream after its parts. */
	void (*finish)(struct step *s, uint32_t layer);

	/* ---- a feed-forward with experts, in this order (experts.c) ---- */

	/* Reads the stream; fills `chosen`, `weight` and `kept` of the step's routing by the
	 * layer's router, and its logits and scores if any row substitutes experts. */
	void (*route)(struct step *s, uint32_t layer);
	/* `chosen` of a row has other experts, `kept` of them: their weights anew. Those that are
	 * off are left out. */
	void (*reweigh)(struct step *s, uint32_t layer, size_t row);
	/* Fills the routing's `rank` by the router of a later layer, run on the stream as it is
	 * now; at most PREDICT_MOST rows. */
	void (*guess)(struct step *s, uint32_t later);
	/* While experts are read: what all experts read, and the shared expert. The rows are
	 * grouped by expert. */
	void (*begin_experts)(struct step *s, uint32_t layer);
	/* Computes the experts that `ready` names, `index` among the step's distinct ones, by all
	 * rows that chose them. Each expert comes once, in any order. The slots are the caller's
	 * again after the call. */
	void (*wave)(struct step *s, uint32_t layer, const struct pager_ready *ready,
		     uint32_t count);
	/* Each row sums its experts in ascending order, and the shared one; adds the sum to the
	 * stream. What becomes of dead rows does not matter. */
	void (*end_experts)(struct step *s, uint32_t layer);

	/* ---- outputs ---- */

	/* normed[n] = what the output head reads of rows[n] of the stream; NULL: of the first n
	 * rows. norm: TENSOR_FINAL_NORM, or a draft layer's TENSOR_DRAFT_NORM. */
	void (*end)(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n);
	/* logits[n][vocabulary] = the output head of the first n rows of normed. */
	void (*head)(struct step *s, uint32_t n, float *logits);
	/* normed in main memory, until the next operation on a layer. The caller may move rows. */
	float *(*normed)(struct scratch *x);
	/* Rows [first, first + n) of a draft layer's stream, which hold embeddings, become its
	 * input: the projection of the embedding's norm and that of hidden[t]. n: at most
	 * JOINED_ROWS. */
	void (*join)(struct step *s, uint32_t first, const float *const *hidden, uint32_t n);
};

#endif
