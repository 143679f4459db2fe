/* The forward pass: a chunk of one session's tokens through all layers.
 *
 * forward.c is the residual stream and its two halves; attention.c or delta.c, and moe.c
 * with router.c and shared.c, are the halves. What differs between families is data in the config.
 * Every result is independent of how a text is cut into chunks, of the number of threads and of the
 * cache (promise 2): matrix products treat each token by itself, attention works in blocks of 64
 * absolute positions, delta nets take token after token, and experts are summed in ascending index.
 */
#ifndef MOEFS_ENGINE_COMPUTE_FORWARD_H
#define MOEFS_ENGINE_COMPUTE_FORWARD_H

#include "cache/pager.h"
#include "engine/compute/arena.h"
#include "engine/compute/context.h"
#include "engine/compute/losses.h"
#include "engine/compute/threads.h"
#include "engine/compute/weights.h"

/* Where a test or a tool may look. rows is [tokens of the chunk][width]. */
enum tap_point {
	TAP_STATE,	    /* the residual stream; layer 0 is the embedding, l + 1 after layer l */
	TAP_NORMED,	    /* after the final norm */
	TAP_ROUTER_LOGITS,  /* layer counts the routed layers, as it does in the next two */
	TAP_ROUTER_WEIGHTS, /* the router's choice, before any of it is dropped */
	TAP_ROUTER_EXPERTS, /* as floats, in descending order of weight */
};
typedef void tap_fn(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		    uint32_t tokens, uint32_t width, const float *rows);

/* What the rows of a step are: a prompt's chunk, of which the last rows are most like what comes,
 * or an answer's last token, with what may follow it (drafts). */
enum rows_kind { ROWS_PROMPT, ROWS_ANSWER };
enum { ANSWER_ROWS = 5 }; /* at most */

/* An input of matrix products with room for `tokens` tokens of width k. Whoever writes f says so by
 * activation_changed; the 8-bit form is made from it once, when the first product wants it. */
struct activation {
	uint32_t k;
	float *f;
	int8_t *q;
	float *scale;
	bool in_8_bits; /* q and scale are f's, for as many tokens as the product had */
};

/* What the forward pass of one model needs; one thread at a time. */
struct forward {
	const struct config *config;
	const struct plan *plan;
	const struct weights *weights;
	const struct kernels *kernels;
	struct threads *threads;
	struct pager_source *experts; /* NULL in a model without */
	uint32_t chunk;		      /* most tokens per call */
	const _Atomic bool *stop; /* becomes true: forward_run ends with -ECANCELED; may be NULL */
	enum rows_kind kind;	  /* of the next call; may change between calls, as may losses */
	struct losses losses;
	bool want_normed; /* by the next call: all its rows, whatever their logits */
	tap_fn *tap;	  /* may be NULL */
	void *tap_ctx;

	/* Scratch, allocated by forward_init: [chunk][…] unless said. */
	float *x;		  /* the residual stream */
	struct activation normed; /* input of projections */
	float *projected_q;	  /* as the projection gives it; q, where there is no gate */
	float *q, *k, *v;
	float *query_gate;	    /* NULL where there is none */
	struct activation attended; /* input of the output projection */
	struct delta_scratch {
		float *in, *mixed;   /* queries, keys and values before and after the convolution */
		float *a, *b;	     /* [chunk][value_heads]: projections for the gates */
		float *decay, *beta; /* [chunk][value_heads]: the gates */
		float *out;	     /* [chunk][value_heads · value_dim] */
		struct activation gated; /* first the output's gate, then out times it */
	} delta;
	float *rope_cos, *rope_sin; /* [chunk][rotary_dim / 2] */
	double *rope_frequency;	    /* [rotary_dim / 2] */
	float *up;		    /* the dense up projection, and what is added to x */
	struct activation hidden;   /* input of the dense down projection */
	struct moe *moe;	    /* NULL in a model without experts */
	struct shared {
		struct activation hidden; /* input of the down projection */
		float *up, *out;	  /* out: [chunk][hidden] */
		float *scale;		  /* [chunk], before the sigmoid */
	} shared;
	float *logits; /* [ANSWER_ROWS][vocabulary]: of the last token, or of an answer's rows */
	void *memory;
	uint64_t token_count;	  /* tokens computed since loading: the pager's clock */
	uint64_t experts_dropped; /* reads that drop_missing has saved since loading */
};

/* ENOTSUP, in words: the config has a layer that is not computed. */
int forward_computes(const struct config *c, struct err *e);

