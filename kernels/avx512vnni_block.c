/* Products of matrices of blocks for AVX-512 with VNNI. vpdpbusd multiplies unsigned by signed
 * bytes, so signed codes are made larger by 128.
 */
#if defined(__x86_64__)

#define TABLE(function) avx512vnni_##function

#include "kernels/avx512_lanes.h"

enum { BLOCK_WIDE_OFFSET = 128 };

ALWAYS_INLINE void avx512_block_dot(__m512i sum[], __m512i code[][WORDS], size_t from,
				    const int8_t *q, size_t count, int most, size_t joint)
{
	(void)most;
	for (size_t k = 0; k < count; k++) {
		const __m512i x = avx512_load_four(q + 4 * k);
		for (size_t j = 0; j < joint; j++)
			sum[j] = _mm512_dpbusd_epi32(sum[j], code[j][from + k], x);
	}
}

#define block_dot avx512_block_dot
#include "kernels/block_lanes.h"

#endif
