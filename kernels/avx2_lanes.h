/* The vectors of AVX2 for the kernels that are written once for all instruction sets (*_lanes.h): a
 * register is 8 floats. Also the prototypes of the AVX2 table.
 *
 * Include only from kernels/avx2*.c, which the Makefile compiles for AVX2, FMA and F16C. lanes.h
 * says what each definition means. A sum in dot order has two registers: lanes 0 … 7 and lanes 8 …
 * 15.
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
/* If an operand is NaN, the result is the second operand. */
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
	return _mm256_max_ps(some, max); /* if v is NaN: max */
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

/* ---- integers of 32 bits, for lanes_exp ---- */

#define lanes_ints_of_bits(v) _mm256_castps_si256(v)
#define lanes_ints_all(n) _mm256_set1_epi32(n)
#define lanes_ints_sub(a, b) _mm256_sub_epi32(a, b)
#define lanes_ints_half(n) _mm256_srai_epi32(n, 1)

ALWAYS_INLINE lanes lanes_power_of_two(lanes_ints n)
{
	const __m256i biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
	return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

/* ---- integers of 32 bits, for block_lanes.h ---- */

typedef __m256i lanes_words;
enum { BLOCK_JOINT = 1 };

#define words_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define words_all(u) _mm256_set1_epi32((int)(u))
#define words_bytes(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define words_signed_bytes(p) \
	_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define words_halves(p) _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define words_and(a, b) _mm256_and_si256(a, b)
#define words_or(a, b) _mm256_or_si256(a, b)
#define words_xor(a, b) _mm256_xor_si256(a, b)
#define words_add(a, b) _mm256_add_epi32(a, b)
#define words_left(v, n) _mm256_slli_epi32(v, (int)(n))
#define words_right(v, n) _mm256_srli_epi32(v, (int)(n))
#define words_table(p) \
	_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define words_look_up(t, v) _mm256_shuffle_epi8(t, v)
#define lanes_of_words(v) _mm256_cvtepi32_ps(v)
#define lanes_of_bits(v) _mm256_castsi256_ps(v)

/* ---- integers of 16 bits, for trellis_lanes.h ---- */

typedef __m256i shorts;
enum { SHORTS = 16 };

#define shorts_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define shorts_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define shorts_all(i) _mm256_set1_epi16(i)
#define shorts_add(a, b) _mm256_add_epi16(a, b)
#define shorts_sub(a, b) _mm256_sub_epi16(a, b)
#define shorts_add_sat(a, b) _mm256_adds_epi16(a, b)
#define shorts_sub_sat(a, b) _mm256_subs_epi16(a, b)
#define shorts_min(a, b) _mm256_min_epi16(a, b)
#define shorts_and(a, b) _mm256_and_si256(a, b)
#define shorts_or(a, b) _mm256_or_si256(a, b)
#define shorts_left(v, n) _mm256_slli_epi16(v, (int)(n))
#define shorts_right(v, n) _mm256_srli_epi16(v, (int)(n))
#define shorts_zip_low(a, b) _mm256_unpacklo_epi16(a, b)
#define shorts_zip_high(a, b) _mm256_unpackhi_epi16(a, b)
ALWAYS_INLINE shorts avx2_shorts_units(const int16_t *p, size_t stride)
{
	return _mm256_loadu2_m128i((const __m128i *)(const void *)(p + stride),
				   (const __m128i *)(const void *)p);
}
#define shorts_units avx2_shorts_units
ALWAYS_INLINE void avx2_shorts_store_units(int16_t *p, size_t stride, shorts v)
{
	_mm256_storeu2_m128i((__m128i *)(void *)(p + stride), (__m128i *)(void *)p, v);
}
#define shorts_store_units avx2_shorts_store_units
#define shorts_low(a, b) _mm256_mullo_epi16(a, b)
#define shorts_fraction(a, b) _mm256_mulhrs_epi16(a, b)
/* Assembly: gcc would compute many sums before comparing one, and run out of registers. */
#define shorts_min_sum(best, v, w)                                         \
	do {                                                               \
		shorts sum;                                                \
		__asm__ volatile("vpaddw %3, %2, %1\n\tvpminsw %1, %0, %0" \
				 : "+x"(best), "=&x"(sum)                  \
				 : "x"(v), "m"(w));                        \
	} while (0)

typedef __m256i shorts_mask;
ALWAYS_INLINE shorts_mask avx2_mask_bit(shorts v, uint32_t n)
{
	const shorts bit = shorts_all((int16_t)(1 << n));
	return _mm256_cmpeq_epi16(shorts_and(v, bit), bit);
}
#define mask_bit avx2_mask_bit
#define mask_less(a, b) _mm256_cmpgt_epi16(b, a)
#define mask_equal(a, b) _mm256_cmpeq_epi16(a, b)
#define shorts_pick(mask, a, b) _mm256_blendv_epi8(b, a, mask)

typedef __m256i bytes16;
#define make_bytes(p) \
	_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p)))
/* The upper byte of a lane selects nothing. */
#define shorts_look_up(table, i) \
	_mm256_shuffle_epi8(table, shorts_or(i, shorts_all((int16_t)0x8000)))

typedef __m256i ints;
#define ints_none() _mm256_setzero_si256()
#define ints_store(p, v) shorts_store(p, v)
ALWAYS_INLINE void avx2_ints_add_products(ints sum[2], const shorts a[2], const shorts b[2])
{
	const ints low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a[0], a[1]),
					   _mm256_unpacklo_epi16(b[0], b[1]));
	const ints high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a[0], a[1]),
					    _mm256_unpackhi_epi16(b[0], b[1]));
	sum[0] = _mm256_add_epi32(sum[0], low);
	sum[1] = _mm256_add_epi32(sum[1], high);
}
#define ints_add_products avx2_ints_add_products

/* ---- states of a trellis, for tc_errors_lanes.h ---- */

#define lanes_less(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define lanes_pick(mask, a, b) _mm256_blendv_ps(b, a, mask)
#define lanes_ints_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define lanes_ints_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define lanes_ints_pick(mask, a, b) \
	_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(b), _mm256_castsi256_ps(a), mask))
#define lanes_ints_xor(a, b) _mm256_xor_si256(a, b)
#define lanes_mask_is(v, n) _mm256_castsi256_ps(_mm256_cmpeq_epi32(v, _mm256_set1_epi32(n)))
/* The lowest three bits select a lane of either register, the next bit the register. */
#define lanes_look_up(table, i)                                   \
	_mm256_blendv_ps(_mm256_permutevar8x32_ps((table)[0], i), \
			 _mm256_permutevar8x32_ps((table)[1], i), \
			 _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)))

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
bool avx2_tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits);
void avx2_tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);
void avx2_tc_choose(uint8_t symbol[TQ_GROUP], const struct tc_group *g,
		    const float weight[TQ_GROUP], const float aimed[TQ_GROUP],
		    const float target[TQ_GROUP], float norm);
bool avx2_tc_improve(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP], const struct tc_group *g,
		     float norm, float least);

void avx2_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		 uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		 uint32_t latent_dim);
void avx2_attend(float *out, const float *q, const struct attention *a);
void avx2_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n);
void avx2_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
		       uint32_t n, uint32_t span0, uint32_t span1);
void avx2_attend_join(float *out, size_t stride, float *joined, const float *parts,
		      const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);

#endif
