/* Reads a matrix of blocks into registers: codes and scales, for every instruction set; within
 * kernels/ only. Lanes are rows. Included after the lanes of an instruction set, which define
 * vectors of floats (lanes.h) and of words:
 *
 *     lanes_words                     LANES integers of 32 bits
 *     words_load(p), words_all(u)     from memory; u in every lane
 *     words_bytes(p), words_signed_bytes(p), words_halves(p)
 *                                     LANES bytes or halves, extended to 32 bits
 *     words_and, _or, _xor, _add(a, b), words_left(v, n), words_right(v, n)
 *     words_look_up(t, v)             bytes v (0 … 15) of the table of 16 that words_table(p) loads
 *     lanes_of_words(v), lanes_of_bits(v)       floats from integers, from bits
 *
 * The including file defines before:
 *
 *     BLOCK_WIDE_OFFSET               added to signed codes if products need unsigned bytes
 */
#ifndef MOEFS_KERNELS_BLOCK_CODES_LANES_H
#define MOEFS_KERNELS_BLOCK_CODES_LANES_H

#include "kernels/block_layout.h"
#include "kernels/kernels.h"

/* A call's operands, and values derived from them. */
struct block_product {
	const struct block_layout *l;
	const struct input *x;
	const uint8_t *w; /* the first row */
	enum norm_type norms;
	size_t tile_blocks, tile_bytes, scales_at, rows_bytes;
	size_t blocks; /* in a row */
	float *y;      /* of the first row */
	size_t ldy;
	uint32_t rows;
};

ALWAYS_INLINE struct block_product block_product_of(float *y, size_t ldy, const struct matrix *w,
						    uint32_t row0, uint32_t row1,
						    const struct input *x,
						    const struct block_layout *l)
{
	const struct shape *s = &w->shape;
	struct block_product p = {
		.l = l,
		.x = x,
		.norms = layout_norms(l, s),
		.tile_blocks = layout_blocks(l, s),
		.tile_bytes = layout_tile_bytes(l, s),
		.scales_at = layout_scales_at(l, s),
		.blocks = x->k / BLOCK,
		.y = y + row0,
		.ldy = ldy,
		.rows = row1 - row0,
	};

	p.rows_bytes = p.blocks / p.tile_blocks * p.tile_bytes;
	p.w = (const uint8_t *)w->data + row0 / TILE_ROWS * p.rows_bytes;
	return p;
}

/* ---- codes ---- */

/* Moves bits from position `from` on to position `to`, in every byte. Inlining makes all arguments
 * but v constants. */
ALWAYS_INLINE lanes_words block_move_bits(lanes_words v, size_t from, size_t to, uint32_t mask)
{
	const lanes_words moved = from > to   ? words_right(v, from - to)
				  : from < to ? words_left(v, to - from)
					      : v;
	return words_and(moved, words_all((mask << to) * UINT32_C(0x01010101)));
}

/* Makes the codes of the rows from `planes` on, for four columns each. */
ALWAYS_INLINE void block_make_codes(lanes_words code[WORDS], const uint8_t *planes,
				    const struct block_layout *l, lanes_words table)
{
	size_t have = 0;

	if (l->bits == 8)
		for (size_t k = 0; k < WORDS; k++)
			code[k] = words_load(planes + k * BLOCK_PLANE);
	if (l->bits & 4) {
		for (size_t k = 0; k < WORDS / 2; k++) {
			const lanes_words two = words_load(planes + k * BLOCK_PLANE);
			code[k] = block_move_bits(two, 0, 0, 15);
			code[k + WORDS / 2] = block_move_bits(two, 4, 0, 15);
		}
		planes += WORDS / 2 * BLOCK_PLANE;
		have = 4;
	}
	if (l->bits & 2) {
		for (size_t k = 0; k < WORDS; k++) {
			const lanes_words four = words_load(planes + k / 4 * BLOCK_PLANE),
					  bits = block_move_bits(four, 2 * (k % 4), have, 3);
			code[k] = have ? words_or(code[k], bits) : bits;
		}
		planes += WORDS / 4 * BLOCK_PLANE;
		have += 2;
	}
	if (l->bits & 1) {
		const lanes_words eight = words_load(planes);
		for (size_t k = 0; k < WORDS; k++)
			code[k] = words_or(code[k], block_move_bits(eight, k, have, 1));
	}
	for (size_t k = 0; k < WORDS; k++) {
		if (l->values)
			code[k] = words_look_up(table, code[k]);
		else if (l->wide && BLOCK_WIDE_OFFSET != 0)
			code[k] = words_xor(code[k], words_all(UINT32_C(0x80808080)));
	}
}

