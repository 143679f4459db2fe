/* The NEON tables' products of float matrices (the shape of a block of sums, for multiply_lanes.h)
 * and, without dot product instructions, of matrices of blocks (dots, for block_lanes.h); and for
 * both tables the 8-bit form of the inputs of blocks.
 *
 * Products of two columns are summed in 16 bits, at most 2 · 128 · 127 in magnitude; pairs of those
 * sums then join the 32-bit ones. So a row has two lanes, which are added at the end. */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"

/* 24 registers of sums; weights and inputs need 5 more. */
enum { MULTIPLY_ROWS = 2, MULTIPLY_TOKENS = 3, MULTIPLY_AHEAD = 0 };
#define multiply_rows(tokens) MULTIPLY_ROWS
#define MULTIPLY_CASES(CASE) CASES_TO_3(CASE)

#include "kernels/multiply_lanes.h"

/* ---- blocks ---- */

enum { BLOCK_WIDE_OFFSET = 0 };

ALWAYS_INLINE void neon_block_dot(uint32x4_t sum[], uint32x4_t code[][WORDS], size_t from,
				  const int8_t *q, size_t count, int most, size_t joint)
{
	(void)most;
	for (size_t j = 0; j < joint; j++) {
		int32x4_t low = vdupq_n_s32(0), high = low; /* rows 0 and 1, rows 2 and 3 */
		for (size_t k = 0; k < count; k += 2) {
			const int32x2_t eight = vreinterpret_s32_s8(vld1_s8(q + 4 * k));
			const int8x16_t first = vreinterpretq_s8_u32(code[j][from + k]),
					second = vreinterpretq_s8_u32(code[j][from + k + 1]),
					x = vreinterpretq_s8_s32(vdupq_lane_s32(eight, 0)),
					z = vreinterpretq_s8_s32(vdupq_lane_s32(eight, 1));
			const int16x8_t l = vmull_s8(vget_low_s8(first), vget_low_s8(x)),
					h = vmull_high_s8(first, x);
			low = vpadalq_s16(low, vmlal_s8(l, vget_low_s8(second), vget_low_s8(z)));
			high = vpadalq_s16(high, vmlal_high_s8(h, second, z));
		}
		sum[j] = vaddq_u32(sum[j], vreinterpretq_u32_s32(vpaddq_s32(low, high)));
	}
}

#define block_dot neon_block_dot
#include "kernels/block_lanes.h"

/* ---- inputs ---- */

/* 16 floats, divided and rounded. */
ALWAYS_INLINE int8x16_t neon_to_bytes(const float *x, float32x4_t divisor)
{
	int16x4_t part[4];

	for (size_t i = 0; i < 4; i++) {
		const float32x4_t v = vdivq_f32(vld1q_f32(x + i * LANES), divisor);
		part[i] = vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(v, vdupq_n_f32(127))));
	}
	return vcombine_s8(vqmovn_s16(vcombine_s16(part[0], part[1])),
			   vqmovn_s16(vcombine_s16(part[2], part[3])));
}

void neon_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k)
{
	enum { INFINITE = 0x7f800000 };

	for (size_t b = 0; b < k / BLOCK; b++, x += BLOCK) {
		uint32x4_t most = vdupq_n_u32(0);
		for (size_t i = 0; i < BLOCK; i += LANES)
			most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
		const uint32_t bits = vmaxvq_u32(most);
		const bool finite = bits < INFINITE;
		float max;
		memcpy(&max, &bits, sizeof max);
		scale[b] = finite ? max / 127 : NAN;
		for (size_t h = 0; h < HALVES; h++, q += HALF_BLOCK, sum++) {
			int8x16_t bytes = vdupq_n_s8(0);
			if (finite)
				bytes = neon_to_bytes(x + h * HALF_BLOCK,
						      vdupq_n_f32(max == 0 ? 1 : max));
			vst1q_s8(q, bytes);
			*sum = vaddlvq_s8(bytes);
		}
	}
}

#endif