/* Takes the pointers above `Scratch` from *f, allocates the rest. */
int forward_init(struct forward *f, struct err *e);
void forward_free(struct forward *f);
/* Other scratch, for so many tokens per call. A longer one is all taken from the system when it
 * returns, so that memory_look sees it, and the old one given back. After an error the old scratch
 * is still there. */
int forward_resize(struct forward *f, uint32_t chunk, struct err *e);
/* What scratch for so many tokens takes. */
uint64_t forward_bytes(const struct config *c, uint32_t chunk);

/* Computes tokens[n], n in 1 … chunk, at the context's next positions and appends them to it. If
 * all_logits is not NULL it receives [n][vocabulary]; else if want_logits, f->logits the last row.
 * If want_normed, normed.f then has what the final norm gives of all n. A failed call leaves the
 * context as it was, but for a recurrent state, which may have to go back: then it holds fewer
 * tokens than before. */
int forward_run(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
		bool want_logits, float *all_logits, struct err *e);

/* ---- of a pass, for draft_layer.c, whose pass is another ---- */

/* f->x = the tokens' rows of the embedding. */
int forward_embed(struct forward *f, const uint32_t *tokens, uint32_t n, struct err *e);
/* The rotation at `position` and the n - 1 after it. */
void forward_angles(struct forward *f, uint32_t position, uint32_t n);
/* f->x through a layer; in the context the rows follow its tokens, for which it has room. */
int forward_layer(struct forward *f, struct context *x, uint32_t layer, uint32_t n, struct err *e);
/* Only what later rows see of these in a layer of attention: their keys and values. */
void forward_keys(struct forward *f, struct context *x, uint32_t layer, uint32_t n);
/* f->normed = the norm of f->x, and its logits: of the last row, to f->logits, or if `all` is not
 * NULL of all n, to that. */
void forward_logits(struct forward *f, enum tensor_role norm, uint32_t n, float *all);

/* ---- between forward.c, attention.c, moe.c and shared.c ---- */

/* Room for so many tokens of width k. */
void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k);
static inline void activation_changed(struct activation *a)
{
	a->in_8_bits = false;
}
/* Makes the 8-bit form of n tokens of a, if `format` wants it and it is not made. */
void activation_prepare(const struct forward *f, struct activation *a, uint32_t n,
			enum format format);
struct input activation_input(const struct activation *a, uint32_t first);

/* y[n][rows] = W · a for each of `count` matrices, whatever their formats, as one parallel loop:
 * the threads meet once. */
struct product {
	float *y;
	const struct matrix *w;
};
void forward_multiply(const struct forward *f, const struct product *products, uint32_t count,
		      struct activation *a, uint32_t n);
/* A grain for that many items of so many multiply-adds each: small enough that the threads end
 * together, large enough to be worth waking one. A loop with less than two grains of work stays
 * with its caller. */
uint32_t forward_grain(const struct forward *f, uint32_t items, uint64_t work);
/* Adds a bias row, if there is one, to each of n rows. */
void forward_add_bias(const struct forward *f, float *y, const float *bias, uint32_t n,
		      uint32_t width);

/* out (f->up, [n][hidden]) = attention of f->normed, keys and values put into the context. */
void attention_run(struct forward *f, struct context *x, uint32_t layer, uint32_t n);
/* Of that the keys and values alone. */
void attention_keys(struct forward *f, struct context *x, uint32_t layer, uint32_t n);
/* out (f->up, [n][hidden]) = the delta net of f->normed, the context's state moved on. */
void delta_run(struct forward *f, struct context *x, uint32_t layer, uint32_t n);
/* By how many of a step's tokens a recurrent state moves on: what was drafted may not stand. */
uint32_t delta_commits(const struct forward *f, uint32_t n);
/* out (f->up, [n][hidden]) = routed experts of f->normed. */
int moe_run(struct forward *f, uint32_t layer, uint32_t n, uint32_t position, struct err *e);
/* The shared expert of f->normed, kept in f->shared; and adding it to f->up. */
void shared_run(struct forward *f, uint32_t layer, uint32_t n);
void shared_add(struct forward *f, uint32_t n);
/* Of forward_init: takes f->moe and its arrays, and those of f->shared and f->delta. */
void delta_lay_out(struct forward *f, struct arena *a);
void moe_lay_out(struct forward *f, struct arena *a);
void shared_lay_out(struct forward *f, struct arena *a);

#endif
