/* How codes meet inputs with the dot product instructions of ARMv8.2: four products of bytes are
 * added to each 32-bit lane, and lanes are rows.
 */
#ifndef MOEFS_KERNELS_NEONDOT_SUMS_H
#define MOEFS_KERNELS_NEONDOT_SUMS_H

enum { SUM_PARTS = 1 };

#include "kernels/neon_tq.h"

ALWAYS_INLINE struct neon_sums neon_add_products(struct neon_sums sums, struct neon_codes codes,
						 int8x8_t q)
{
	const int32x4_t even = vdotq_lane_s32(sums.part[0], codes.even, q, 0);
	return (struct neon_sums){{vdotq_lane_s32(even, codes.odd, q, 1)}};
}

ALWAYS_INLINE int32x4_t neon_total(struct neon_sums sums)
{
	return sums.part[0];
}

#endif
