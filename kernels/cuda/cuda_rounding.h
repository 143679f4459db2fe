/* Inputs in 8 bits: the rotation of a group and the rounding, as each thread does its part of them.
 */
#ifndef MOEFS_KERNELS_CUDA_CUDA_ROUNDING_H
#define MOEFS_KERNELS_CUDA_CUDA_ROUNDING_H

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_launch.h"

enum {
	CUDA_GROUP = 128, /* columns */
	CUDA_EACH = 4,	  /* of a group that each thread of a warp has */
};

#define CUDA_SQRT_GROUP 0x1.6a09e6p+3F /* TQ_SQRT_GROUP */
#define CUDA_ROOT_INVERSE 0x1.6a09e6p-4F /* 1 / CUDA_SQRT_GROUP, rounded */
#define CUDA_CODES_INVERSE 0x1.020408p-7F /* 1 / 127, rounded */

/* A sign of cuda_signs. */
CUDA_THREAD float cuda_signed(float x, uint32_t word, uint32_t bit)
{
	return x * (word >> bit & 1 ? 1.0F : -1.0F);
}

/* What becomes of an element of a butterfly: the sum of both, or of the one at the higher place the other
 * less this one. sign is 1 or -1: the product is exact. */
CUDA_THREAD float cuda_butterfly(float own, float other, float sign)
{
	return cuda_fma(own, sign, other);
}

/* A magnitude, to be compared as an integer: infinities and then NaNs come last. */
CUDA_THREAD uint32_t cuda_magnitude(float y)
{
	return cuda_bits(y) & 0x7fffffff;
}

/* ---- divisions without branches ----
 *
 * A quotient from the rounded inverse of the divisor, corrected by its remainder (Markstein, "Computation of
 * Elementary Functions on the IBM RISC System/6000 Processor", 1990): the same bits as those of a division
 * where nothing is subnormal on the way. Two corrections are right for any divisor; one is for the root
 * of 128 and for 127, for which all mantissas were tried. */

CUDA_THREAD float cuda_corrected(float quotient, float a, float b, float inverse)
{
	return cuda_fma(cuda_fma(-quotient, b, a), inverse, quotient);
}
CUDA_THREAD float cuda_quotient(float a, float b, float inverse)
{
	return cuda_corrected(cuda_corrected(a * inverse, a, b, inverse), a, b, inverse);
}
/* Whether elements of a group with that largest magnitude may be divided so. Those that are so much smaller
 * that their quotients are wrong have the code 0 in any case. */
CUDA_THREAD bool cuda_usual(uint32_t largest)
{
	return largest >= 0x21800000 && largest < 0x5d800000; /* 2^-60, 2^60 */
}

/* All by the largest magnitude of a group or block. */
CUDA_THREAD float cuda_input_scale(uint32_t largest)
{
	return largest < 0x7f800000 ? cuda_divide(cuda_float(largest), 127) : cuda_nan();
}
CUDA_THREAD int8_t cuda_input_code(float y, uint32_t largest)
{
	if (largest >= 0x7f800000)
		return 0;
	return (int8_t)cuda_round(cuda_divide(y, largest == 0 ? 1 : cuda_float(largest)) * 127);
}
/* The same of a usual group. */
CUDA_THREAD float cuda_usual_scale(float largest)
{
	return cuda_corrected(largest * CUDA_CODES_INVERSE, largest, 127, CUDA_CODES_INVERSE);
}
CUDA_THREAD int8_t cuda_usual_code(float y, uint32_t largest, float inverse)
{
	return (int8_t)cuda_round(cuda_quotient(y, cuda_float(largest), inverse) * 127);
}

/* ---- a group by a warp ---- */

CUDA_THREAD void cuda_rotate_warp(float y[CUDA_EACH], const struct cuda_signs *signs,
				  uint32_t lane)
{
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++)
		y[e] = cuda_signed(y[e], signs->first[e], lane);
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
		const float sign = lane & h ? -1.0F : 1.0F;
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_EACH; e++)
			y[e] = cuda_butterfly(y[e], cuda_swap_float(y[e], h), sign);
	}
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_EACH; h *= 2) {
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_EACH; e++) {
			const float a = y[e];
			if (e & h)
				continue;
			y[e] = cuda_butterfly(a, y[e + h], 1);
			y[e + h] = cuda_butterfly(y[e + h], a, -1);
		}
	}
}

