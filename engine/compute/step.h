/* A step: one call of the forward pass, and the data that its parts share.
 *
 * The caller fills a batch of rows, each a token at a position of a context. A prompt's chunk, the
 * answers of several sessions and drafts to verify are rows of one batch: they share each read of
 * the weights, and an expert that several rows chose is read from disk once. A row's numbers do not
 * depend on the other rows (promise 2 in engine/README.md).
 *
 * The rows of one context are adjacent, at the positions that follow the context's tokens: first
 * the certain rows (of a prompt, or an answer's last token), then the drafted rows. step_find_spans
 * cuts the batch into spans, one per context. forward.c gives each operation of the backend
 * (backend.h) a struct step.
 *
 * Each span ends independently: done, stopped, or failed with a sentence (struct step_account). The
 * rows of a stopped or failed span are dead. They are removed from the stream before the next layer,
 * so they take no time from the other rows: a prompt's chunk can be stopped while answers continue.
 * Within the layer in which they die, dead rows may still be computed; their values are not used. If
 * an expert of a drafted row cannot be read, only this row and the rows after it die.
 *
 * Not in this file: the layers themselves, and which rows are computed when (engine/run,
 * engine/turn).
 */
#ifndef MOEFS_ENGINE_COMPUTE_STEP_H
#define MOEFS_ENGINE_COMPUTE_STEP_H

#include "cache/pager.h"
#include "engine/compute/arena.h"
#include "engine/compute/context.h"
#include "engine/compute/sampler.h"
#include "engine/compute/threads.h"
#include "engine/compute/weights.h"

/* ---- rows ---- */

/* Losses: quality that a session gives up for speed. They are off unless the session's params ask for
 * them, and its stats name them. The rules apply to one step: a chunk of a prompt, or one token of an
 * answer.
 *
 * Fewer experts: each token passes through the first few experts of its router's choice, weighted
 * as in a model with this top-k.
 *
 * Dropped experts: a step skips an expert if it is not in memory when its layer begins and every
 * token of the step gives it a weight below the threshold. A token's heaviest expert is never
 * dropped. The weights of the remaining experts are scaled up to the same sum. The text then
 * depends on what is in the cache, and so on the cache's size and on all earlier steps.
 *
 * Substituted experts: an expert that is not in memory when its layer begins is replaced by one that
 * is, if no token of the step must have it and the replacement is among the router's first ranks
 * (substitute.h). The replacement's score is used in place of the missing expert's, before weights are
 * computed. The text depends on the cache as with dropped experts. Experts that are still missing may
 * be dropped.
 */
/* Steered routing: numbers that are added to the router's logits of single experts before the choice.
 * The weights follow from the changed logits. Minus infinity: the expert is never chosen.
 */
struct steering {
	uint32_t layers, experts;
	float *bias; /* [layers][experts] */
};

struct losses {
	uint32_t experts_per_token; /* less than the model's own; 0: the model's own */
	float drop_missing;	    /* the threshold; 0: no expert is dropped */
	/* Ranks below `keep` are never substituted; substitutes come from ranks below `window`;
	 * window 0: no substitutes. */
	uint32_t substitute_keep, substitute_window;
	uint64_t steered;	    /* identifies the steering; 0: no steering */
	const struct steering *steering; /* valid only in rows of a running turn */
};

static inline bool step_same_losses(const struct losses *a, const struct losses *b)
{
	return a->experts_per_token == b->experts_per_token &&
	       a->drop_missing == b->drop_missing && a->steered == b->steered &&
	       a->substitute_keep == b->substitute_keep &&
	       a->substitute_window == b->substitute_window;
}

/* Whether the text depends on what is in the cache. */
static inline bool step_needs_cache(const struct losses *x)
{
	return x->drop_missing > 0 || x->substitute_window;
}

enum row_kind { ROW_PROMPT, ROW_ANSWER, ROW_DRAFT };
enum { ANSWER_ROWS = 5 }; /* most rows of one answer in a step: its token and the drafts */
/* Most rows whose logits are computed together. The logits of a row take more memory than its other
 * data, and from a few rows on products are bound by arithmetic, so more rows would gain nothing. */
enum { HEAD_ROWS = 8 };

struct step_row {
	struct context *context;
	uint32_t position, token;
	enum row_kind kind;
	bool logits; /* the caller wants this row's logits */
	bool only_largest; /* …but the reader needs nothing of them but the largest */
	/* Of the row's session, the same for all rows of a context: */
	struct losses losses;
	struct step_account *account; /* NULL: if the span fails, the call fails */
};

/* What a reader gets of n rows: all[n][vocabulary], which it may change, and then `largest` has nothing. Or, where no
 * row of them needs more and the backend finds it faster, `all` is NULL, and largest[n] has each row's largest logit
 * (`p`) and its token. */
