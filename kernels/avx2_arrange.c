/* The way of blocks into memory for AVX2. The upper half of a register has the rows four farther,
 * since what interleaves words does so within halves. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define WAYS block_ways_avx2
#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef uint32_t lanes __attribute__((vector_size(32)));

ALWAYS_INLINE __m128i load_16(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m128i load_8(const uint8_t *at)
{
	return _mm_loadl_epi64((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m256i load_rows(const uint8_t *at, size_t stride)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(at)),
				       load_16(at + 4 * stride), 1);
}
ALWAYS_INLINE __m256i load_short_rows(const uint8_t *at, size_t stride)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(load_8(at)), load_8(at + 4 * stride),
				       1);
}

/* Words of rows in registers, row r (and r + 4) in row[r]. */
ALWAYS_INLINE void first_two_words(lanes to[2], const __m256i row[4])
{
	const __m256i a = _mm256_unpacklo_epi32(row[0], row[1]),
		      b = _mm256_unpacklo_epi32(row[2], row[3]);
	to[0] = (lanes)_mm256_unpacklo_epi64(a, b);
	to[1] = (lanes)_mm256_unpackhi_epi64(a, b);
}
ALWAYS_INLINE void last_two_words(lanes to[2], const __m256i row[4])
{
	const __m256i a = _mm256_unpackhi_epi32(row[0], row[1]),
		      b = _mm256_unpackhi_epi32(row[2], row[3]);
	to[0] = (lanes)_mm256_unpacklo_epi64(a, b);
	to[1] = (lanes)_mm256_unpackhi_epi64(a, b);
}

ALWAYS_INLINE void load_four(lanes to[4], const uint8_t *at, size_t stride)
{
	__m256i row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_rows(at + r * stride, stride);
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

ALWAYS_INLINE void load_two(lanes to[2], const uint8_t *at, size_t stride)
{
	__m256i row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_short_rows(at + r * stride, stride);
	first_two_words(to, row);
}

ALWAYS_INLINE void load_mixed(lanes to[4], const uint8_t *at, size_t stride)
{
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
	__m256i row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = _mm256_shuffle_epi8(load_rows(at + r * stride, stride), order);
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

ALWAYS_INLINE void put_halves(uint8_t *to, lanes v)
{
	const __m256i low = (__m256i)(v & 0xffff);
	_mm_storeu_si128((__m128i *)(void *)to, _mm_packus_epi32(_mm256_castsi256_si128(low),
								 _mm256_extracti128_si256(low, 1)));
}

ALWAYS_INLINE void put_bytes(uint8_t *to, size_t step, lanes v)
{
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m256i four = _mm256_shuffle_epi8((__m256i)v, order);
	const __m128i a = _mm256_castsi256_si128(four), b = _mm256_extracti128_si256(four, 1);
	const __m128i first = _mm_unpacklo_epi32(a, b), last = _mm_unpackhi_epi32(a, b);

	_mm_storel_epi64((__m128i *)(void *)to, first);
	_mm_storeh_pd((double *)(void *)(to + step), _mm_castsi128_pd(first));
	_mm_storel_epi64((__m128i *)(void *)(to + 2 * step), last);
	_mm_storeh_pd((double *)(void *)(to + 3 * step), _mm_castsi128_pd(last));
}

#include "kernels/block_codes.h"

#endif
