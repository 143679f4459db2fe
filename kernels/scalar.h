/* Functions and constants of the scalar table that every vector table repeats, operation by
 * operation: the exponential, the factor of l2norm, the constants of gelu. Also declarations shared
 * by the files of the scalar table. Within kernels/ only. kernels.h defines the results. */
#ifndef MOEFS_KERNELS_SCALAR_H
#define MOEFS_KERNELS_SCALAR_H

#include "kernels/exponential.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- the exponential: exponential.h says how it is computed ---- */

/* 2^n for n in the range of normal numbers. For other n (from a NaN) the result is any float, but
 * never a trap. */
static inline float scalar_power_of_two(int32_t n)
{
	const uint32_t bits = ((uint32_t)n + 127) << 23;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static inline float scalar_exp(float x)
{
	x = EXP_LOW > x ? EXP_LOW : x; /* comparisons with NaN are false and keep it */
	x = EXP_HIGH < x ? EXP_HIGH : x;

	const float shifted = fmaf(x, EXP_LOG2E, EXP_ROUND);
	const float rounded = shifted - EXP_ROUND;
	uint32_t bits;
	memcpy(&bits, &shifted, sizeof bits);
	const int32_t n = (int32_t)(bits - EXP_ROUND_BITS);

	float r = fmaf(rounded, -EXP_LN2_HIGH, x);
	r = fmaf(rounded, -EXP_LN2_LOW, r);
	float p = EXP_C6;
	p = fmaf(p, r, EXP_C5);
	p = fmaf(p, r, EXP_C4);
	p = fmaf(p, r, EXP_C3);
	p = fmaf(p, r, EXP_C2);
	p = fmaf(p, r, 1);
	p = fmaf(p, r, 1);

	/* In two steps, since 2^n alone can be out of range: the first is exact, the second rounds
	 * once. */
	const int32_t half = n >> 1;
	return p * scalar_power_of_two(half) * scalar_power_of_two(n - half);
}

/* ---- activations and norms ---- */

/* log1p's series (kernels.h, delta_decay): the largest divisor before the last, 17. */
enum { SOFTPLUS_TERMS = 15 };
#define SOFTPLUS_LAST (1.F / 17)

/* The factor of l2norm. Without the NaN, an infinite sum of squares would turn all finite elements
 * into zeros. */
static inline float scalar_l2norm_factor(float squares, float eps, float scale)
{
	return isinf(squares) ? NAN : scale / sqrtf(squares + eps);
}

/* ---- sums in dot order, magnitudes ---- */

enum { SCALAR_DOT_LANES = 16 };

/* The tree that ends every sum in dot order: + 8, + 4, + 2, + 1. Destroys the lanes. */
static inline float scalar_sum_lanes(float lane[SCALAR_DOT_LANES])
{
	for (size_t step = SCALAR_DOT_LANES / 2; step > 0; step /= 2)
		for (size_t l = 0; l < step; l++)
			lane[l] += lane[l + step];
	return lane[0];
}

/* The largest magnitude. Magnitudes are compared as integers: finite floats keep their order, and
 * infinities and then NaNs come after them, so a group that contains one is detected. */
static inline float scalar_largest_magnitude(const float *y, size_t n)
{
	uint32_t largest = 0;
	float f;

	for (size_t i = 0; i < n; i++) {
		uint32_t u;
		memcpy(&u, &y[i], sizeof u);
		u &= 0x7fffffff;
		largest = u > largest ? u : largest;
	}
	memcpy(&f, &largest, sizeof f);
	return f;
}

void scalar_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n);
void scalar_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n);
void scalar_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n);
void scalar_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n);
void scalar_multiply_blocks(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			    uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n);
void scalar_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k);
void scalar_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k);

void scalar_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		   uint32_t latent_dim);
void scalar_attend(float *out, const float *q, const struct attention *a);
void scalar_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n);
void scalar_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
			 uint32_t n, uint32_t span0, uint32_t span1);
void scalar_attend_join(float *out, size_t stride, float *joined, const float *parts,
			const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);

#endif
