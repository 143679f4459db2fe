/* The AVX2 table's encoder of TC: what a vector is; the rest is in trellis_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx2.h"

#define TABLE(function) avx2_##function

typedef __m256i ints;
enum { LANES = AVX2_LANES };

#define ints_load(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define ints_store(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define ints_all(i) _mm256_set1_epi32(i)
#define ints_add(a, b) _mm256_add_epi32(a, b)
#define ints_sub(a, b) _mm256_sub_epi32(a, b)
#define ints_min(a, b) _mm256_min_epi32(a, b)
#define ints_and(a, b) _mm256_and_si256(a, b)
#define ints_or(a, b) _mm256_or_si256(a, b)
#define ints_xor(a, b) _mm256_xor_si256(a, b)
#define ints_left(v, n) _mm256_slli_epi32(v, (int)(n))
#define ints_right(v, n) _mm256_srli_epi32(v, (int)(n))
#define ints_right_each(v, counts) _mm256_srlv_epi32(v, counts)

ALWAYS_INLINE ints ints_if_negative(ints v, ints a, ints b)
{
	return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(b), _mm256_castsi256_ps(a),
						    _mm256_castsi256_ps(v)));
}

/* A product of pairs of 16 bits, of which the upper one is nothing. */
typedef __m256i factor;
#define make_factor(i) _mm256_set1_epi32((i)&0xffff)
#define ints_times(v, f) _mm256_madd_epi16(v, f)
/* Of numbers in 16 bits, the second looked at as it is. */
#define ints_product(a, b) _mm256_madd_epi16(a, _mm256_and_si256(b, _mm256_set1_epi32(0xffff)))

/* Whole registers: an addition then takes them from memory. */
typedef __m256i constant;
#define make_constant(i) _mm256_set1_epi32(i)
#define ints_of(c) (c)
/* In place and now: gcc would form many sums before it compares one, for which there are too few
 * registers. */
#define ints_min_sum(best, v, c)                                           \
	do {                                                               \
		ints sum;                                                  \
		__asm__ volatile("vpaddd %3, %2, %1\n\tvpminsd %1, %0, %0" \
				 : "+x"(best), "=&x"(sum)                  \
				 : "x"(v), "m"(c));                        \
	} while (0)

typedef __m256i bytes16;
#define make_bytes(p) \
	_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p)))
/* The other bytes of a lane name none. */
#define ints_look_up(table, i) \
	_mm256_shuffle_epi8(table, _mm256_or_si256(i, _mm256_set1_epi32((int32_t)0x80808000)))

#define tq_normalise avx2_tq_normalise

#include "kernels/trellis_lanes.h"

#endif