/* Loads the values of codes, in the form for multiplying. */
ALWAYS_INLINE lanes_words block_load_table(const struct block_layout *l)
{
	int8_t table[16] = {0};

	for (size_t i = 0; l->values && i < 16; i++)
		table[i] = (int8_t)(l->values[i] + (l->wide ? BLOCK_WIDE_OFFSET : l->zero));
	return words_table(table);
}

/* ---- scales ---- */

struct block_scale_lanes {
	lanes scale[HALVES], offset[HALVES]; /* the second only with a scale per 16 columns */
};

ALWAYS_INLINE lanes block_load_norms(const uint8_t *p, size_t row, enum norm_type norms)
{
	if (norms == NORM_F32)
		return lanes_load((const float *)(const void *)p + row, LANES);
	p += row * sizeof(uint16_t);
	return norms == NORM_F16 ? lanes_load_f16((const uint16_t *)(const void *)p, LANES)
				 : lanes_of_bits(words_left(words_halves(p), 16));
}

/* block_e8m0_half on vectors. The result is half the power. Two bytes are exceptions: 0, the
 * smallest power, and the byte for NaN, which is made as infinity times zero. */
ALWAYS_INLINE lanes block_half_powers(lanes_words e)
{
	const lanes_words least =
		words_left(words_right(words_add(e, words_all(UINT32_MAX)), 31), 22);
	const lanes power = lanes_of_bits(words_or(words_left(e, 23), least));
	return lanes_fma(power, lanes_all(.5F), lanes_mul(power, lanes_all(0)));
}

/* block_k_scale and block_k_offset on vectors. `low` (0 or 4): where the bytes of the first four
 * blocks begin. */
ALWAYS_INLINE lanes_words block_six_bits(const uint8_t *bytes, size_t b, size_t low)
{
	if (b < 4)
		return words_and(words_bytes(bytes + (b + low) * TILE_ROWS), words_all(63));
	const lanes_words both = words_bytes(bytes + (b + 4) * TILE_ROWS),
			  four = low ? words_right(both, 4) : words_and(both, words_all(15)),
			  high = words_bytes(bytes + (b - 4 + low) * TILE_ROWS);
	return words_or(four, words_left(words_right(high, 6), 4));
}

/* Loads the scales of block b of a tile, which are at `at`, for LANES rows from `row` on. */
ALWAYS_INLINE struct block_scale_lanes block_load_scales(const struct block_product *p,
							 const uint8_t *at, size_t row, size_t b)
{
	const struct block_layout *l = p->l;
	const size_t column = (p->norms == NORM_F32 ? 4 : 2) * TILE_ROWS;
	const uint8_t *bytes = at + layout_floats(l) * column + row;
	const lanes negative = lanes_all(-1);
	struct block_scale_lanes s;

	if (l->scales == SCALES_POWER) {
		s.scale[0] = block_half_powers(words_bytes(bytes));
		return s;
	}
	const lanes d = block_load_norms(at, row, p->norms);
	const lanes m = l->offsets ? block_load_norms(at + column, row, p->norms) : d;
	if (l->scales == SCALES_FLOAT) {
		s.scale[0] = d;
		s.offset[0] = m;
	} else if (l->scales == SCALES_K) {
		s.scale[0] = lanes_mul(d, lanes_of_words(block_six_bits(bytes, b, 0)));
		s.offset[0] = lanes_mul(lanes_mul(m, negative),
					lanes_of_words(block_six_bits(bytes, b, 4)));
	}
	for (size_t h = 0; l->scales >= SCALES_SIGNED && l->scales != SCALES_K && h < 1U + l->by_16;
	     h++) {
		const uint8_t *byte = bytes + (b * (1U + l->by_16) + h) * TILE_ROWS;
		if (l->scales == SCALES_SIGNED) {
			s.scale[h] = lanes_mul(d, lanes_of_words(words_signed_bytes(byte)));
			continue;
		}
		const lanes_words both = words_bytes(byte);
		s.scale[h] = lanes_mul(d, lanes_of_words(words_and(both, words_all(15))));
		s.offset[h] =
			lanes_mul(lanes_mul(m, negative), lanes_of_words(words_right(both, 4)));
	}
	return s;
}

#endif
