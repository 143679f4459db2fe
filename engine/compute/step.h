/* A step: what one call of the forward pass computes, and what its parts share meanwhile.
 *
 * The caller fills a batch of rows, each a token at a position of a context. A prompt's chunk, the
 * answers of several sessions and drafts to verify are rows of one batch: they pass the weights
 * together, and an expert that several rows chose is read once. A row's numbers do not depend on
 * the other rows (promise 2 in engine/README.md).
 *
 * The rows of one context are adjacent, at the positions that follow the context's tokens: first
 * the certain rows (of a prompt, or an answer's last token), then drafted ones. step_find_spans
 * cuts the batch into spans, one per context. forward.c gives each part of a layer (layers.h) a
 * struct step.
 *
 * Not here: the layers themselves, and who wants which rows (engine/serve).
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
 */
struct losses {
	uint32_t experts_per_token; /* less than the model's own; 0: the model's own */
	float drop_missing;	    /* the threshold; 0: no expert is dropped */
};

static inline bool step_same_losses(const struct losses *a, const struct losses *b)
{
	return a->experts_per_token == b->experts_per_token && a->drop_missing == b->drop_missing;
}

enum row_kind { ROW_PROMPT, ROW_ANSWER, ROW_DRAFT };
enum { ANSWER_ROWS = 5 }; /* most rows of one answer in a step: its token and the drafts */

struct step_row {
	struct context *context;
	uint32_t position, token;
	enum row_kind kind;
	bool logits;	      /* are wanted */
	struct losses losses; /* of the row's session: the same for all rows of a context */
};

struct step_batch { /* zero-initialise; freed by step_batch_free */
	struct step_row *rows;
	uint32_t count, room;
	bool normed; /* the final norm's output is wanted of all rows, whether logits are or not */
	/* Not NULL: is given the logits of each row that wants them, one row after the other, any
	 * number of rows. Other than 0 ends the step with that code. */
	int (*read)(void *ctx, uint32_t row, const float *logits, struct err *e);
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
	uint32_t first, n;    /* rows of the step */
	uint32_t position;    /* of the first row */
	uint32_t certain;     /* rows that were not drafted, 1 … n; drafted ones follow */
	bool prompt;	      /* the certain rows are a prompt's */
	struct losses losses; /* of all rows */
};

/* Fills spans[batch rows at most] and returns their number; -EINVAL in words if the rows are not
 * in the order that the head of this file describes. */
int step_find_spans(const struct step_batch *b, struct step_span *spans, struct err *e);

/* ---- who looks at a step ---- */

/* Where a test or a tool looks. rows: [tokens][width], the rows of one span; position: the first
 * row's. */
enum tap_point {
	TAP_STATE,	    /* the residual stream; layer 0: the embedding, l + 1: after layer l */
	TAP_NORMED,	    /* after the final norm */
	TAP_ROUTER_LOGITS,  /* here and in the next two, layer counts routed layers only */
	TAP_ROUTER_WEIGHTS, /* the router's choice, before experts are dropped */
	TAP_ROUTER_EXPERTS, /* as floats, in descending order of weight */
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
	/* [experts]: the expert was not in memory, and has not been shown as read yet. Whoever
	 * shows it for a row clears it: an expert is read once for all rows of a step. */
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

/* ---- what steps have in common ---- */

/* One model's, the same from step to step. */
struct environment {
	const struct config *config;
	const struct plan *plan;
	const struct weights *weights;
	const struct kernels *kernels;
	struct threads *threads;
	struct pager_source *experts; /* NULL in a model without */
	/* These may change between steps. */
	const _Atomic bool *stop; /* once true, the step ends with -ECANCELED; may be NULL */
	tap_fn *tap;		  /* may be NULL */
	void *tap_ctx;
	void (*picked)(void *ctx, const struct picks *p); /* may be NULL */
	void *picked_ctx;
	const struct observer *observer; /* may be NULL */
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
/* Gives rows [first, first + n) the angles of positions [position, position + n). */
void rotation_set(struct rotation all[CONFIG_ROPES], const struct config *c, uint32_t first,
		  uint32_t position, uint32_t n);

/* ---- a step on its way through the layers ---- */

/* A part of a layer reads `normed` and leaves in `out` what is added to the stream. */
struct step {
	const struct environment *env;
	uint32_t n; /* rows */
	const struct step_span *spans;
	uint32_t span_count;
	const uint32_t *span_of; /* [n]: the index of each row's span */
	uint64_t clock; /* tokens computed since loading, this step's included: the pager's clock */

	float *x;			  /* [n][hidden]: the residual stream */
	struct activation *normed;	  /* [n][hidden]: the norm of x, input of the projections */
	float *out;			  /* [n][hidden], with room for a dense up projection */
	const struct rotation *rotations; /* [CONFIG_ROPES], of these rows */
	uint64_t dropped;		  /* reads that drop_missing has saved */
};

static inline const struct step_span *step_span_of(const struct step *s, size_t row)
{
	return &s->spans[s->span_of[row]];
}

/* to[n][hidden] = RMSNorm of rows of from[][hidden] with this weight[hidden]: of the n rows that
 * `rows` names, or, if `rows` is NULL, of the first n; then `to` may be `from`. */
void step_norm(const struct step *s, float *to, const float *from, const uint32_t *rows,
	       const float *weight, uint32_t n);

/* Shows rows[n][width] to the tap, if there is one, span by span. */
void step_tap(const struct step *s, enum tap_point point, uint32_t layer, uint32_t width,
	      const float *rows);

#endif
