/* A step: what one call of the forward pass computes, and what its parts share meanwhile.
 *
 * The caller fills a batch of rows, each a token at a position of a context. A prompt's chunk, the
 * answers of several sessions and drafts to verify are rows of one batch: they pass the weights
 * together, and an expert that several rows chose is read once. A row's numbers do not depend on
 * the other rows (promise 2 in engine/README.md).
 *
 * The rows of one context are adjacent, at the positions that follow the context's tokens: first
 * the certain rows (of a prompt, or an answer's last token), then drafted ones. step_find_spans
 * cuts the batch into spans, one per context. forward.c gives each operation of the backend
 * (backend.h) a struct step.
 *
 * Each span ends for itself: done, stopped, or failed in words (struct step_account). Its rows are
 * then dead: they are not computed in the next layer, and are taken out of the stream before it, so
 * that they cost the others nothing, however many they are (a prompt's chunk may be stopped while
 * answers continue). Within the layer they are computed or not, and nobody looks. If an expert of a
 * drafted row cannot be read, only this row and those after it die.
 *
 * Not here: the layers themselves, and who wants which rows (engine/run, engine/turn).
 */
#ifndef MOEFS_ENGINE_COMPUTE_STEP_H
#define MOEFS_ENGINE_COMPUTE_STEP_H

#include "cache/pager.h"
#include "engine/compute/arena.h"
#include "engine/compute/context.h"
#include "engine/compute/threads.h"
#include "engine/compute/weights.h"

/* ---- rows ---- */

/* What a session may give up for speed: off unless its params ask for it, and named in its stats
 * when on. Both rules speak of one step: a chunk of a prompt, or one token of an answer.
 *
 * Fewer experts: each token passes through the first few experts of its router's choice, with the
 * weights of a model that has this top-k. The text depends on nothing else.
 *
 * Dropped experts: a step skips an expert that is not in memory when its layer begins and to which
 * every token of the step gives a weight below the threshold. A token's heaviest expert is never
 * dropped. The weights of the remaining experts are scaled up to the same sum. The text then
 * depends on what the cache holds, and so on the cache's size and on all earlier steps.
 *
 * Substituted experts: an expert that is not in memory when its layer begins, and that no token of the
 * step needs otherwise, gives its place to one that is, if that is among the router's first ranks
 * (substitute.h). Its score takes the place of the missing one's before weights are made of scores. The
 * text depends on the cache as with dropped experts; what is missing after this may be dropped.
 */
/* Steered routing: numbers are added to the router's logits of single experts, before the choice;
 * the weights are those of the changed logits. An expert whose number is minus infinity is never
 * chosen.
 */
struct steering {
	uint32_t layers, experts;
	float *bias; /* [layers][experts] */
};

struct losses {
	uint32_t experts_per_token; /* less than the model's own; 0: the model's own */
	float drop_missing;	    /* the threshold; 0: no expert is dropped */
	/* The first ranks that are never substituted; those that substitutes are among, 0: none are. */
	uint32_t substitute_keep, substitute_window;
	uint64_t steered;	    /* identifies the steering; 0: there is none */
	const struct steering *steering; /* of a row while its turn lives; else not to be used */
};

static inline bool step_same_losses(const struct losses *a, const struct losses *b)
{
	return a->experts_per_token == b->experts_per_token &&
	       a->drop_missing == b->drop_missing && a->steered == b->steered &&
	       a->substitute_keep == b->substitute_keep &&
	       a->substitute_window == b->substitute_window;
}

/* Whether numbers depend on what is in the cache. */
static inline bool step_needs_cache(const struct losses *x)
{
	return x->drop_missing > 0 || x->substitute_window;
}

enum row_kind { ROW_PROMPT, ROW_ANSWER, ROW_DRAFT };
enum { ANSWER_ROWS = 5 }; /* most rows of one answer in a step: its token and the drafts */
/* Most rows whose logits are computed together. Logits of a whole vocabulary take more room than
 * the rest of a row, and products are bound by computing from a few rows on. */
enum { HEAD_ROWS = 8 };

