/* The AVX-512 tables' encoder of TC: what a vector is; the rest is in trellis_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx512.h"

#define TABLE(function) avx512_##function

typedef __m512i ints;
enum { LANES = 16 };

#define ints_load(p) _mm512_loadu_si512(p)
#define ints_store(p, v) _mm512_storeu_si512(p, v)
#define ints_all(i) _mm512_set1_epi32(i)
#define ints_add(a, b) _mm512_add_epi32(a, b)
#define ints_sub(a, b) _mm512_sub_epi32(a, b)
#define ints_min(a, b) _mm512_min_epi32(a, b)
#define ints_and(a, b) _mm512_and_si512(a, b)
#define ints_or(a, b) _mm512_or_si512(a, b)
#define ints_xor(a, b) _mm512_xor_si512(a, b)
#define ints_left(v, n) _mm512_slli_epi32(v, (unsigned)(n))
#define ints_right(v, n) _mm512_srli_epi32(v, (unsigned)(n))
#define ints_right_each(v, counts) _mm512_srlv_epi32(v, counts)
#define ints_if_negative(v, a, b) _mm512_mask_mov_epi32(b, _mm512_movepi32_mask(v), a)

/* A product of pairs of 16 bits, of which the upper one is nothing. */
typedef __m512i factor;
#define make_factor(i) _mm512_set1_epi32((i)&0xffff)
#define ints_times(v, f) _mm512_madd_epi16(v, f)
/* Of numbers in 16 bits, the second looked at as it is. */
#define ints_product(a, b) _mm512_madd_epi16(a, _mm512_and_si512(b, _mm512_set1_epi32(0xffff)))

/* Single numbers: an addition spreads them as it takes them from memory. */
typedef int32_t constant;
#define make_constant(i) (i)
#define ints_of(c) _mm512_set1_epi32(c)
#define ints_min_sum(best, v, c)                                                    \
	do {                                                                        \
		ints sum;                                                           \
		__asm__ volatile("vpaddd %3%{1to16%}, %2, %1\n\tvpminsd %1, %0, %0" \
				 : "+v"(best), "=&v"(sum)                           \
				 : "v"(v), "m"(c));                                 \
	} while (0)

typedef __m512i bytes16;
#define make_bytes(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(p)))
/* The other bytes of a lane name none. */
#define ints_look_up(table, i) \
	_mm512_shuffle_epi8(table, _mm512_or_si512(i, _mm512_set1_epi32((int32_t)0x80808000)))

#define tq_normalise avx2_tq_normalise

#include "kernels/trellis_lanes.h"

#endif
