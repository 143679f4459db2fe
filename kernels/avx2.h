/* What the files of the AVX2 table share: prototypes, tails, sums in dot order, the exponential.
 *
 * Include only from kernels/avx2*.c, which the Makefile compiles for AVX2, FMA and F16C. A sum in
 * dot order lives in two registers: lanes 0 … 7 and lanes 8 … 15.
 */
#ifndef MOEFS_KERNELS_AVX2_H
#define MOEFS_KERNELS_AVX2_H

#include "kernels/block_formats.h"
#include "kernels/cases.h"
#include "kernels/exp.h"
#include "kernels/kernels.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { AVX2_LANES = 8 };

/* All ones in the first n (0 … 8) lanes, zeros in the others. */
ALWAYS_INLINE __m256i first_lanes(size_t n)
{
	const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

/* Up to 8 of the n floats left at p; the other lanes are zero and their memory is not touched. */
ALWAYS_INLINE __m256 load_up_to_8(const float *p, size_t n)
{
	return n >= AVX2_LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first_lanes(n));
}

ALWAYS_INLINE void store_up_to_8(float *p, size_t n, __m256 v)
{
	if (n >= AVX2_LANES)
		_mm256_storeu_ps(p, v);
	else
		_mm256_maskstore_ps(p, first_lanes(n), v);
}

/* The tree of kernels.h: lane l += lane l + 8, then + 4, + 2, + 1. */
ALWAYS_INLINE float sum_dot_lanes(__m256 low, __m256 high)
{
	const __m256 s8 = _mm256_add_ps(low, high);
	const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
	const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
	return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* The largest lane; none may be NaN. */
ALWAYS_INLINE float max_lane(__m256 v)
{
	const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
	return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

ALWAYS_INLINE __m256 exp_power_of_two8(__m256i n)
{
	const __m256i biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
	return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

/* exp_f32 of exp.h, operation by operation. */
ALWAYS_INLINE __m256 exp8(__m256 x)
{
	const __m256 round = _mm256_set1_ps(EXP_ROUND), one = _mm256_set1_ps(1);

	/* The second operand is the result where a comparison with NaN is false. */
	x = _mm256_max_ps(_mm256_set1_ps(EXP_LOW), x);
	x = _mm256_min_ps(_mm256_set1_ps(EXP_HIGH), x);

	const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), round);
	const __m256 rounded = _mm256_sub_ps(shifted, round);
	const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted),
					   _mm256_set1_epi32((int)EXP_ROUND_BITS));

	__m256 r = _mm256_fmadd_ps(rounded, _mm256_set1_ps(-EXP_LN2_HIGH), x);
	r = _mm256_fmadd_ps(rounded, _mm256_set1_ps(-EXP_LN2_LOW), r);
	__m256 p = _mm256_set1_ps(EXP_C6);
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C5));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
	p = _mm256_fmadd_ps(p, r, one);
	p = _mm256_fmadd_ps(p, r, one);

	const __m256i half = _mm256_srai_epi32(n, 1);
	p = _mm256_mul_ps(p, exp_power_of_two8(half));
	return _mm256_mul_ps(p, exp_power_of_two8(_mm256_sub_epi32(n, half)));
}

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

void avx2_sigmoid_mul(float *y, const float *x, size_t n);
void avx2_gelu_mul(float *gate, const float *up, size_t n);
void avx2_swiglu_clamped(float *gate, const float *up, size_t n, float alpha, float limit);
void avx2_softcap(float *x, size_t n, float cap);
void avx2_conv_silu(float *y, const float *w, const float *const *taps, uint32_t width,
		    uint32_t channels, uint32_t c0, uint32_t c1);
void avx2_l2norm(float *y, const float *x, uint32_t n, float eps, float scale);
void avx2_delta_steps(const struct delta *d, uint32_t col0, uint32_t col1);

#endif
