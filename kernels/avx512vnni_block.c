/* Products of matrices of blocks for AVX-512 with VNNI. vpdpbusd multiplies unsigned by signed
 * bytes, so signed codes are made larger by 128.
 */
#if defined(__x86_64__)

#include "kernels/avx512_block.h"

#define TABLE(function) avx512vnni_##function

enum { WIDE_OFFSET = 128 };

ALWAYS_INLINE __m512i dot(__m512i sum, const __m512i *code, const int8_t *q, size_t count, int most)
{
	(void)most;
	for (size_t k = 0; k < count; k++)
		sum = _mm512_dpbusd_epi32(sum, code[k], load_four(q + 4 * k));
	return sum;
}

#include "kernels/block_lanes.h"

#endif
