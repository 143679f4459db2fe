/* The AVX-512 tables' encoder of TC: what a vector is; the rest is in trellis_lanes.h and
 * trellis_groups.h. */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"

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
ALWAYS_INLINE __m128i load_unit(const int16_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}
ALWAYS_INLINE shorts shorts_units(const int16_t *p, size_t stride)
{
	shorts v = _mm512_castsi128_si512(load_unit(p));
	v = _mm512_inserti32x4(v, load_unit(p + stride), 1);
	v = _mm512_inserti32x4(v, load_unit(p + 2 * stride), 2);
	return _mm512_inserti32x4(v, load_unit(p + 3 * stride), 3);
}
ALWAYS_INLINE void store_unit(int16_t *p, __m128i unit)
{
	_mm_storeu_si128((__m128i *)(void *)p, unit);
}
ALWAYS_INLINE void shorts_store_units(int16_t *p, size_t stride, shorts v)
{
	store_unit(p, _mm512_castsi512_si128(v));
	store_unit(p + stride, _mm512_extracti32x4_epi32(v, 1));
	store_unit(p + 2 * stride, _mm512_extracti32x4_epi32(v, 2));
	store_unit(p + 3 * stride, _mm512_extracti32x4_epi32(v, 3));
}
#define shorts_low(a, b) _mm512_mullo_epi16(a, b)
#define shorts_fraction(a, b) _mm512_mulhrs_epi16(a, b)
/* In place and now: gcc would form many sums before it compares one. */
#define shorts_min_sum(best, v, w)                                         \
	do {                                                               \
		shorts sum;                                                \
		__asm__ volatile("vpaddw %3, %2, %1\n\tvpminsw %1, %0, %0" \
				 : "+v"(best), "=&v"(sum)                  \
				 : "v"(v), "m"(w));                        \
	} while (0)

typedef __mmask32 mask;
#define mask_bit(v, n) _mm512_test_epi16_mask(v, shorts_all((int16_t)(1 << (n))))
#define mask_less(a, b) _mm512_cmplt_epi16_mask(a, b)
#define mask_equal(a, b) _mm512_cmpeq_epi16_mask(a, b)
#define shorts_pick(mask, a, b) _mm512_mask_mov_epi16(b, mask, a)

typedef __m512i bytes16;
#define make_bytes(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(p)))
/* The upper byte of a lane names none. */
#define shorts_look_up(table, i) \
	_mm512_shuffle_epi8(table, shorts_or(i, shorts_all((int16_t)0x8000)))

typedef __m512i ints;
#define ints_none() _mm512_setzero_si512()
#define ints_store(p, v) shorts_store(p, v)
ALWAYS_INLINE void ints_add_products(ints sum[2], const shorts a[2], const shorts b[2])
{
	const ints low = _mm512_madd_epi16(_mm512_unpacklo_epi16(a[0], a[1]),
					   _mm512_unpacklo_epi16(b[0], b[1]));
	const ints high = _mm512_madd_epi16(_mm512_unpackhi_epi16(a[0], a[1]),
					    _mm512_unpackhi_epi16(b[0], b[1]));
	sum[0] = _mm512_add_epi32(sum[0], low);
	sum[1] = _mm512_add_epi32(sum[1], high);
}

#define tq_normalise avx512_tq_normalise

#include "kernels/trellis_groups.h"

#endif
