/* Products of matrices of blocks for NEON with the dot product instructions of ARMv8.2. */
#if defined(__aarch64__)

#include "kernels/neon_block.h"

#define TABLE(function) neondot_##function

ALWAYS_INLINE uint32x4_t dot(uint32x4_t sum, const uint32x4_t *code, const int8_t *q, size_t count,
			     int most)
{
	int32x4_t s = vreinterpretq_s32_u32(sum);

	(void)most;
	for (size_t k = 0; k < count; k += 2) {
		const int8x8_t eight = vld1_s8(q + 4 * k);
		s = vdotq_lane_s32(s, vreinterpretq_s8_u32(code[k]), eight, 0);
		s = vdotq_lane_s32(s, vreinterpretq_s8_u32(code[k + 1]), eight, 1);
	}
	return vreinterpretq_u32_s32(s);
}

#include "kernels/block_lanes.h"

#endif
