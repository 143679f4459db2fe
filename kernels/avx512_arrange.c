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

/* Words of rows in registers, row r (and r + 4, 8, 12) in row[r]. */
ALWAYS_INLINE void first_two_words(lanes to[2], const __m512i row[4])
{
	const __m512i a = _mm512_unpacklo_epi32(row[0], row[1]),
		      b = _mm512_unpacklo_epi32(row[2], row[3]);
	to[0] = (lanes)_mm512_unpacklo_epi64(a, b);
	to[1] = (lanes)_mm512_unpackhi_epi64(a, b);
}
ALWAYS_INLINE void last_two_words(lanes to[2], const __m512i row[4])
{
	const __m512i a = _mm512_unpackhi_epi32(row[0], row[1]),
		      b = _mm512_unpackhi_epi32(row[2], row[3]);
	to[0] = (lanes)_mm512_unpacklo_epi64(a, b);
	to[1] = (lanes)_mm512_unpackhi_epi64(a, b);
}

ALWAYS_INLINE void load_four(lanes to[4], const uint8_t *at, size_t stride)
{
	__m512i row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_rows(at + r * stride, stride);
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

ALWAYS_INLINE void load_two(lanes to[2], const uint8_t *at, size_t stride)
{
	__m512i row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_short_rows(at + r * stride, stride);
	first_two_words(to, row);
}

ALWAYS_INLINE void load_mixed(lanes to[4], const uint8_t *at, size_t stride)
{
	const __m512i order = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
	__m512i row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = _mm512_shuffle_epi8(load_rows(at + r * stride, stride), order);
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

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
