/* The backend: a table of whole operations on arrays that only the backend reads and writes.
 *
 * The forward pass (forward.c, experts.c, drafter_layer.c) decides which operations run on which
 * rows, and in which order. The backend computes them. A part of a layer is one operation: it reads
 * the residual stream and adds to it. So the backend decides which products and norms it fuses.
 *
 * Arrays of the backend:
 * - a residual stream: what a pass keeps from layer to layer. [rows][streams][hidden], and data of
 *   its rows: the inputs that single layers have, and the positions that attention has chosen;
 * - scratch, shared by all passes: what is needed within an operation, or between operations of the
 *   same layer; and `normed`, [rows][hidden], the input of the output head.
 *
 * In main memory, for both sides: tokens and angles (step.h), the router's choice (routing.h), an
 * expert's record in its slot, logits, and the rows that `show` and `normed` return; the dense
 * weights (weights.h); keys and values (context.h), and states unless they are away (recurrent.h).
 *
 * Only the thread that computes the step calls operations. Every backend computes the bits that
 * kernels/kernels.h defines. The backend calls the step's taps and observers (step.h), except for
 * TAP_STATE, TAP_NORMED and the router's choice.
 */
#ifndef MOEFS_ENGINE_COMPUTE_BACKEND_H
#define MOEFS_ENGINE_COMPUTE_BACKEND_H

#include "engine/compute/routing.h"

enum { JOINED_ROWS = 64 }; /* most rows of a draft layer's input that `join` makes in one call */

struct backend {
	/* 0, or -ENOTSUP with a sentence: the config has a layer that the backend cannot compute. */
	int (*computes)(const struct config *c, struct err *e);

	/* ---- memory ---- */

	/* For steps of up to `rows` rows of the environment's model. All pages of main memory are
	 * touched before the call returns, so that memory_look counts them; stream_bytes and
	 * scratch_bytes are the main memory's. -ENOMEM with a sentence. stream_free and scratch_free
	 * accept NULL. */
	int (*stream_make)(struct residual_stream **out, const struct environment *env,
			   uint32_t rows, struct err *e);
	void (*stream_free)(struct residual_stream *x);
	uint64_t (*stream_bytes)(const struct config *c, uint32_t rows);
	int (*scratch_make)(struct scratch **out, const struct environment *env, uint32_t rows,
			    struct err *e);
	void (*scratch_free)(struct scratch *x);
	uint64_t (*scratch_bytes)(const struct config *c, uint32_t rows);

	/* ---- the stream ---- */

	/* Fills the stream with the embeddings of the step's tokens. Rows that cannot be read die
	 * (step_kill). */
	void (*embed)(struct step *s);
	/* Called once the dead rows are removed: computes what else precedes the first layer. */
	void (*begin)(struct step *s);
	/* Moves rows [from, from + n) of the stream to rows [to, to + n); to < from. */
	void (*move)(struct step *s, uint32_t to, uint32_t from, uint32_t n);
	/* Returns the residual stream in main memory, [rows][streams][hidden], valid until the next
	 * operation. */
	const float *(*show)(struct step *s);

	/* ---- backends that can fail ---- */

	/* 0, or the error of an operation since the backend was made, which stays: the results of
	 * the step are worthless, and the model has to be computed by the CPU from here on. NULL:
	 * operations do not fail. */
	int (*failed)(const struct environment *env, struct err *e);
	/* When all layers of a step have been computed, before its tokens are appended, and where
	 * logits are wanted after `end` and before `head` or `largest`: the rows' keys and values are in their
	 * contexts when the call returns, and so are states that are not away. NULL: they are there
	 * after each layer. */
	void (*settle)(struct step *s);

	/* ---- recurrent states in the backend's own memory (recurrent.h); NULL: there are none ---- */

	/* Whether it has the copy of a context's state. If a step begins while the state is away and
	 * the copy is not there, the text is computed again from a checkpoint. A state that is not
	 * copied is copied by the step; where it is copied, `settle` leaves it away. */
	bool (*has_state)(const struct environment *env, const struct context *x);
	/* Copies a state that is away to main memory. False: it is lost. Between two steps. */
	bool (*bring_state)(const struct environment *env, struct context *x);

	/* ---- a layer ---- */

