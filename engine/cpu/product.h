/* Matrix products of a step's rows (product.c), computed by all threads, and their inputs
 * (activation.c). Not here: the kernels that multiply (kernels/kernels.h). */
#ifndef MOEFS_ENGINE_CPU_PRODUCT_H
#define MOEFS_ENGINE_CPU_PRODUCT_H

#include "engine/compute/arena.h"
#include "engine/compute/backend.h"

/* ---- inputs ---- */

/* An input of matrix products: tokens of width k, as floats and in the forms that formats of
 * weights multiply with. After f was written, call activation_changed: each other form is then made
 * from f when the first product needs it. */
struct activation {
	uint32_t k;
	float *f;  /* [tokens][k] */
	int8_t *q; /* and scale: INPUT_TQ, in groups of TQ_GROUP */
	float *scale;
	struct { /* INPUT_BLOCKS */
		int8_t *q;
		float *scale;
		int16_t *sum;
	} block;
	uint32_t forms; /* a bit for each form that is up to date, for the last product's tokens */
	bool guess;	/* a prediction of a later layer's input: not shown to observers */
};

/* Takes the arrays for `tokens` of width k. */
void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k);
/* f is new: all other forms are out of date. */
void activation_changed(struct activation *a);
/* Makes the form of the first n tokens that `format` multiplies with, unless it is up to date. */
void activation_prepare(const struct environment *env, struct activation *a, uint32_t n,
			enum format format);
/* The same for columns [begin, begin + count) of one token, begin a multiple of TQ_GROUP. Neither
 * reads nor sets `forms`: for callers that prepare all parts themselves, in several threads. */
void activation_prepare_part(const struct environment *env, const struct activation *a,
			     size_t token, uint32_t begin, uint32_t count, enum format format);
/* to[n][hidden] = RMSNorm of rows of from[][hidden] with this weight[hidden]: of the n rows that
 * `rows` names, or, if `rows` is NULL, of the first n; then `to` may be `from`. */
void activation_norm(const struct step *s, float *to, const float *from, const uint32_t *rows,
		     const float *weight, uint32_t n);
/* The kernels' view of the activation, from token `first` on. */
struct input activation_input(const struct activation *a, uint32_t first);

/* ---- products ---- */

struct product {
	float *y; /* [n][rows of w] */
	const struct matrix *w;
};
/* y = w · a of the first n tokens for `count` matrices, of whatever formats, as one parallel loop:
 * the threads meet once. Shows the inputs to the observer. */
void product_run(const struct environment *env, const struct product *products, uint32_t count,
		 struct activation *a, uint32_t n);
/* A product whose matrix has a block of rows for each of `groups` parts of the input: the activation has
 * n · groups tokens, of which token t · groups + g is part g of row t, and y[t] has the blocks' results
 * one after the other. index: room for n numbers in each group. */
void product_run_groups(const struct environment *env, const struct product *product,
			struct activation *a, uint32_t groups, uint32_t n, uint32_t *index);
/* Adds bias[width] to each of y[n][width]; NULL: adds nothing. */
void product_add_bias(const struct environment *env, float *y, const float *bias, uint32_t n,
		      uint32_t width);

/* The grain (threads.h) of a loop over `items` of `work` multiply-adds each: small enough that the
 * threads end together, large enough to be worth waking one. A loop with less work than two grains
 * stays with its caller. */
uint32_t product_grain(const struct environment *env, uint32_t items, uint64_t work);

#endif
