/* The way of blocks into memory for AVX-512. Each quarter of a register has the rows four farther,
 * since what interleaves words does so within quarters. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define WAYS block_ways_avx512
#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };
typedef uint32_t lanes __attribute__((vector_size(64)));

ALWAYS_INLINE __m128i load_16(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m128i load_8(const uint8_t *at)
{
	return _mm_loadl_epi64((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m512i join(__m128i a, __m128i b, __m128i c, __m128i d)
{
	const __m512i first = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
	return _mm512_inserti32x4(_mm512_inserti32x4(first, c, 2), d, 3);
}
ALWAYS_INLINE __m512i load_rows(const uint8_t *at, size_t stride)
{
	return join(load_16(at), load_16(at + 4 * stride), load_16(at + 8 * stride),
		    load_16(at + 12 * stride));
}
ALWAYS_INLINE __m512i load_short_rows(const uint8_t *at, size_t stride)
{
	return join(load_8(at), load_8(at + 4 * stride), load_8(at + 8 * stride),
		    load_8(at + 12 * stride));
}

typedef __m512i wide_rows;
#define UNPACK_LOW_WORDS _mm512_unpacklo_epi32
#define UNPACK_HIGH_WORDS _mm512_unpackhi_epi32
#define UNPACK_LOW_PAIRS _mm512_unpacklo_epi64
#define UNPACK_HIGH_PAIRS _mm512_unpackhi_epi64
#define SHUFFLE_BYTES _mm512_shuffle_epi8
#define IN_EACH_LANE _mm512_broadcast_i32x4
#include "kernels/x86_arrange.h"

ALWAYS_INLINE void put_halves(uint8_t *to, lanes v)
{
	_mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16((__m512i)v));
}

ALWAYS_INLINE void put_bytes(uint8_t *to, size_t step, lanes v)
{
	const __m512i order = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m512i quarters =
		_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	const __m512i four =
		_mm512_permutexvar_epi32(quarters, _mm512_shuffle_epi8((__m512i)v, order));

	_mm_storeu_si128((__m128i *)(void *)to, _mm512_castsi512_si128(four));
	_mm_storeu_si128((__m128i *)(void *)(to + step), _mm512_extracti32x4_epi32(four, 1));
	_mm_storeu_si128((__m128i *)(void *)(to + 2 * step), _mm512_extracti32x4_epi32(four, 2));
	_mm_storeu_si128((__m128i *)(void *)(to + 3 * step), _mm512_extracti32x4_epi32(four, 3));
}

#include "kernels/block_codes.h"

#endif
