/* What a vector is to the kernels that are written once for all instruction sets (*_lanes.h): here
 * a register of AVX2, 8 floats. Also the prototypes of the AVX2 table.
 *
 * Include only from kernels/avx2*.c, which the Makefile compiles for AVX2, FMA and F16C.
 * lanes.h says what each definition means. A sum in dot order has two
 * registers: lanes 0 … 7 and lanes 8 … 15.
 */
#ifndef MOEFS_KERNELS_AVX2_LANES_H
#define MOEFS_KERNELS_AVX2_LANES_H

#include "kernels/block_layout.h"
#include "kernels/scalar.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"

#include <immintrin.h>
#include <string.h>

#ifndef TABLE
#define TABLE(function) avx2_##function
#endif

typedef __m256 lanes;
typedef __m256i lanes_ints;
typedef __m256 lanes_mask; /* all ones or all zeros in each lane */
enum { LANES = 8, DOT_REGISTERS = 16 / LANES };

#define lanes_all(f) _mm256_set1_ps(f)
#define lanes_negative(v) _mm256_xor_ps(v, _mm256_set1_ps(-0.0F))
#define lanes_add(a, b) _mm256_add_ps(a, b)
#define lanes_sub(a, b) _mm256_sub_ps(a, b)
#define lanes_mul(a, b) _mm256_mul_ps(a, b)
#define lanes_div(a, b) _mm256_div_ps(a, b)
#define lanes_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define lanes_fms(a, b, c) _mm256_fmsub_ps(a, b, c)
/* The second operand is the result where a comparison with NaN is false. */
#define lanes_at_most(v, limit) _mm256_min_ps(limit, v)
#define lanes_at_least(v, limit) _mm256_max_ps(limit, v)

/* ---- some of the lanes ---- */

/* All ones in the first n (0 … 8) lanes, zeros in the others. */
ALWAYS_INLINE __m256i lanes_first_ints(size_t n)
{
	const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

ALWAYS_INLINE lanes_mask lanes_first(size_t n)
{
	return _mm256_castsi256_ps(lanes_first_ints(n < LANES ? n : LANES));
}

#define lanes_mask_without(mask, other) _mm256_andnot_ps(other, mask)
#define lanes_keep(v, mask) _mm256_and_ps(v, mask)
#define lanes_add_some(sum, v, mask) _mm256_add_ps(sum, _mm256_and_ps(v, mask))
#define lanes_fma_some(a, b, c, mask) _mm256_blendv_ps(c, _mm256_fmadd_ps(a, b, c), mask)

ALWAYS_INLINE lanes lanes_raise(lanes max, lanes v, lanes_mask mask)
{
	const lanes some = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, mask);
	return _mm256_max_ps(some, max); /* of a NaN and max: max */
}

ALWAYS_INLINE lanes lanes_load(const float *p, size_t left)
{
	return left >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes_first_ints(left));
}

ALWAYS_INLINE void lanes_store(float *p, size_t left, lanes v)
{
	if (left >= LANES)
		_mm256_storeu_ps(p, v);
	else
		_mm256_maskstore_ps(p, lanes_first_ints(left), v);
}

ALWAYS_INLINE lanes lanes_load_f16(const uint16_t *p, size_t left)
{
	uint16_t some[LANES] = {0};

	if (left < LANES)
		p = memcpy(some, p, left * sizeof *p);
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

ALWAYS_INLINE void lanes_store_f16(uint16_t *p, size_t left, lanes v)
{
	const __m128i half = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);

	if (left >= LANES)
		_mm_storeu_si128((__m128i *)(void *)p, half);
	else
		memcpy(p, &half, left * sizeof *p);
}

ALWAYS_INLINE lanes lanes_load_bf16(const uint16_t *p, size_t left)
{
	uint16_t some[LANES] = {0};

	if (left < LANES)
		p = memcpy(some, p, left * sizeof *p);
	const __m128i upper = _mm_loadu_si128((const __m128i *)(const void *)p);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
}

/* ---- across lanes ---- */

ALWAYS_INLINE float lanes_dot(const lanes sum[DOT_REGISTERS])
{
	const __m256 s8 = _mm256_add_ps(sum[0], sum[1]);
	const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
	const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
	return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

ALWAYS_INLINE float lanes_largest(lanes v)
{
	const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
	return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

/* ---- whole numbers of 32 bits, for lanes_exp ---- */

#define lanes_ints_of_bits(v) _mm256_castps_si256(v)
#define lanes_ints_all(n) _mm256_set1_epi32(n)
#define lanes_ints_sub(a, b) _mm256_sub_epi32(a, b)
#define lanes_ints_half(n) _mm256_srai_epi32(n, 1)

ALWAYS_INLINE lanes lanes_power_of_two(lanes_ints n)
{
	const __m256i biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
	return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

#include "kernels/lanes.h"

/* ---- the table ---- */

void avx2_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n);
void avx2_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n);
void avx2_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n);
multiply_fn avx2_multiply_tq2, avx2_multiply_tq3, avx2_multiply_tq4;
multiply_fn avx2_multiply_tc2, avx2_multiply_tc3, avx2_multiply_tc4;

#define PROTOTYPE(name, format) multiply_fn avx2_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE

void avx2_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k);
void avx2_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k);
bool avx2_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain);
/* y = the rotations of the next groups of a row, of which so many floats are left, each divided by
 * its norm. */
void avx2_tq_normalise(float *y, float *norm, const float *x, size_t left, size_t groups);
bool avx2_tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits);
void avx2_tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);

void avx2_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		 uint32_t slot, const float *key, const float *value, uint32_t head_dim);
void avx2_attend(float *out, const float *q, const struct attention *a);
void avx2_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n);

#endif
