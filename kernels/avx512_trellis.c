/* The AVX-512 tables' encoder of TC: what a vector is; the rest is in trellis_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx512.h"

#define TABLE(function) avx512_##function

typedef __m512i shorts;
enum { LANES = 32 };

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
#define shorts_low(a, b) _mm512_mullo_epi16(a, b)
#define shorts_fraction(a, b) _mm512_mulhrs_epi16(a, b)
/* In place and now: gcc would form many sums before it compares one. */
#define shorts_min_sum(best, v, w)                                          \
	do {                                                                \
		shorts sum;                                                 \
		__asm__ volatile("vpaddsw %3, %2, %1\n\tvpminsw %1, %0, %0" \
				 : "+v"(best), "=&v"(sum)                   \
				 : "v"(v), "m"(w));                         \
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
ALWAYS_INLINE void ints_add_products(ints sum[2], shorts a, shorts b)
{
	const shorts none = _mm512_setzero_si512();
	sum[0] = _mm512_add_epi32(sum[0], _mm512_madd_epi16(_mm512_unpacklo_epi16(a, none),
							    _mm512_unpacklo_epi16(b, none)));
	sum[1] = _mm512_add_epi32(sum[1], _mm512_madd_epi16(_mm512_unpackhi_epi16(a, none),
							    _mm512_unpackhi_epi16(b, none)));
}

#define tq_normalise avx2_tq_normalise

#include "kernels/trellis_lanes.h"

#endif
