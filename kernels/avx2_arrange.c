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

typedef __m256i wide_rows;
#define UNPACK_LOW_WORDS _mm256_unpacklo_epi32
#define UNPACK_HIGH_WORDS _mm256_unpackhi_epi32
#define UNPACK_LOW_PAIRS _mm256_unpacklo_epi64
#define UNPACK_HIGH_PAIRS _mm256_unpackhi_epi64
#define SHUFFLE_BYTES _mm256_shuffle_epi8
#define IN_EACH_LANE _mm256_broadcastsi128_si256
#include "kernels/x86_arrange.h"

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
