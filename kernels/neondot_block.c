/* Products of matrices of blocks for NEON with the dot product instructions of ARMv8.2. */
#if defined(__aarch64__)

#define TABLE(function) neondot_##function

#include "kernels/neon_lanes.h"

enum { BLOCK_WIDE_OFFSET = 0 };

ALWAYS_INLINE void neon_block_dot(uint32x4_t sum[], uint32x4_t code[][WORDS], size_t from,
				  const int8_t *q, size_t count, int most, size_t joint)
{
	(void)most;
	for (size_t k = 0; k < count; k += 2) {
		const int8x8_t eight = vld1_s8(q + 4 * k);
		for (size_t j = 0; j < joint; j++) {
			const int8x16_t first = vreinterpretq_s8_u32(code[j][from + k]),
					second = vreinterpretq_s8_u32(code[j][from + k + 1]);
			int32x4_t s = vreinterpretq_s32_u32(sum[j]);
			s = vdotq_lane_s32(s, first, eight, 0);
			sum[j] = vreinterpretq_u32_s32(vdotq_lane_s32(s, second, eight, 1));
		}
	}
}

#define block_dot neon_block_dot
#include "kernels/block_lanes.h"

#endif