struct step_row {
	struct context *context;
	uint32_t position, token;
	enum row_kind kind;
	bool logits; /* are wanted */
	/* The row's session's, the same for all rows of a context: */
	struct losses losses;
	struct step_account *account; /* NULL: a failure of the span is one of the whole call */
};

struct step_batch { /* zero-initialise; freed by step_batch_free */
	struct step_row *rows;
	uint32_t count, room;
	bool normed; /* the final norm's output is wanted of all rows, whether logits are or not */
	/* Not NULL: is given the logits of the rows that want them, in their order, any number of
	 * rows: logits[n][vocabulary] of rows[n] of the batch, n at most HEAD_ROWS, before the next
	 * are computed. May use the compute threads. Other than 0 ends the whole step with that
	 * code. */
	int (*read)(void *ctx, const uint32_t *rows, uint32_t n, const float *logits,
		    struct err *e);
	void *ctx;
};

void step_batch_clear(struct step_batch *b);
void step_batch_free(struct step_batch *b);
/* Adds n rows like `like`, at the positions after those that the context and the batch hold. */
int step_batch_add(struct step_batch *b, const struct step_row *like, const uint32_t *tokens,
		   uint32_t n, struct err *e);

/* The rows of one context. */
struct step_span {
	struct context *context;
	uint32_t first, n; /* rows of the step that live; n is 0 if none does */
	uint32_t origin;   /* row of the batch that the first one is */
	uint32_t position; /* of the first row */
	uint32_t certain;  /* rows that were not drafted, 1 … n; drafted ones follow */
	bool prompt;	   /* the certain rows are a prompt's */
	bool cut;	   /* drafted rows have died */
	/* Of all rows: */
	struct losses losses;
	struct step_account *account; /* may be NULL */
};

/* Fills spans[batch rows at most] and returns their number; -EINVAL in words if the rows are not
 * in the order that the head of this file describes. */
int step_find_spans(const struct step_batch *b, struct step_span *spans, struct err *e);

/* ---- taps, traces, observers ---- */

/* Where a test or a tool looks. rows: [tokens][width], the rows of one span; position: the first
 * row's. */
enum tap_point {
	TAP_STATE,	    /* the residual stream; layer 0: the embedding, l + 1: after layer l */
	TAP_NORMED,	    /* after the final norm */
	TAP_ROUTER_LOGITS,  /* here and in the next two, layer counts routed layers only */
	TAP_ROUTER_WEIGHTS, /* the router's choice, before experts are dropped */
	TAP_ROUTER_EXPERTS, /* as floats, in descending order of weight */
	/* Of attention that chooses, row by row: the scores of a row's candidates, and what was
	 * chosen, as floats. layer is the layer times the index's groups plus the group. */
	TAP_INDEX_SCORES,
	TAP_INDEX_CHOICE,
};
typedef void tap_fn(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		    uint32_t tokens, uint32_t width, const float *rows);

/* Which experts one span's rows pass through in one layer, shown before they are computed. Experts
 * that drop_missing skips are not among them. experts/trace is made of this. */
struct picks {
	const struct step_span *span;
	uint32_t layer; /* among all layers */
	uint32_t stride;
	const uint32_t *kept;	/* [span->n]: how many experts each row has */
	const uint32_t *chosen; /* [span->n][stride], descending weight */
	/* [experts]: the expert was not in memory, and has not been shown as read yet. The
	 * callback clears the flag of each expert that it shows: an expert is read once for all
	 * rows of a step. */
	bool *absent;
};

/* Who collects the inputs of matrices, to learn what they are like (refining). */
struct observer {
	/* Inputs of a tensor: x[rows[i]][cols] for n of them, or the first n if rows is NULL, in
	 * the order of the text. Gate and up of an expert have the same input: it is shown for
	 * gate. The inputs of all gates and of all downs of a layer are shown once more together,
	 * as expert UINT32_MAX. Called in the thread that computes the step, between products. */
	void (*saw)(void *ctx, struct tensor_id id, const float *x, uint32_t cols,
		    const uint32_t *rows, uint32_t n);
	void *ctx;
};

