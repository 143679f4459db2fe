/* The vectors of AVX-512 for the kernels that are written once for all instruction sets
 * (*_lanes.h): a register is 16 floats. Also the prototypes of the AVX-512 tables.
 *
 * Include only from kernels/avx512*.c, which the Makefile compiles for AVX-512 F, BW, VL and DQ.
 * lanes.h says what each definition means. The 16 virtual lanes of kernels.h are the 16 lanes of
 * one register.
 */
#ifndef MOEFS_KERNELS_AVX512_LANES_H
#define MOEFS_KERNELS_AVX512_LANES_H

#include "kernels/block_layout.h"
#include "kernels/scalar.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"

#include <immintrin.h>
#include <string.h>

#ifndef TABLE
#define TABLE(function) avx512_##function
#endif

typedef __m512 lanes;
typedef __m512i lanes_ints;
typedef __mmask16 lanes_mask;
enum { LANES = 16, DOT_REGISTERS = 16 / LANES };

#define lanes_all(f) _mm512_set1_ps(f)
#define lanes_negative(v) _mm512_xor_ps(v, _mm512_set1_ps(-0.0F))
#define lanes_add(a, b) _mm512_add_ps(a, b)
#define lanes_sub(a, b) _mm512_sub_ps(a, b)
#define lanes_mul(a, b) _mm512_mul_ps(a, b)
#define lanes_div(a, b) _mm512_div_ps(a, b)
#define lanes_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define lanes_fms(a, b, c) _mm512_fmsub_ps(a, b, c)
/* If an operand is NaN, the result is the second operand. */
#define lanes_at_most(v, limit) _mm512_min_ps(limit, v)
#define lanes_at_least(v, limit) _mm512_max_ps(limit, v)

/* ---- some of the lanes ---- */

ALWAYS_INLINE lanes_mask lanes_first(size_t n)
{
	return n >= LANES ? (lanes_mask)0xffff : (lanes_mask)((1U << n) - 1);
}

#define lanes_mask_without(mask, other) ((lanes_mask)((mask) & ~(other)))
#define lanes_keep(v, mask) _mm512_maskz_mov_ps(mask, v)
#define lanes_add_some(sum, v, mask) _mm512_mask_add_ps(sum, mask, sum, v)
#define lanes_fma_some(a, b, c, mask) _mm512_mask3_fmadd_ps(a, b, c, mask)
/* If v is NaN: max. */
#define lanes_raise(max, v, mask) _mm512_mask_max_ps(max, mask, v, max)

ALWAYS_INLINE lanes lanes_load(const float *p, size_t left)
{
	return left >= LANES ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(lanes_first(left), p);
}

ALWAYS_INLINE void lanes_store(float *p, size_t left, lanes v)
{
	if (left >= LANES)
		_mm512_storeu_ps(p, v);
	else
		_mm512_mask_storeu_ps(p, lanes_first(left), v);
}

ALWAYS_INLINE __m256i lanes_load_u16(const uint16_t *p, size_t left)
{
	return left >= LANES ? _mm256_loadu_si256((const __m256i *)(const void *)p)
			     : _mm256_maskz_loadu_epi16(lanes_first(left), p);
}

ALWAYS_INLINE lanes lanes_load_f16(const uint16_t *p, size_t left)
{
	return _mm512_cvtph_ps(lanes_load_u16(p, left));
}