struct step_logits {
	float *all;
	const struct candidate *largest;
};
/* Those of one of the rows. */
static inline struct step_logits step_logits_of_row(const struct step_logits *l, uint32_t row,
						    uint32_t vocabulary)
{
	return (struct step_logits){l->all ? l->all + (size_t)row * vocabulary : NULL,
				    l->largest + row};
}

struct step_batch { /* zero-initialise; freed by step_batch_free */
	struct step_row *rows;
	uint32_t count, room;
	bool normed; /* the caller wants the final norm's output of all rows */
	/* If not NULL: called with the logits of rows[n] of the batch, n at most HEAD_ROWS, in the
	 * order of the rows, before the next logits are computed. May use the compute threads. A
	 * result other than 0 ends the whole step with that code. */
	int (*read)(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		    struct err *e);
	void *ctx;
};

void step_batch_clear(struct step_batch *b);
void step_batch_free(struct step_batch *b);
/* Adds n rows like `like`, at the positions after those of the context and of the batch. */
int step_batch_add(struct step_batch *b, const struct step_row *like, const uint32_t *tokens,
		   uint32_t n, struct err *e);

/* The rows of one context. */
struct step_span {
	struct context *context;
	uint32_t first, n; /* live rows of the step; n 0: all are dead */
	uint32_t origin;   /* the batch's number of the first row */
	uint32_t position; /* of the first row */
	uint32_t certain;  /* rows that were not drafted, 1 … n; drafted ones follow */
	bool prompt;	   /* the certain rows belong to a prompt */
	bool cut;	   /* drafted rows have died */
	/* Of all rows: */
	struct losses losses;
	struct step_account *account; /* may be NULL */
};

/* Fills spans[] (at most one per row) and returns their number. -EINVAL with a sentence: the rows are
 * not in the order that the head of this file describes. */
int step_find_spans(const struct step_batch *b, struct step_span *spans, struct err *e);

/* ---- taps, traces, observers ---- */

/* Points of a step at which a test or a tool can look. rows: [tokens][width], the rows of one span;
 * position: of the first row. */
enum tap_point {
	TAP_STATE,	    /* the residual stream; layer 0: the embedding, l + 1: after layer l */
	TAP_NORMED,	    /* after the final norm */
	TAP_ROUTER_LOGITS,  /* here and in the next two, layer counts routed layers only */
	TAP_ROUTER_WEIGHTS, /* the router's choice, before experts are dropped */
	TAP_ROUTER_EXPERTS, /* as floats, in descending order of weight */
	/* For attention to chosen positions, row by row: the scores of a row's candidates, and the
	 * choice, as floats. layer: the layer times the index's groups, plus the group. */
	TAP_INDEX_SCORES,
	TAP_INDEX_CHOICE,
};
typedef void tap_fn(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		    uint32_t tokens, uint32_t width, const float *rows);

/* The experts that one span's rows pass through in one layer, reported before they are computed,
 * without the experts that drop_missing skips. The source of experts/trace. */
struct picks {
	const struct step_span *span;
	uint32_t layer; /* among all layers */
	uint32_t stride;
	const uint32_t *kept;	/* [span->n]: how many experts each row has */
	const uint32_t *chosen; /* [span->n][stride], descending weight */
	/* [experts]: the expert was not in memory, and no span has reported its read yet. The
	 * callback clears the flags of the experts that it reports, since an expert is read once
	 * for all rows of a step. */
	bool *absent;
	const bool *held; /* [experts]: the backend held the expert in its own memory */
};

/* Collects the inputs of matrices, for refining. */
struct observer {
	/* Gets n inputs of a tensor, in the order of the text: x[rows[i]][cols], or, if rows is NULL,
	 * the first n rows of x. Gate and up of an expert have the same input, which is reported for
	 * gate. The inputs of all gates, and of all downs, of a layer are reported once more
	 * together, as expert UINT32_MAX. Called by the thread that computes the step, between
	 * products. */
	void (*saw)(void *ctx, struct tensor_id id, const float *x, uint32_t cols,
		    const uint32_t *rows, uint32_t n);
	void *ctx;
};

/* How a span ended. */
enum span_end { SPAN_DONE, SPAN_STOPPED, SPAN_FAILED };

/* A context's wishes for its steps, and their results. Owned by the caller; zero-initialise. */
struct step_account {
	/* Set by the caller: */
	const _Atomic bool *stop; /* once true, the rows die within one layer; NULL: never. The
				     thread that sets it must call pager_wake. */
	void (*picked)(void *ctx, const struct picks *p); /* may be NULL */
	void *picked_ctx;
	const struct observer *observer; /* NULL: none; else the span is the only one of its step */

	/* Set by each step: */
	enum span_end end;
	uint32_t rows;	  /* rows that the context gained: 0 unless SPAN_DONE; fewer than the
			     span's rows if drafted rows failed */
	struct err error; /* code 0: nothing failed */

