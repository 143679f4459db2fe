/* Products of TC matrices for AVX-512 without VNNI and VBMI (Skylake-X): tables are those of a
 * shuffle, and codes are so small that no sum of two products saturates. */
#if defined(__x86_64__)

#include "kernels/avx512_tc.h"

/* A shuffle looks at the highest bit, too. */
ALWAYS_INLINE __m512i avx512_bare_nibbles(__m512i v)
{
	return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

ALWAYS_INLINE __m512i avx512_look_up(__m512i table, __m512i nibbles)
{
	return _mm512_shuffle_epi8(table, nibbles);
}

ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q)
{
	const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi32(q));
	return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

void avx512_multiply_tc2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	avx512_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void avx512_multiply_tc3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	avx512_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void avx512_multiply_tc4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	avx512_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif
