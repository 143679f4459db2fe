/* How NEON makes codes of the indices of TQ matrices: a table lookup each. */
#ifndef MOEFS_KERNELS_NEON_TQ_CODES_H
#define MOEFS_KERNELS_NEON_TQ_CODES_H

#include "kernels/neon_tq.h"

struct neon_maker {
	int8x16_t codebook; /* its levels, and after them anything */
};

ALWAYS_INLINE void neon_begin_tile(struct neon_maker *m, const uint8_t *tile, uint32_t bits)
{
	(void)m, (void)tile, (void)bits;
}

/* Index i (0 … 7) of each unit in the lower bits of each byte; `planes` is a slab's first one, at
 * the rows in question. Shifts move bytes, not words as on x86, so bits of a neighbour never get
 * in; but there are none by 0 or 8. i and bits are constants where this is inlined.
 */
ALWAYS_INLINE uint8x16_t neon_indices(const uint8_t *planes, size_t i, size_t bits)
{
	const size_t plane = i * bits / 8, shift = i * bits % 8, here = 8 - shift;
	const uint8x16_t all = vld1q_u8(planes + plane * PLANE_BYTES);
	const uint8x16_t mask = vdupq_n_u8((uint8_t)((1 << bits) - 1));
	const uint8x16_t low = shift ? vshlq_u8(all, vdupq_n_s8(-(int8_t)shift)) : all;

	if (here == bits)
		return low;
	if (here > bits)
		return vandq_u8(low, mask);
	const uint8x16_t high = vld1q_u8(planes + (plane + 1) * PLANE_BYTES);
	return vandq_u8(vorrq_u8(low, vshlq_u8(high, vdupq_n_s8((int8_t)here))), mask);
}

ALWAYS_INLINE struct neon_codes neon_make_codes(struct neon_maker *m, const uint8_t *slab,
						size_t quarter, size_t pair, uint32_t bits)
{
	const uint8_t *planes = slab + quarter * (PLANE_BYTES / QUARTERS);
	return (struct neon_codes){
		vqtbl1q_s8(m->codebook, neon_indices(planes, 2 * pair, bits)),
		vqtbl1q_s8(m->codebook, neon_indices(planes, 2 * pair + 1, bits))};
}

ALWAYS_INLINE struct neon_maker neon_make_maker(uint32_t bits)
{
	return (struct neon_maker){vld1q_s8(tq_codebook(bits)->integer)};
}

#endif
