/* Products of TC matrices for AVX-512 with VNNI and VBMI (Ice Lake, Zen 4 and later): a byte
 * permutation looks at 6 bits, so a table that is repeated four times needs no mask before it. */
#if defined(__x86_64__)

#include "kernels/avx512_tc.h"

ALWAYS_INLINE __m512i avx512_bare_nibbles(__m512i v)
{
	return v;
}

ALWAYS_INLINE __m512i avx512_look_up(__m512i table, __m512i nibbles)
{
	return _mm512_permutexvar_epi8(nibbles, table);
}

ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q)
{
	return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(q));
}

void avx512vnni_multiply_tc2(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	avx512_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void avx512vnni_multiply_tc3(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	avx512_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void avx512vnni_multiply_tc4(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			     uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	avx512_multiply_tc(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif
