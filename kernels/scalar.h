/* What the files of the scalar table share; within kernels/ only. Semantics are in kernels.h. */
#ifndef MOEFS_KERNELS_SCALAR_H
#define MOEFS_KERNELS_SCALAR_H

#include "kernels/kernels.h"

#include <string.h>

enum { DOT_LANES = 16 };

/* The tree that ends every sum in dot order: + 8, + 4, + 2, + 1. Destroys the lanes. */
static inline float sum_lanes(float lane[DOT_LANES])
{
	for (size_t step = DOT_LANES / 2; step > 0; step /= 2)
		for (size_t l = 0; l < step; l++)
			lane[l] += lane[l + step];
	return lane[0];
}

/* The largest magnitude, compared as integers: the order of finite floats, with infinities and then
 * NaNs above them, so that a group
 * with one of those is noticed. */
static inline float largest_magnitude(const float *y, size_t n)
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
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim);
void scalar_attend(float *out, const float *q, const struct attention *a);
void scalar_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n);

#endif