CUDA_THREAD uint32_t cuda_groups_of(uint32_t columns)
{
	return (columns + CUDA_GROUP - 1) / CUDA_GROUP;
}

/* The largest magnitude of a group. */
CUDA_THREAD uint32_t cuda_largest_of(const float y[CUDA_EACH])
{
	uint32_t largest = 0;

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t magnitude = cuda_magnitude(y[e]);
		largest = magnitude > largest ? magnitude : largest;
	}
	return cuda_largest(largest);
}

/* A group in 8 bits: thread l of a warp has its elements l, l + 32, l + 64 and l + 96. */
CUDA_THREAD void cuda_prepare_group(float y[CUDA_EACH], const struct cuda_signs *signs, int8_t *q,
				    float *scale)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	float x[CUDA_EACH];

	cuda_rotate_warp(y, signs, lane);
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++)
		x[e] = cuda_corrected(y[e] * CUDA_ROOT_INVERSE, y[e], CUDA_SQRT_GROUP,
				      CUDA_ROOT_INVERSE);
	uint32_t largest = cuda_largest_of(x);
	const bool usual = cuda_usual(largest);
	if (!usual) {
		for (uint32_t e = 0; e < CUDA_EACH; e++)
			x[e] = cuda_divide(y[e], CUDA_SQRT_GROUP);
		largest = cuda_largest_of(x);
	}
	const float inverse = usual ? cuda_divide(1, cuda_float(largest)) : 0;
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const float signed_x = cuda_signed(x[e], signs->second[e], lane);
		q[e * CUDA_WARP + lane] = usual ? cuda_usual_code(signed_x, largest, inverse)
						: cuda_input_code(signed_x, largest);
	}
	if (lane == 0)
		*scale = cuda_input_scale(largest);
}

/* A block of 32 columns in 8 bits: each thread of a warp has a column. */
CUDA_THREAD void cuda_prepare_block(float x, int8_t *q, float *scale, int16_t *sum)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, largest = cuda_largest(cuda_magnitude(x));
	const int8_t code = cuda_input_code(x, largest);
	int32_t codes = code;

	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP / 2; h *= 2)
		codes += (int32_t)cuda_swap((uint32_t)codes, h);
	q[lane] = code;
	if (lane % 16 == 0)
		sum[lane / 16] = (int16_t)codes;
	if (lane == 0)
		*scale = cuda_input_scale(largest);
}

/* Where rows in 8 bits go; without sums, in the form of cuda_prepare_group. */
struct cuda_codes {
	int8_t *q;
	float *scale;
	int16_t *sum;
};

/* Group g of a row of k columns. */
CUDA_THREAD void cuda_put_codes(const struct cuda_codes *to, float y[CUDA_EACH],
				const struct cuda_signs *signs, size_t row, uint32_t g, uint32_t k)
{
	const size_t group = row * cuda_groups_of(k) + g;

	if (!to->sum) {
		cuda_prepare_group(y, signs, to->q + group * CUDA_GROUP, to->scale + group);
		return;
	}
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const size_t block = row * (k / CUDA_WARP) + g * CUDA_EACH + e;
		if (g * CUDA_GROUP + e * CUDA_WARP < k)
			cuda_prepare_block(y[e], to->q + block * CUDA_WARP, to->scale + block,
					   to->sum + 2 * block);
	}
}

/* ---- a group by a block of threads ----
 *
 * Of one token there are few groups and many processors: a thread has one column, so it has few instructions
 * to fetch and to wait for. */