	/* Adds the embeddings of its tokens' n-grams to each row. Rows that cannot be read die and
	 * are removed from the stream; perhaps no row is left. */
	void (*ngrams)(struct step *s, uint32_t layer);
	/* The mixer: reads the stream, stores keys, values and states in the rows' contexts, which
	 * have room for them, and adds its output to the stream. */
	void (*mix)(struct step *s, uint32_t layer);
	/* For a layer of attention: only stores keys and values in the contexts. */
	void (*mix_keys)(struct step *s, uint32_t layer);
	/* The dense feed-forward: reads the stream and adds its output to it. */
	void (*feed)(struct step *s, uint32_t layer);
	/* What a layer does to the stream after its parts. */
	void (*finish)(struct step *s, uint32_t layer);

	/* ---- a feed-forward with experts at once ---- */

	/* Whether an expert of a routed layer lies in the backend's own memory: it is not asked of
	 * the pager, and end_experts adds it. NULL: none does. The answer does not change within a
	 * step. */
	bool (*holds)(const struct environment *env, uint32_t routed, uint32_t expert);
	/* Computes the layer's whole feed-forward, the router's choice included, if the backend
	 * holds all of its experts and nobody can have an influence on the choice; else false.
	 * NULL: never. */
	bool (*feed_held)(struct step *s, uint32_t layer);
	/* Fills the routing's `chosen`, `weight` and `kept` with the choice that feed_held made in
	 * a layer of this step; rows have not been moved since. */
	void (*tell_choice)(struct step *s, uint32_t layer);

	/* ---- a feed-forward with experts, in this order (experts.c) ---- */

	/* Reads the stream; fills `chosen`, `weight` and `kept` of the step's routing by the
	 * layer's router, and its logits and scores if any row substitutes experts. */
	void (*route)(struct step *s, uint32_t layer);
	/* The experts in `chosen` of a row, `kept` of them, have been replaced: computes their
	 * weights anew. Experts that are switched off are left out. */
	void (*reweigh)(struct step *s, uint32_t layer, size_t row);
	/* Runs the router of a later layer on the stream as it is now and fills the routing's
	 * `rank`. At most PREDICT_MOST rows. */
	void (*guess)(struct step *s, uint32_t later);
	/* Called while experts are read from disk: computes the input of all experts, the shared
	 * expert, and experts that the backend holds, unless `route` has begun with these. The rows
	 * are grouped by expert. */
	void (*begin_experts)(struct step *s, uint32_t layer);
	/* Computes the experts in `ready` (`index`: among the step's distinct experts) for all rows
	 * that chose them. Each expert comes once, in any order. The backend does not use the slots
	 * after the call. */
	void (*wave)(struct step *s, uint32_t layer, const struct pager_ready *ready,
		     uint32_t count);
	/* Sums each row's experts in ascending order, and the shared expert, and adds the sum to
	 * the stream. Dead rows may get any value. */
	void (*end_experts)(struct step *s, uint32_t layer);

	/* ---- outputs ---- */

	/* Makes normed[n], the input of the output head, from rows[n] of the stream; rows NULL: from
	 * the first n rows. norm: TENSOR_FINAL_NORM, or a draft layer's TENSOR_DRAFT_NORM. */
	void (*end)(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n);
	/* Computes logits[n][vocabulary] from the first n rows of normed. */
	void (*head)(struct step *s, uint32_t n, float *logits);
	/* Instead of head: the largest logit of each of the first n rows of normed, n at most HEAD_ROWS, and its
	 * token, as sampler_greedy finds it; where none is above -infinity, -infinity and token 0. False, or
	 * NULL: head must be called. True also after a failure, and then `out` has nothing. */
	bool (*largest)(struct step *s, uint32_t n, struct candidate *out);
	/* Main memory for logits[HEAD_ROWS][vocabulary] of `head`, which needs no copying then; the
	 * scratch's. NULL: the caller has some. */
	float *(*logits)(struct scratch *x);
	/* Returns normed in main memory, valid until the next operation on a layer. The caller may
	 * move rows in it. */
	float *(*normed)(struct scratch *x);
	/* Turns rows [first, first + n) of a draft layer's stream, which hold embeddings, into the
	 * layer's input: a projection of the norms of the embedding and of hidden[t]. n: at most
	 * JOINED_ROWS. */
	void (*join)(struct step *s, uint32_t first, const float *const *hidden, uint32_t n);
};

#endif
