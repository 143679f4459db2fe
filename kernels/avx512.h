/* What the files of the AVX-512 tables share: tails, sums in dot order, the exponential,
 * prototypes.
 *
 * Include only from kernels/avx512*.c, which the Makefile compiles for AVX-512 F, BW, VL and DQ.
 * The 16 virtual lanes of kernels.h are the 16 lanes of one register. Tails are masked: lanes that
 * are not loaded are zero, and their memory is not touched.
 */
#ifndef MOEFS_KERNELS_AVX512_H
#define MOEFS_KERNELS_AVX512_H

#include "kernels/block_formats.h"
#include "kernels/cases.h"
#include "kernels/exp.h"
#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { AVX512_LANES = 16 };

/* The first n lanes; all 16 of them if n is larger. */
ALWAYS_INLINE __mmask16 first_lanes(size_t n)
{
	return n >= AVX512_LANES ? (__mmask16)0xffff : (__mmask16)((1U << n) - 1);
}

ALWAYS_INLINE __m512 load_up_to_16(const float *p, size_t n)
{
	return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

ALWAYS_INLINE void store_up_to_16(float *p, size_t n, __m512 v)
{
	_mm512_mask_storeu_ps(p, first_lanes(n), v);
}

/* The tree of kernels.h: lane l += lane l + 8, then + 4, + 2, + 1. */
ALWAYS_INLINE float sum_dot_lanes(__m512 v)
{
	const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
	const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
	const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
	return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* The largest lane; none may be NaN. */
ALWAYS_INLINE float max_lane(__m512 v)
{
	const __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
	const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
	const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
	return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

ALWAYS_INLINE __m512 exp_power_of_two16(__m512i n)
{
	const __m512i biased = _mm512_add_epi32(n, _mm512_set1_epi32(127));
	return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

/* exp_f32 of exp.h, operation by operation. */
ALWAYS_INLINE __m512 exp16(__m512 x)
{
	const __m512 round = _mm512_set1_ps(EXP_ROUND), one = _mm512_set1_ps(1);

	/* The second operand is the result where a comparison with NaN is false. */
	x = _mm512_max_ps(_mm512_set1_ps(EXP_LOW), x);
	x = _mm512_min_ps(_mm512_set1_ps(EXP_HIGH), x);

	const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), round);
	const __m512 rounded = _mm512_sub_ps(shifted, round);
	const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted),
					   _mm512_set1_epi32((int)EXP_ROUND_BITS));

	__m512 r = _mm512_fmadd_ps(rounded, _mm512_set1_ps(-EXP_LN2_HIGH), x);
	r = _mm512_fmadd_ps(rounded, _mm512_set1_ps(-EXP_LN2_LOW), r);
	__m512 p = _mm512_set1_ps(EXP_C6);
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C5));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C4));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C3));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C2));
	p = _mm512_fmadd_ps(p, r, one);
	p = _mm512_fmadd_ps(p, r, one);

	const __m512i half = _mm512_srai_epi32(n, 1);
	p = _mm512_mul_ps(p, exp_power_of_two16(half));
	return _mm512_mul_ps(p, exp_power_of_two16(_mm512_sub_epi32(n, half)));
}

void avx512_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n);
void avx512_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n);
void avx512_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n);
multiply_fn avx512_multiply_tq2, avx512_multiply_tq3, avx512_multiply_tq4;
multiply_fn avx512_multiply_tc2, avx512_multiply_tc3, avx512_multiply_tc4;
multiply_fn avx512vnni_multiply_tq2, avx512vnni_multiply_tq3, avx512vnni_multiply_tq4;
multiply_fn avx512vnni_multiply_tc2, avx512vnni_multiply_tc3, avx512vnni_multiply_tc4;

#define PROTOTYPE(name, format) multiply_fn avx512_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(name, format) multiply_fn avx512vnni_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE

/* Taken from the AVX2 table: most of their time is divisions, which wider registers do not speed
 * up; and what few ask for. */
void avx2_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k);
void avx2_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k);
bool avx2_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain);
bool avx512_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits, enum tq_gain gain);
/* y = the rotations of the next groups of a row, of which so many floats are left, each divided by
 * its norm. */
void avx512_tq_normalise(float *y, float *norm, const float *x, size_t left, size_t groups);
bool avx512_tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits);
void avx512_tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);

void avx512_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim);
void avx512_attend(float *out, const float *q, const struct attention *a);
void avx512_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n);

void avx512_sigmoid_mul(float *y, const float *x, size_t n);
void avx512_gelu_mul(float *gate, const float *up, size_t n);
void avx512_swiglu_clamped(float *gate, const float *up, size_t n, float alpha, float limit);
void avx512_softcap(float *x, size_t n, float cap);
void avx512_conv_silu(float *y, const float *w, const float *const *taps, uint32_t width,
		      uint32_t channels, uint32_t c0, uint32_t c1);
void avx512_l2norm(float *y, const float *x, uint32_t n, float eps, float scale);
void avx512_delta_steps(const struct delta *d, uint32_t col0, uint32_t col1);

#endif