ALWAYS_INLINE void lanes_store_f16(uint16_t *p, size_t left, lanes v)
{
	_mm256_mask_storeu_epi16(p, lanes_first(left),
				 _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

ALWAYS_INLINE lanes lanes_load_bf16(const uint16_t *p, size_t left)
{
	const __m512i wide = _mm512_cvtepu16_epi32(lanes_load_u16(p, left));
	return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* ---- across lanes ---- */

ALWAYS_INLINE float lanes_dot(const lanes sum[DOT_REGISTERS])
{
	const __m256 s8 =
		_mm256_add_ps(_mm512_castps512_ps256(sum[0]), _mm512_extractf32x8_ps(sum[0], 1));
	const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
	const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
	return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

ALWAYS_INLINE float lanes_largest(lanes v)
{
	const __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
	const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
	const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
	return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

/* ---- integers of 32 bits, for lanes_exp ---- */

#define lanes_ints_of_bits(v) _mm512_castps_si512(v)
#define lanes_ints_all(n) _mm512_set1_epi32(n)
#define lanes_ints_sub(a, b) _mm512_sub_epi32(a, b)
#define lanes_ints_half(n) _mm512_srai_epi32(n, 1)

ALWAYS_INLINE lanes lanes_power_of_two(lanes_ints n)
{
	const __m512i biased = _mm512_add_epi32(n, _mm512_set1_epi32(127));
	return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

/* ---- integers of 32 bits, for block_lanes.h ---- */

typedef __m512i lanes_words;
enum { BLOCK_JOINT = 2 };

#define words_load(p) _mm512_loadu_si512(p)
#define words_all(u) _mm512_set1_epi32((int)(u))
#define words_bytes(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define words_signed_bytes(p) \
	_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define words_halves(p) \
	_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define words_and(a, b) _mm512_and_si512(a, b)
#define words_or(a, b) _mm512_or_si512(a, b)
#define words_xor(a, b) _mm512_xor_si512(a, b)
#define words_add(a, b) _mm512_add_epi32(a, b)
#define words_left(v, n) _mm512_slli_epi32(v, (unsigned)(n))
#define words_right(v, n) _mm512_srli_epi32(v, (unsigned)(n))
#define words_table(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define words_look_up(t, v) _mm512_shuffle_epi8(t, v)
#define lanes_of_words(v) _mm512_cvtepi32_ps(v)
#define lanes_of_bits(v) _mm512_castsi512_ps(v)

/* Four bytes of an input, in all lanes. */
ALWAYS_INLINE __m512i avx512_load_four(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return _mm512_set1_epi32(four);
}

/* ---- integers of 16 bits, for trellis_lanes.h ---- */

typedef __m512i shorts;
enum { SHORTS = 32 };

#define shorts_load(p) _mm512_loadu_si512(p)
#define shorts_store(p, v) _mm512_storeu_si512(p, v)
#define shorts_all(i) _mm512_set1_epi16(i)
#define shorts_add(a, b) _mm512_add_epi16(a, b)
#define shorts_sub(a, b) _mm512_sub_epi16(a, b)
#define shorts_add_sat(a, b) _mm512_adds_epi16(a, b)
#define shorts_sub_sat(a, b) _mm512_subs_epi16(a, b)
#define shorts_min(a, b) _mm512_min_epi16(a, b)
#define shorts_and(a, b) _mm512_and_si512(a, b)
#define shorts_or(a, b) _mm512_or_si512(a, b)
#define shorts_left(v, n) _mm512_slli_epi16(v, (unsigned)(n))
#define shorts_right(v, n) _mm512_srli_epi16(v, (unsigned)(n))
#define shorts_zip_low(a, b) _mm512_unpacklo_epi16(a, b)
#define shorts_zip_high(a, b) _mm512_unpackhi_epi16(a, b)
ALWAYS_INLINE __m128i avx512_load_unit(const int16_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}
ALWAYS_INLINE shorts avx512_shorts_units(const int16_t *p, size_t stride)
{
	shorts v = _mm512_castsi128_si512(avx512_load_unit(p));
	v = _mm512_inserti32x4(v, avx512_load_unit(p + stride), 1);
	v = _mm512_inserti32x4(v, avx512_load_unit(p + 2 * stride), 2);
	return _mm512_inserti32x4(v, avx512_load_unit(p + 3 * stride), 3);
}
#define shorts_units avx512_shorts_units
ALWAYS_INLINE void avx512_store_unit(int16_t *p, __m128i unit)
{
	_mm_storeu_si128((__m128i *)(void *)p, unit);
}
ALWAYS_INLINE void avx512_shorts_store_units(int16_t *p, size_t stride, shorts v)
{
	avx512_store_unit(p, _mm512_castsi512_si128(v));
	avx512_store_unit(p + stride, _mm512_extracti32x4_epi32(v, 1));
	avx512_store_unit(p + 2 * stride, _mm512_extracti32x4_epi32(v, 2));
	avx512_store_unit(p + 3 * stride, _mm512_extracti32x4_epi32(v, 3));
}
#define shorts_store_units avx512_shorts_store_units
#define shorts_low(a, b) _mm512_mullo_epi16(a, b)
#define shorts_fraction(a, b) _mm512_mulhrs_epi16(a, b)
/* Assembly: gcc would compute many sums before comparing one. */
#define shorts_min_sum(best, v, w)                                         \
	do {                                                               \
		shorts sum;                                                \
		__asm__ volatile("vpaddw %3, %2, %1\n\tvpminsw %1, %0, %0" \
				 : "+v"(best), "=&v"(sum)                  \
				 : "v"(v), "m"(w));                        \
	} while (0)

typedef __mmask32 shorts_mask;
#define mask_bit(v, n) _mm512_test_epi16_mask(v, shorts_all((int16_t)(1 << (n))))
#define mask_less(a, b) _mm512_cmplt_epi16_mask(a, b)
#define mask_equal(a, b) _mm512_cmpeq_epi16_mask(a, b)
#define shorts_pick(mask, a, b) _mm512_mask_mov_epi16(b, mask, a)

typedef __m512i bytes16;
#define make_bytes(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(p)))
/* The upper byte of a lane selects nothing. */
#define shorts_look_up(table, i) \
	_mm512_shuffle_epi8(table, shorts_or(i, shorts_all((int16_t)0x8000)))

typedef __m512i ints;
#define ints_none() _mm512_setzero_si512()
#define ints_store(p, v) shorts_store(p, v)
ALWAYS_INLINE void avx512_ints_add_products(ints sum[2], const shorts a[2], const shorts b[2])
{
	const ints low = _mm512_madd_epi16(_mm512_unpacklo_epi16(a[0], a[1]),
					   _mm512_unpacklo_epi16(b[0], b[1]));
	const ints high = _mm512_madd_epi16(_mm512_unpackhi_epi16(a[0], a[1]),
					    _mm512_unpackhi_epi16(b[0], b[1]));
	sum[0] = _mm512_add_epi32(sum[0], low);
	sum[1] = _mm512_add_epi32(sum[1], high);
}
#define ints_add_products avx512_ints_add_products

/* ---- states of a trellis, for tc_errors_lanes.h ---- */

#define lanes_less(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define lanes_pick(mask, a, b) _mm512_mask_mov_ps(b, mask, a)
#define lanes_ints_load(p) _mm512_loadu_si512(p)
#define lanes_ints_store(p, v) _mm512_storeu_si512(p, v)
#define lanes_ints_pick(mask, a, b) _mm512_mask_mov_epi32(b, mask, a)
#define lanes_ints_xor(a, b) _mm512_xor_si512(a, b)
#define lanes_mask_is(v, n) _mm512_cmpeq_epi32_mask(v, _mm512_set1_epi32(n))
#define lanes_look_up(table, i) _mm512_permutexvar_ps(i, (table)[0])

#include "kernels/lanes.h"

/* ---- the tables ---- */

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
multiply_fn avx512amx_multiply_tq2, avx512amx_multiply_tq3, avx512amx_multiply_tq4;
multiply_fn avx512amx_multiply_tc2, avx512amx_multiply_tc3, avx512amx_multiply_tc4;

#define PROTOTYPE(name, format) multiply_fn avx512_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(name, format) multiply_fn avx512vnni_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(name, format) multiply_fn avx512amx_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE

/* Functions of the AVX2 table, used here too: they mostly divide, which wider registers do not
 * speed up, or are rarely used. */
void avx2_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k);
void avx2_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k);
bool avx2_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain);
bool avx512_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits, enum tq_gain gain);
bool avx512_tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits);
void avx512_tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);
void avx512_tc_choose(uint8_t symbol[TQ_GROUP], const struct tc_group *g,
		      const float weight[TQ_GROUP], const float aimed[TQ_GROUP],
		      const float target[TQ_GROUP], float norm);
bool avx512_tc_improve(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP], const struct tc_group *g,
		       float norm, float least);

void avx512_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		   uint32_t latent_dim);
void avx512_attend(float *out, const float *q, const struct attention *a);
void avx512_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n);
void avx512_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
			 uint32_t n, uint32_t span0, uint32_t span1);
void avx512_attend_join(float *out, size_t stride, float *joined, const float *parts,
			const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);
void avx512vnni_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		       uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		       uint32_t latent_dim);
void avx512vnni_attend(float *out, const float *q, const struct attention *a);
void avx512vnni_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			      uint32_t n);
void avx512vnni_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
			     uint32_t n, uint32_t span0, uint32_t span1);
void avx512vnni_attend_join(float *out, size_t stride, float *joined, const float *parts,
			    const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);

#endif
