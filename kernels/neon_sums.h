/* How codes meet inputs in NEON without dot product instructions.
 *
 * Products of an even and of an odd column are summed in 16 bits, at most 2 · 127 · 114 in
 * magnitude; pairs of those sums then join the 32-bit ones. A row so has two lanes, which are added
 * at the end of the group.
 */
#ifndef MOEFS_KERNELS_NEON_SUMS_H
#define MOEFS_KERNELS_NEON_SUMS_H

enum { SUM_PARTS = 2 }; /* rows 0 and 1, rows 2 and 3 */

#include "kernels/neon_tq.h"

ALWAYS_INLINE struct neon_sums neon_add_products(struct neon_sums sums, struct neon_codes codes,
						 int8x8_t q)
{
	const int32x2_t words = vreinterpret_s32_s8(q);
	const int8x16_t even = vreinterpretq_s8_s32(vdupq_lane_s32(words, 0));
	const int8x16_t odd = vreinterpretq_s8_s32(vdupq_lane_s32(words, 1));
	int16x8_t low = vmull_s8(vget_low_s8(codes.even), vget_low_s8(even));
	int16x8_t high = vmull_high_s8(codes.even, even);

	low = vmlal_s8(low, vget_low_s8(codes.odd), vget_low_s8(odd));
	high = vmlal_high_s8(high, codes.odd, odd);
	return (struct neon_sums){
		{vpadalq_s16(sums.part[0], low), vpadalq_s16(sums.part[1], high)},
	};
}

ALWAYS_INLINE int32x4_t neon_total(struct neon_sums sums)
{
	return vpaddq_s32(sums.part[0], sums.part[1]);
}

#endif
