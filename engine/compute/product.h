/* Matrix products of a step's rows, shared by all threads. */
#ifndef MOEFS_ENGINE_COMPUTE_PRODUCT_H
#define MOEFS_ENGINE_COMPUTE_PRODUCT_H

#include "engine/compute/arena.h"
#include "engine/compute/environment.h"

/* An input of matrix products with room for `tokens` tokens of width k. Whoever writes f says so by
 * activation_changed; each form that formats want besides is made from it once, when the first
 * product wants it. */
struct activation {
	uint32_t k;
	float *f;
	int8_t *q; /* and scale: INPUT_TQ */
	float *scale;
	struct { /* INPUT_BLOCKS */
		int8_t *q;
		float *scale;
		int16_t *sum;
	} block;
	uint32_t forms; /* a bit for each that is f's, for as many tokens as the product had */
	bool guess;	/* look-ahead: the matrices never get this input, so no observer sees it */
};

/* Room for so many tokens of width k. */
void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k);
static inline void activation_changed(struct activation *a)
{
	a->forms = 0;
}
/* Makes the form of n tokens of a that `format` wants, if it is not made. */
void activation_prepare(const struct environment *env, struct activation *a, uint32_t n,
			enum format format);
/* The same of `count` columns of one token, from a multiple of TQ_GROUP on, without a look at what
 * is made: for whoever makes them himself. */
void activation_prepare_part(const struct environment *env, const struct activation *a,
			     size_t token, uint32_t begin, uint32_t count, enum format format);
struct input activation_input(const struct activation *a, uint32_t first);

/* y[n][rows] = W · a for each of `count` matrices, whatever their formats, as one parallel loop:
 * the threads meet once. */
struct product {
	float *y;
	const struct matrix *w;
};
void product_run(const struct environment *env, const struct product *products, uint32_t count,
		 struct activation *a, uint32_t n);
/* Adds a bias row, if there is one, to each of n rows. */
void product_add_bias(const struct environment *env, float *y, const float *bias, uint32_t n,
		      uint32_t width);

/* A grain for that many items of so many multiply-adds each: small enough that the threads end
 * together, large enough to be worth waking one. A loop with less than two grains of work stays
 * with its caller. */
uint32_t product_grain(const struct environment *env, uint32_t items, uint64_t work);

#endif