/* How a span ended. */
enum span_end { SPAN_DONE, SPAN_STOPPED, SPAN_FAILED };

/* What one context wants of its steps, and what came of it. The caller's; zero-initialise. */
struct step_account {
	/* Set by the caller: */
	const _Atomic bool *stop; /* once true, the rows die within one layer; NULL: they do not.
				     The thread that sets it calls pager_wake. */
	void (*picked)(void *ctx, const struct picks *p); /* may be NULL */
	void *picked_ctx;
	const struct observer *observer; /* NULL: none; else the span is the only one of its step */

	/* Set by each step: */
	enum span_end end;
	uint32_t rows;	  /* how many rows the context has got: 0 unless SPAN_DONE, and then fewer
			     than the span's if drafted ones failed */
	struct err error; /* code 0: nothing failed */

	/* Added to by each step: distinct experts that the rows chose, layer by layer. */
	uint64_t hits, misses;
	uint64_t reads;	  /* misses that are counted for no other span of the step */
	uint64_t dropped; /* not used and not read, as losses.drop_missing asks */
	uint64_t substituted; /* places of experts that substitutes took, of each row */
	uint64_t ngram_rows, ngram_waits; /* rows of n-grams; of these not in memory when needed */
};

/* ---- what steps have in common ---- */

/* One model's, the same from step to step. */
struct environment {
	const struct config *config;
	const struct plan *plan;
	const struct weights *weights;
	const struct backend *backend; /* computes; its tools are the next two */
	const struct kernels *kernels;
	struct threads *threads;
	struct pager_source *experts; /* NULL in a model without */
	struct ngram_tables *ngrams;  /* likewise */
	/* These may change between steps. */
	tap_fn *tap; /* may be NULL */
	void *tap_ctx;
	const struct observer *observer; /* of the step that is computed now; set by forward.c */
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
/* Turns the pairs (x[2 i], x[2 i + 1]) of half · 2 numbers by the angles; back: by their negatives. */
void rotation_turn_pairs(float *x, const float *cos, const float *sin, uint32_t half, bool back);
/* Gives rows [first, first + n) the angles of positions [position, position + n). long_text: in a
 * model that turns long texts otherwise, whether they are of one. */
void rotation_set(struct rotation all[CONFIG_ROPES], const struct config *c, uint32_t first,
		  uint32_t position, uint32_t n, bool long_text);

/* ---- a step on its way through the layers ---- */

struct step {
	const struct environment *env;
	uint32_t n; /* rows */
	struct step_span *spans;
	uint32_t span_count;
	uint32_t *span_of; /* [n]: the index of each row's span */
	bool died;	   /* some rows did, and are not yet taken out */
	uint64_t clock; /* tokens computed since loading, this step's included: the pager's clock */

	struct residual_stream *stream; /* the backend's (backend.h) */
	struct scratch *scratch;	/* likewise */
	struct routing *routing;	/* in a layer with experts; NULL in a model without */
	struct rotation *rotations;	/* [CONFIG_ROPES], of these rows */
	const uint32_t *tokens; /* of the batch: those of a span from its origin on */
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

/* The span's account begins again. */
void step_open(struct step_span *span);
/* Appends tokens[n] to the span's context, if the span lives, and tells its account. */
void step_close(struct step *s, struct step_span *span, const uint32_t *tokens);
/* 0, or the failure of a span without an account, which is one of the whole call. */
int step_lost(const struct step *s, struct err *e);
/* Rows of a span die, from its row number `from` on. If they were all drafted, the others continue
 * without them. Otherwise the whole span ends, and its context is back where the span began, or
 * before (context_rollback). */
void step_kill(struct step *s, struct step_span *span, uint32_t from, enum span_end end,
	       const struct err *why);
/* Whether a span that lives is to stop. s: a struct step. */
bool step_must_stop(void *s);
/* Ends the spans that are to stop. */
void step_stop(struct step *s);
/* Takes dead rows out of the stream, between two layers. */
void step_close_up(struct step *s);

/* Shows rows[n][width] to the tap, if there is one, span by span. */
void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows);

#endif
