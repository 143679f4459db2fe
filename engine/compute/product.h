/* Matrix products of a step's rows, shared by all threads. */
#ifndef MOEFS_ENGINE_COMPUTE_PRODUCT_H
#define MOEFS_ENGINE_COMPUTE_PRODUCT_H

#include "engine/compute/arena.h"
#include "engine/compute/environment.h"

/* An input of matrix products with room for `tokens` tokens of width k. Whoever writes f says so by
 * activation_changed; the 8-bit form is made from it once, when the first product wants it. */
struct activation {
	uint32_t k;
	float *f;
	int8_t *q;
	float *scale;
	bool in_8_bits; /* q and scale are f's, for as many tokens as the product had */
};

/* Room for so many tokens of width k. */
void activation_take(struct arena *a, struct activation *v, size_t tokens, uint32_t k);
static inline void activation_changed(struct activation *a)
{
	a->in_8_bits = false;
}
/* Makes the 8-bit form of n tokens of a, if `format` wants it and it is not made. */
void activation_prepare(const struct environment *env, struct activation *a, uint32_t n,
			enum format format);
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
