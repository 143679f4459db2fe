/* The AVX2 table's encoder of TC: what a vector is; the rest is in trellis_lanes.h and
 * trellis_groups.h. */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"

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
ALWAYS_INLINE shorts shorts_units(const int16_t *p, size_t stride)
{
	return _mm256_loadu2_m128i((const __m128i *)(const void *)(p + stride),
				   (const __m128i *)(const void *)p);
}
ALWAYS_INLINE void shorts_store_units(int16_t *p, size_t stride, shorts v)
{
	_mm256_storeu2_m128i((__m128i *)(void *)(p + stride), (__m128i *)(void *)p, v);
}
#define shorts_low(a, b) _mm256_mullo_epi16(a, b)
#define shorts_fraction(a, b) _mm256_mulhrs_epi16(a, b)
/* In place and now: gcc would form many sums before it compares one, for which there are too few
 * registers. */
#define shorts_min_sum(best, v, w)                                         \
	do {                                                               \
		shorts sum;                                                \
		__asm__ volatile("vpaddw %3, %2, %1\n\tvpminsw %1, %0, %0" \
				 : "+x"(best), "=&x"(sum)                  \
				 : "x"(v), "m"(w));                        \
	} while (0)

typedef __m256i mask;
ALWAYS_INLINE mask mask_bit(shorts v, uint32_t n)
{
	const shorts bit = shorts_all((int16_t)(1 << n));
	return _mm256_cmpeq_epi16(shorts_and(v, bit), bit);
}
#define mask_less(a, b) _mm256_cmpgt_epi16(b, a)
#define mask_equal(a, b) _mm256_cmpeq_epi16(a, b)
#define shorts_pick(mask, a, b) _mm256_blendv_epi8(b, a, mask)

typedef __m256i bytes16;
#define make_bytes(p) \
	_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p)))
/* The upper byte of a lane names none. */
#define shorts_look_up(table, i) \
	_mm256_shuffle_epi8(table, shorts_or(i, shorts_all((int16_t)0x8000)))

typedef __m256i ints;
#define ints_none() _mm256_setzero_si256()
#define ints_store(p, v) shorts_store(p, v)
ALWAYS_INLINE void ints_add_products(ints sum[2], const shorts a[2], const shorts b[2])
{
	const ints low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a[0], a[1]),
					   _mm256_unpacklo_epi16(b[0], b[1]));
	const ints high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a[0], a[1]),
					    _mm256_unpackhi_epi16(b[0], b[1]));
	sum[0] = _mm256_add_epi32(sum[0], low);
	sum[1] = _mm256_add_epi32(sum[1], high);
}

#define tq_normalise avx2_tq_normalise

#include "kernels/trellis_groups.h"

#endif
