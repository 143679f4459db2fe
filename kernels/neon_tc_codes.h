/* How NEON makes codes of TC matrices: the sum of two table lookups, by the nibble that ends with
 * the position's newest bit and by an earlier position's, which is still there. */
#ifndef MOEFS_KERNELS_NEON_TC_CODES_H
#define MOEFS_KERNELS_NEON_TC_CODES_H

#include "kernels/neon_tq.h"
#include "kernels/tc.h"

struct neon_maker {
	int8x16_t newest[TC_TURNS], before[TC_TURNS]; /* tables for nibbles so turned */
	/* Of the position before, and of the one before that, in the 4 rows of each quarter. */
	uint8x16_t nibbles[QUARTERS][TC_MOST_BACK];
};

/* Shifts to the right by 0 … 7; those of constants have no 0. */
ALWAYS_INLINE uint8x16_t neon_shifted(uint8x16_t v, size_t by)
{
	return by ? vshlq_u8(v, vdupq_n_s8(-(int8_t)by)) : v;
}

ALWAYS_INLINE uint8x16_t neon_bare_nibbles(uint8x16_t v, size_t shift)
{
	return vandq_u8(neon_shifted(v, shift), vdupq_n_u8(15));
}

/* Before a tile's first plane lies its last, each row's four bytes moved on by one. */
ALWAYS_INLINE void neon_begin_tile(struct neon_maker *m, const uint8_t *tile, uint32_t bits)
{
	const uint8_t *last = tile + tq_slabs_bytes(bits) - PLANE_BYTES;

	for (size_t i = 0; i < QUARTERS; i++) {
		const uint32x4_t rows =
			vreinterpretq_u32_u8(vld1q_u8(last + i * (PLANE_BYTES / QUARTERS)));
		const uint8x16_t before =
			vreinterpretq_u8_u32(vsliq_n_u32(vshrq_n_u32(rows, 24), rows, 8));
		for (size_t j = 0; j < tc_back(bits); j++)
			m->nibbles[i][j] = neon_bare_nibbles(before, 4 - j * bits);
	}
}

/* The nibble of position i of each unit of 4 rows, whose first plane begins there; `before` is that
 * of the position before. */
ALWAYS_INLINE uint8x16_t neon_nibbles_at(const uint8_t *planes, size_t i, uint8x16_t before,
					 size_t bits)
{
	const uint8_t *plane = planes + ((i + 1) * bits - 1) / 8 * PLANE_BYTES;
	const size_t turn = tc_turn(i, bits);
	const uint8x16_t v = vld1q_u8(plane);

	if (!turn)
		return neon_bare_nibbles(v, tc_bits_here(i, bits) - 4);
	const uint8x16_t older =
		tc_follows_byte(i, bits) ? before : neon_shifted(vld1q_u8(plane - PLANE_BYTES), 4);
	return vbslq_u8(vdupq_n_u8((uint8_t)((1 << turn) - 1)), v, older);
}

ALWAYS_INLINE int8x16_t neon_make_code(struct neon_maker *m, const uint8_t *planes, size_t quarter,
				       size_t i, uint32_t bits)
{
	uint8x16_t *before = m->nibbles[quarter];
	const uint8x16_t nibbles = neon_nibbles_at(planes, i, before[0], bits);
	const int8x16_t codes =
		vaddq_s8(vqtbl1q_s8(m->newest[tc_turn(i, bits)], nibbles),
			 vqtbl1q_s8(m->before[tc_turn_back(i, bits)], before[tc_back(bits) - 1]));

	before[1] = before[0];
	before[0] = nibbles;
	return codes;
}

ALWAYS_INLINE struct neon_codes neon_make_codes(struct neon_maker *m, const uint8_t *slab,
						size_t quarter, size_t pair, uint32_t bits)
{
	const uint8_t *planes = slab + quarter * (PLANE_BYTES / QUARTERS);
	const int8x16_t even = neon_make_code(m, planes, quarter, 2 * pair, bits);

	return (struct neon_codes){even, neon_make_code(m, planes, quarter, 2 * pair + 1, bits)};
}

ALWAYS_INLINE int8x16_t neon_load_table(const int8_t table[16], size_t turn)
{
	int8_t turned[16];

	tc_turn_table(turned, table, turn, 0);
	return vld1q_s8(turned);
}

ALWAYS_INLINE struct neon_maker neon_make_maker(uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	struct neon_maker m;

	for (size_t i = 0; i < TC_TURNS; i++) {
		m.newest[i] = neon_load_table(book->newest, i);
		m.before[i] = neon_load_table(book->before, i);
	}
	return m;
}

#endif
