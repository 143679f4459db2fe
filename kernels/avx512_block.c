/* Products of matrices of blocks for AVX-512 without VNNI.
 *
 * vpmaddubsw sums two products in 16 bits. With small codes several such sums fit in 16 bits, so
 * they are widened once. Signed codes are multiplied by their magnitudes, by inputs that have taken
 * their signs: two products are then at most 2 · 128 · 127, which fits. */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"

enum { BLOCK_WIDE_OFFSET = 0 };

ALWAYS_INLINE __m512i avx512_products(__m512i code, __m512i x, int most)
{
	if (most < INT8_MAX)
		return _mm512_maddubs_epi16(code, x);
	const __m512i signed_x =
		_mm512_mask_sub_epi8(x, _mm512_movepi8_mask(code), _mm512_setzero_si512(), x);
	return _mm512_maddubs_epi16(_mm512_abs_epi8(code), signed_x);
}

ALWAYS_INLINE void avx512_block_dot(__m512i sum[], __m512i code[][WORDS], size_t from,
				    const int8_t *q, size_t count, int most, size_t joint)
{
	const size_t fit = (size_t)(INT16_MAX / (2 * most * INT8_MAX));

	for (size_t j = 0; j < joint; j++)
		for (size_t k = 0; k < count; k += fit) {
			const __m512i *c = code[j] + from + k;
			__m512i pairs = avx512_products(c[0], avx512_load_four(q + 4 * k), most);
			for (size_t i = 1; i < fit && k + i < count; i++)
				pairs = _mm512_add_epi16(
					pairs,
					avx512_products(c[i], avx512_load_four(q + 4 * (k + i)),
							most));
			sum[j] = _mm512_add_epi32(sum[j],
						  _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
		}
}

#define block_dot avx512_block_dot
#include "kernels/block_lanes.h"

#endif
