/* What a vector is to the AVX-512 products of matrices of blocks, with and without VNNI. Whoever
 * includes this defines dot and BLOCK_WIDE_OFFSET, and then includes block_lanes.h. */
#ifndef MOEFS_KERNELS_AVX512_BLOCK_H
#define MOEFS_KERNELS_AVX512_BLOCK_H

#include "kernels/avx512_lanes.h"
#include "kernels/block_layout.h"

typedef __m512i words;
typedef __m512 floats;
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
#define floats_load(p) _mm512_loadu_ps(p)
#define floats_store(p, v) _mm512_storeu_ps(p, v)
#define floats_all(f) _mm512_set1_ps(f)
#define floats_of(v) _mm512_cvtepi32_ps(v)
#define floats_of_bits(v) _mm512_castsi512_ps(v)
#define floats_of_halves(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define floats_mul(a, b) _mm512_mul_ps(a, b)
#define floats_fma(a, b, c) _mm512_fmadd_ps(a, b, c)

/* Four bytes of an input, in all lanes. */
ALWAYS_INLINE __m512i avx512_load_four(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return _mm512_set1_epi32(four);
}

#endif
