/* The AVX-512 tables' attention: the shape of a tile, for attention_lanes.h, and the operations on
 * codes, for attention_codes_lanes.h. Included by avx512_attention.c and, with AVX512_VNNI, by
 * avx512vnni_attention.c. */
#ifndef MOEFS_KERNELS_AVX512_ATTENTION_H
#define MOEFS_KERNELS_AVX512_ATTENTION_H

#include "kernels/avx512_lanes.h"

/* Tiles of up to 4 queries have 4 registers per query, larger ones 2: 16 sums. */
enum { ATTENTION_TILE = 8, ATTENTION_REGISTERS = 4, ATTENTION_SIDE_BY_SIDE = 1 };
#define attention_registers(queries) ((queries) > ATTENTION_TILE / 2 ? 2 : ATTENTION_REGISTERS)
#define attention_ask(p) _mm_prefetch(p, _MM_HINT_T1)
#define ATTENTION_CASES(CASE) CASES_TO_8(CASE)

/* ---- codes ---- */

enum { CODES_OFFSET = 128, CODES_KEYS = 4, CODES_VALUES = 2 };
#define codes_ask(p) _mm_prefetch(p, _MM_HINT_T1)
#define codes_all(i) _mm512_set1_epi32(i)
#define codes_floats(sum) _mm512_cvtepi32_ps(sum)
#define codes_join(high, low) _mm512_add_epi32(_mm512_slli_epi32(high, 7), low)
#define codes_load_values(p) _mm512_loadu_si512(p)

#ifdef AVX512_VNNI
typedef int8_t codes_query;
struct attention_keys {
	__m512i all;
};
#define codes_place(i) (i)

ALWAYS_INLINE struct attention_keys attention_load_keys(const uint8_t *p)
{
	return (struct attention_keys){_mm512_loadu_si512(p)};
}

/* Assembly: gcc copies each sum before adding to it. */
ALWAYS_INLINE __m512i attention_dot(__m512i sum, __m512i unsigned_bytes, __m512i signed_bytes)
{
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
	return sum;
}

ALWAYS_INLINE __m512i attention_dot_keys(__m512i sum, struct attention_keys k, const codes_query *q)
{
	return attention_dot(sum, k.all, avx512_load_four(q));
}

ALWAYS_INLINE __m512i attention_dot_values(__m512i sum, __m512i v, const uint8_t *w)
{
	return attention_dot(sum, avx512_load_four((const int8_t *)w), v);
}
#else
/* Bytes of keys and queries are widened to 16 bits: columns 0 and 2, then 1 and 3. Two digits of 7
 * bits times two values fit into 16 bits. */
typedef int16_t codes_query;
struct attention_keys {
	__m512i even, odd;
};
#define codes_place(i) ((i) / 2 + (i) % 2 * 2)

ALWAYS_INLINE struct attention_keys attention_load_keys(const uint8_t *p)
{
	const __m512i k = _mm512_loadu_si512(p);
	return (struct attention_keys){_mm512_and_si512(k, _mm512_set1_epi16(0xff)),
				       _mm512_srli_epi16(k, 8)};
}

ALWAYS_INLINE __m512i attention_dot_keys(__m512i sum, struct attention_keys k, const codes_query *q)
{
	const __m512i even = avx512_load_four((const int8_t *)q),
		      odd = avx512_load_four((const int8_t *)(q + 2));
	sum = _mm512_add_epi32(sum, _mm512_madd_epi16(k.even, even));
	return _mm512_add_epi32(sum, _mm512_madd_epi16(k.odd, odd));
}

ALWAYS_INLINE __m512i attention_dot_values(__m512i sum, __m512i v, const uint8_t *w)
{
	const __m512i pairs = _mm512_maddubs_epi16(avx512_load_four((const int8_t *)w), v);
	return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

#include "kernels/attention_lanes.h"

#endif