/* A thread's column: its signs, and where its group goes, or its block of 32 columns. */
struct cuda_column {
	float first, second;
	struct cuda_codes to;
};
CUDA_THREAD float cuda_sign_of(const uint32_t words[CUDA_EACH])
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, word = cuda_thread() / CUDA_WARP;
	const uint32_t upper = word & 1 ? words[3] : words[2], lower = word & 1 ? words[1] : words[0];

	return cuda_signed(1, word & 2 ? upper : lower, lane);
}
/* Of group g of a row of k columns. */
CUDA_THREAD struct cuda_column cuda_column_of(const struct cuda_codes *to, const struct cuda_signs *signs,
					      size_t row, uint32_t g, uint32_t k)
{
	const size_t group = row * cuda_groups_of(k) + g;
	const size_t block = row * (k / CUDA_WARP) + g * CUDA_EACH + cuda_thread() / CUDA_WARP;
	struct cuda_column c = {cuda_sign_of(signs->first), cuda_sign_of(signs->second),
				{to->q + group * CUDA_GROUP, to->scale + group, NULL}};

	if (to->sum) {
		const struct cuda_codes of_block = {to->q + block * CUDA_WARP, to->scale + block,
						    to->sum + 2 * block};
		c.to = of_block;
	}
	return c;
}

/* The rotation but its last division and signs. Returns the largest magnitude of the group. All threads of the
 * block call: those from CUDA_GROUP on have no column. columns: shared memory for a group. */
CUDA_THREAD float cuda_rotate_column(float *y, float sign, float *columns)
{
	const uint32_t thread = cuda_thread(), lane = thread % CUDA_WARP, own = thread / CUDA_WARP;
	float x = *y * sign;

	if (thread < CUDA_GROUP) {
		CUDA_UNROLL
		for (uint32_t h = 1; h < CUDA_WARP; h *= 2)
			x = cuda_butterfly(x, cuda_swap_float(x, h), lane & h ? -1.0F : 1.0F);
		columns[lane * CUDA_EACH + own] = x;
	}
	cuda_barrier();
	if (thread >= CUDA_GROUP)
		return 0;
	/* with the other columns that are 32 apart: each warp finds the largest of all */
	const struct cuda_four all = cuda_four_of(columns + lane * CUDA_EACH);
	const float a = all.f[0] + all.f[1], b = all.f[0] - all.f[1];
	const float c = all.f[2] + all.f[3], d = all.f[2] - all.f[3];
	const float sum[CUDA_EACH] = {a + c, b + d, a - c, b - d};
	const float upper = own & 1 ? sum[3] : sum[2], lower = own & 1 ? sum[1] : sum[0];
	const float larger = cuda_larger_magnitude(cuda_larger_magnitude(sum[0], sum[1]),
						   cuda_larger_magnitude(sum[2], sum[3]));
	*y = own & 2 ? upper : lower;
	return cuda_float(cuda_largest(cuda_bits(larger)));
}

/* A thread's column of a group in 8 bits. */
CUDA_THREAD void cuda_prepare_column(const struct cuda_column *c, float y, float *columns)
{
	const float before = cuda_rotate_column(&y, c->first, columns);
	const uint32_t thread = cuda_thread();
	const float largest = cuda_corrected(before * CUDA_ROOT_INVERSE, before, CUDA_SQRT_GROUP,
					     CUDA_ROOT_INVERSE);

	if (thread >= CUDA_GROUP)
		return;
	if (cuda_usual(cuda_bits(largest))) {
		const float x = cuda_corrected(y * CUDA_ROOT_INVERSE, y, CUDA_SQRT_GROUP,
					       CUDA_ROOT_INVERSE);
		c->to.q[thread] = cuda_usual_code(x * c->second, cuda_bits(largest),
						  cuda_inverse(largest));
		if (thread == 0)
			*c->to.scale = cuda_usual_scale(largest);
		return;
	}
	/* division keeps the order of magnitudes */
	const uint32_t divided = cuda_magnitude(cuda_divide(before, CUDA_SQRT_GROUP));
	c->to.q[thread] = cuda_input_code(cuda_divide(y, CUDA_SQRT_GROUP) * c->second, divided);
	if (thread == 0)
		*c->to.scale = cuda_input_scale(divided);
}

/* The same, or a block in 8 bits; d: the column in a row of k. y is 0 beyond the row. */
CUDA_THREAD void cuda_put_column(const struct cuda_column *c, float y, float *columns, uint32_t d, uint32_t k)
{
	if (!c->to.sum)
		cuda_prepare_column(c, y, columns);
	else if (cuda_thread() < CUDA_GROUP && d < k)
		cuda_prepare_block(y, c->to.q, c->to.scale, c->to.sum);
}

#endif