	/* Added to by each step: distinct experts that the rows chose, layer by layer. */
	uint64_t hits, misses;
	uint64_t reads;	  /* misses, each counted for one span of the step only */
	uint64_t dropped; /* skipped because of losses.drop_missing */
	uint64_t substituted; /* replaced experts, summed over rows */
	uint64_t ngram_rows, ngram_waits; /* n-gram rows; of these, not in memory when needed */
};

/* ---- shared by all steps of a model ---- */

struct environment {
	const struct config *config;
	const struct plan *plan;
	const struct weights *weights;
	const struct backend *backend; /* uses the next three */
	struct cuda_model *on_card; /* what it has in GPU memory; NULL: another backend */
	/* Computes from the moment on at which `backend` has failed; NULL: it does not fail. Then
	 * fell_back is called, once, by the thread that computes. */
	const struct backend *fallback;
	void (*fell_back)(void *ctx, const struct err *why);
	void *fell_back_ctx;
	const struct kernels *kernels;
	struct threads *threads;
	struct pager_source *experts; /* NULL in a model without experts */
	struct ngram_tables *ngrams;  /* NULL in a model without n-grams */
	/* These may change between steps. */
	tap_fn *tap; /* may be NULL */
	void *tap_ctx;
	const struct observer *observer; /* of the current step; set by forward.c */
};

/* Rotary positions (Su et al. 2021): the angles of a step's rows, for one of the rotations that a
 * model's layers have (family/rope.h). rotation.c computes them. */
struct rotation {
	uint32_t half;	   /* pairs of a head that are rotated; 0: no layer has this rotation */
	double *frequency; /* [half] */
	float *cos, *sin;  /* [rows][half], times the amplitude */
};

/* Takes the arrays of all rotations for `rows` rows. */
void rotation_take(struct rotation all[CONFIG_ROPES], struct arena *a, const struct config *c,
		   size_t rows);
/* Computes the frequencies. */
void rotation_init(struct rotation all[CONFIG_ROPES], const struct config *c);
/* The angles of one position: cos[half], sin[half]. */
void rotation_at(const struct rotation *r, const struct rope *rope, size_t position, float *cos,
		 float *sin);
/* Rotates the pairs (x[2 i], x[2 i + 1]) of half · 2 numbers by the angles; back: by their negatives. */
void rotation_turn_pairs(float *x, const float *cos, const float *sin, uint32_t half, bool back);
/* Gives rows [first, first + n) the angles of positions [position, position + n). long_text: in a
 * model with other frequencies for long texts, whether the rows belong to a long text. */
void rotation_set(struct rotation all[CONFIG_ROPES], const struct config *c, uint32_t first,
		  uint32_t position, uint32_t n, bool long_text);

/* ---- a step on its way through the layers ---- */

struct step {
	const struct environment *env;
	uint32_t n; /* rows */
	struct step_span *spans;
	uint32_t span_count;
	uint32_t *span_of; /* [n]: the index of each row's span */
	bool died;	   /* the stream still has dead rows */
	bool *untold;	   /* [layers]: the backend has yet to tell the layer's choice (experts.c) */
	uint64_t clock; /* tokens computed since loading, this step's included: the pager's clock */

	struct residual_stream *stream; /* owned by the backend (backend.h) */
	struct scratch *scratch;	/* owned by the backend */
	struct routing *routing;	/* in a layer with experts; NULL in a model without */
	struct rotation *rotations;	/* [CONFIG_ROPES], of these rows */
	const uint32_t *tokens; /* of the batch; a span's begin at its origin */
	struct err lost;	    /* why the first span without an account failed */
};

static inline struct step_span *step_span_of(const struct step *s, size_t row)
{
	return &s->spans[s->span_of[row]];
}

/* A row's token. */
static inline uint32_t step_token(const struct step *s, size_t row)
{
	const struct step_span *span = step_span_of(s, row);
	return s->tokens[span->origin + row - span->first];
}

/* Whether a row lives. */
static inline bool step_row_lives(const struct step *s, size_t row)
{
	const struct step_span *span = step_span_of(s, row);
	return row - span->first < span->n;
}

/* Resets the results in the span's account. */
void step_open(struct step_span *span);
/* If the span lives, appends tokens[n] to its context; sets the results in its account. */
void step_close(struct step *s, struct step_span *span, const uint32_t *tokens);
/* Returns the failure of a span without an account, which is a failure of the whole call; else 0. */
int step_lost(const struct step *s, struct err *e);
/* Kills the rows of a span from its row number `from` on. If all of them are drafted, the other rows
 * continue. Otherwise the whole span ends, and its context goes back to where the span began, or
 * further (context_rollback). */
void step_kill(struct step *s, struct step_span *span, uint32_t from, enum span_end end,
	       const struct err *why);
/* Whether a live span has been asked to stop. s: a struct step. */
bool step_must_stop(void *s);
/* Ends the spans that have been asked to stop. */
void step_stop(struct step *s);
/* Removes dead rows from the stream. Called between two layers. */
void step_close_up(struct step *s);

/* Shows rows[n][width] to the tap, if there is one, span by span. */
void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows);

#endif
