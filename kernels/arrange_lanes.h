/* Arranges blocks in memory, 16 rows at a time: from the layout of files to that of block_layout.h,
 * for every instruction set; within kernels/ only. Every expert passes through this code on its way
 * from the disk. So each operation handles a 32-bit word of LANES rows at once, and most formats
 * are converted plane by plane: no code is ever alone in a byte. Included once by each table's
 * file, which defines before:
 *
 *     LANES, arrange_words           rows handled together (at most 16); a vector of a 32-bit word
 *                                    of each, to which C's operators apply
 *     arrange_put_halves(to, v)      stores the lower 16 bits of v, one row after the other
 *     arrange_put_bytes(to, step, v) stores the lowest bytes of v, one row after the other; the
 *                                    next bytes go `step` bytes further, and so on for all four
 *
 * and either
 *
 *     arrange_load_four(to, at, stride)     to[k] = word k of 4 that begin at `at`, rows `stride`
 *                                           bytes apart
 *     arrange_load_two(to, at, stride)      the same with 2 words
 *     arrange_load_mixed(to, at, stride)    arrange_load_four of 16 bytes in the order
 *                                           0 8 1 9 … 7 15
 *
 * or, with ARRANGE_X86, the instructions from which these three are made:
 *
 *     arrange_registers                     a register of lanes of 128 bits
 *     arrange_row_words(at, stride), arrange_short_row_words(at, stride)
 *                                           lane i: 16 (or 8) bytes of row 4 i after the first row
 *     ARRANGE_ZIP_LOW_WORDS(a, b) …         interleave words (32 bits) or pairs (64) within lanes
 *
 * Inlining makes the numbers of planes, shifts and words constants. */
#ifndef MOEFS_KERNELS_ARRANGE_LANES_H
#define MOEFS_KERNELS_ARRANGE_LANES_H

#include "kernels/block_layout.h"
#include "kernels/prefetch.h"

#include <string.h>

enum { K_BLOCKS = 8 }; /* in 256 columns */

#define BYTES(b) (UINT32_C(0x01010101) * (b)) /* b in each byte */

/* ---- loads ---- */

#ifdef ARRANGE_X86
/* Words 0 and 1, and words 2 and 3, of rows: row[r] has row r of the four rows of each lane. */
ALWAYS_INLINE void arrange_first_two_words(arrange_words to[2], const arrange_registers row[4])
{
	const arrange_registers a = ARRANGE_ZIP_LOW_WORDS(row[0], row[1]),
				b = ARRANGE_ZIP_LOW_WORDS(row[2], row[3]);
	to[0] = (arrange_words)ARRANGE_ZIP_LOW_PAIRS(a, b);
	to[1] = (arrange_words)ARRANGE_ZIP_HIGH_PAIRS(a, b);
}
ALWAYS_INLINE void arrange_last_two_words(arrange_words to[2], const arrange_registers row[4])
{
	const arrange_registers a = ARRANGE_ZIP_HIGH_WORDS(row[0], row[1]),
				b = ARRANGE_ZIP_HIGH_WORDS(row[2], row[3]);
	to[0] = (arrange_words)ARRANGE_ZIP_LOW_PAIRS(a, b);
	to[1] = (arrange_words)ARRANGE_ZIP_HIGH_PAIRS(a, b);
}

ALWAYS_INLINE void arrange_load_four(arrange_words to[4], const uint8_t *at, size_t stride)
{
	arrange_registers row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = arrange_row_words(at + r * stride, stride);
	arrange_first_two_words(to, row);
	arrange_last_two_words(to + 2, row);
}

ALWAYS_INLINE void arrange_load_two(arrange_words to[2], const uint8_t *at, size_t stride)
{
	arrange_registers row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = arrange_short_row_words(at + r * stride, stride);
	arrange_first_two_words(to, row);
}

ALWAYS_INLINE void arrange_load_mixed(arrange_words to[4], const uint8_t *at, size_t stride)
{
	const arrange_registers order = ARRANGE_EACH_LANE(
		_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
	arrange_registers row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = ARRANGE_SHUFFLE_BYTES(arrange_row_words(at + r * stride, stride), order);
	arrange_first_two_words(to, row);
	arrange_last_two_words(to + 2, row);
}
#endif

/* LANES rows of a tile. */
struct arrange_part {
	const uint8_t *from;
	size_t stride;
	uint8_t *planes, *scales; /* scales: of the tile's first row */
	size_t row;
	arrange_words there; /* all bits set for rows that exist */
};

ALWAYS_INLINE void arrange_load(arrange_words *to, const struct arrange_part *p, size_t offset,
				size_t words)
{
	const uint8_t *from = p->from + offset;

	if (words < 4) {
		arrange_load_two(to, from, p->stride);
		arrange_load_two(to + words - 2, from + 4 * (words - 2), p->stride);
		return;
	}
	for (size_t i = 0; i + 4 <= words; i += 4)
		arrange_load_four(to + i, from + 4 * i, p->stride);
	if (words % 4)
		arrange_load_four(to + words - 4, from + 4 * (words - 4), p->stride);
}

/* ---- planes ---- */

ALWAYS_INLINE void arrange_put(const struct arrange_part *p, size_t plane, arrange_words v)
{
	memcpy(p->planes + plane * BLOCK_PLANE, &v, sizeof v);
}

/* Stores codes of 4 bits from bit `shift` on; they lie in 8 words with one column per byte. */
ALWAYS_INLINE void arrange_put_fours(const struct arrange_part *p, size_t plane,
				     const arrange_words *in, uint32_t shift)
{
	for (size_t k = 0; k < 4; k++)
		arrange_put(p, plane + k,
			    shift == 4 ? (in[k] >> 4 & BYTES(15)) | (in[k + 4] & BYTES(0xf0U))
				       : (in[k] & BYTES(15)) | (in[k + 4] & BYTES(15)) << 4);
}

/* arrange_put_fours for codes of 2 bits, and of 1 bit. */
ALWAYS_INLINE void arrange_put_twos(const struct arrange_part *p, size_t plane,
				    const arrange_words *in, uint32_t shift)
{
	for (size_t k = 0; k < WORDS; k += 4)
		arrange_put(p, plane + k / 4,
			    (in[k] >> shift & BYTES(3)) | (in[k + 1] >> shift & BYTES(3)) << 2 |
				    (in[k + 2] >> shift & BYTES(3)) << 4 |
				    (in[k + 3] >> shift & BYTES(3)) << 6);
}
ALWAYS_INLINE void arrange_put_ones(const struct arrange_part *p, size_t plane,
				    const arrange_words *in, uint32_t shift)
{
	arrange_words all = in[0] >> shift & BYTES(1);

	for (uint32_t k = 1; k < WORDS; k++)
		all |= (in[k] >> shift & BYTES(1)) << k;
	arrange_put(p, plane, all);
}

/* Stores words that already are planes: columns 0 … 15 in the lower bits, 16 … 31 in the upper; or
 * whole bytes. */
ALWAYS_INLINE void arrange_put_words(const struct arrange_part *p, size_t plane, size_t offset,
				     size_t words)
{
	arrange_words in[WORDS];

	arrange_load(in, p, offset, words);
	for (size_t k = 0; k < words; k++)
		arrange_put(p, plane + k, in[k]);
}

/* Exchanges the bits in `mask` with the bits `up` positions above. */
ALWAYS_INLINE arrange_words arrange_exchange(arrange_words v, uint32_t mask, uint32_t up)
{
	const arrange_words other = (v ^ v >> up) & mask;
	return v ^ other ^ other << up;
}

/* Moves bit i (of column i) to bit i / 4 of byte i mod 4. Each exchange swaps two of the five bits
 * of i. */
ALWAYS_INLINE arrange_words arrange_plane_of_bits(arrange_words v)
{
	v = arrange_exchange(v, 0x0000ccccU, 14);
	v = arrange_exchange(v, 0x00aa00aaU, 7);
	v = arrange_exchange(v, 0x0c0c0c0cU, 2);
	return arrange_exchange(v, 0x22222222U, 1);
}

/* Spreads four codes of `bits` bits, the first in the lowest bits, to one byte each. */
ALWAYS_INLINE arrange_words arrange_spread(arrange_words four, uint32_t bits)
{
	const uint32_t one = (1U << bits) - 1, two = (1U << 2 * bits) - 1;
	const arrange_words pairs = (four & two) | (four << (16 - 2 * bits) & two << 16);

	return (pairs & one * 0x10001) | (pairs << (8 - bits) & one * 0x1000100);
}

/* ---- scales ---- */

ALWAYS_INLINE arrange_words arrange_word_at(const struct arrange_part *p, size_t offset)
{
	arrange_words in[4];
	arrange_load_four(in, p->from + offset, p->stride);
	return in[0];
}
/* arrange_word_at for the end of a block: reads nothing after the block. */
ALWAYS_INLINE arrange_words arrange_last_word(const struct arrange_part *p, size_t offset)
{
	arrange_words in[4];
	arrange_load_four(in, p->from + offset - 12, p->stride);
	return in[3];
}

/* Stores half i of each row's scales: the lower half of v. */
ALWAYS_INLINE void arrange_put_half(const struct arrange_part *p, size_t i, arrange_words v)
{
	arrange_put_halves(p->scales + (i * TILE_ROWS + p->row) * sizeof(uint16_t), v);
}
/* Stores bytes 4 · i … 4 · i + 3 after the halves. */
ALWAYS_INLINE void arrange_put_four_bytes(const struct arrange_part *p, size_t halves, size_t i,
					  arrange_words v)
{
	arrange_put_bytes(p->scales + (halves * sizeof(uint16_t) + 4 * i) * TILE_ROWS + p->row,
			  TILE_ROWS, v);
}

/* Stores two halves from a word. */
ALWAYS_INLINE void arrange_put_two_halves(const struct arrange_part *p, arrange_words v)
{
	arrange_put_half(p, 0, v);
	arrange_put_half(p, 1, v >> 16);
}

/* Subtracts 32 from bytes 0 … 63; 0 for missing rows. */
ALWAYS_INLINE arrange_words arrange_less_32(const struct arrange_part *p, arrange_words v)
{
	v ^= BYTES(32);
	return (v | (v & BYTES(32)) << 1 | (v & BYTES(32)) << 2) & p->there;
}

/* ---- tiles, format by format ---- */

ALWAYS_INLINE void arrange_q8_0(const struct arrange_part *p)
{
	arrange_put_words(p, 0, 2, WORDS);
	arrange_put_half(p, 0, arrange_word_at(p, 0));
}

ALWAYS_INLINE void arrange_q4_0(const struct arrange_part *p)
{
	arrange_put_words(p, 0, 2, 4);
	arrange_put_half(p, 0, arrange_word_at(p, 0));
}

ALWAYS_INLINE void arrange_q4_1(const struct arrange_part *p)
{
	arrange_put_words(p, 0, 4, 4);
	arrange_put_two_halves(p, arrange_word_at(p, 0));
}

ALWAYS_INLINE void arrange_q5_0(const struct arrange_part *p)
{
	arrange_put_words(p, 0, 6, 4);
	arrange_put(p, 4, arrange_plane_of_bits(arrange_word_at(p, 2)));
	arrange_put_half(p, 0, arrange_word_at(p, 0));
}

ALWAYS_INLINE void arrange_q5_1(const struct arrange_part *p)
{
	arrange_put_words(p, 0, 8, 4);
	arrange_put(p, 4, arrange_plane_of_bits(arrange_word_at(p, 4)));
	arrange_put_two_halves(p, arrange_word_at(p, 0));
}

ALWAYS_INLINE void arrange_mxfp4_gguf(const struct arrange_part *p)
{
	uint8_t four[4 * LANES];

	arrange_put_words(p, 0, 1, 4);
	arrange_put_bytes(four, LANES, arrange_word_at(p, 0));
	memcpy(p->scales + p->row, four, LANES);
}

ALWAYS_INLINE void arrange_q2_k(const struct arrange_part *p)
{
	arrange_words in[WORDS];

	for (size_t b = 0; b < K_BLOCKS; b += 4) {
		arrange_load(in, p, 16 + b / 4 * BLOCK, WORDS);
		for (uint32_t i = 0; i < 4; i++)
			arrange_put_twos(p, 2 * (b + i), in, 2 * i);
	}
	arrange_load(in, p, 0, 4);
	for (size_t i = 0; i < 4; i++)
		arrange_put_four_bytes(p, 2, i, in[i]);
	arrange_put_two_halves(p, arrange_last_word(p, 80));
}

/* 16 scales: their lower bits are in two words, all their upper bits in the third. */
ALWAYS_INLINE void arrange_scales_q3_k(const struct arrange_part *p)
{
	arrange_words in[4];

	arrange_load(in, p, 94, 4); /* words begin 2 bytes later; the float follows them */
	for (size_t i = 0; i < 3; i++)
		in[i] = in[i] >> 16 | in[i + 1] << 16;
	for (uint32_t i = 0; i < 4; i++)
		arrange_put_four_bytes(
			p, 1, i,
			arrange_less_32(p, (in[i % 2] >> i / 2 * 4 & BYTES(15)) |
						   (in[2] >> i * 2 & BYTES(3)) << 4));
	arrange_put_half(p, 0, in[3] >> 16);
}

ALWAYS_INLINE void arrange_q3_k(const struct arrange_part *p)
{
	arrange_words high[WORDS], in[WORDS];

	arrange_load(high, p, 0, WORDS);
	for (uint32_t b = 0; b < K_BLOCKS; b += 4) {
		arrange_load(in, p, (1 + (size_t)b / 4) * BLOCK, WORDS);
		for (uint32_t i = 0; i < 4; i++) {
			arrange_put_twos(p, (size_t)3 * (b + i), in, 2 * i);
			arrange_put_ones(p, (size_t)3 * (b + i) + 2, high, b + i);
		}
	}
	arrange_scales_q3_k(p);
}

ALWAYS_INLINE void arrange_scales_k(const struct arrange_part *p)
{
	arrange_words in[4];

	arrange_load(in, p, 0, 4);
	arrange_put_two_halves(p, in[0]);
	for (size_t i = 0; i < 3; i++)
		arrange_put_four_bytes(p, 2, i, in[i + 1]);
}

ALWAYS_INLINE void arrange_q4_k(const struct arrange_part *p)
{
	arrange_words in[WORDS];

	for (size_t b = 0; b < K_BLOCKS; b += 2) {
		arrange_load(in, p, 16 + b / 2 * BLOCK, WORDS);
		arrange_put_fours(p, 4 * b, in, 0);
		arrange_put_fours(p, 4 * b + 4, in, 4);
	}
	arrange_scales_k(p);
}

ALWAYS_INLINE void arrange_q5_k(const struct arrange_part *p)
{
	arrange_words high[WORDS], in[WORDS];

	arrange_load(high, p, 16, WORDS);
	for (uint32_t b = 0; b < K_BLOCKS; b += 2) {
		arrange_load(in, p, 48 + (size_t)b / 2 * BLOCK, WORDS);
		for (uint32_t i = 0; i < 2; i++) {
			arrange_put_fours(p, (size_t)5 * (b + i), in, 4 * i);
			arrange_put_ones(p, (size_t)5 * (b + i) + 4, high, b + i);
		}
	}
	arrange_scales_k(p);
}

ALWAYS_INLINE void arrange_q6_k(const struct arrange_part *p)
{
	arrange_words high[WORDS], in[WORDS];

	for (size_t b = 0; b < K_BLOCKS; b += 4) {
		arrange_load(high, p, 128 + b / 4 * BLOCK, WORDS);
		for (uint32_t i = 0; i < 4; i++)
			arrange_put_twos(p, 6 * (b + i) + 4, high, 2 * i);
		for (size_t i = 0; i < 2; i++) { /* words of blocks i and i + 2 of the four */
			arrange_load(in, p, (b / 2 + i) * BLOCK, WORDS);
			arrange_put_fours(p, 6 * (b + i), in, 0);
			arrange_put_fours(p, 6 * (b + i + 2), in, 4);
		}
	}
	arrange_load(in, p, 192, 4);
	for (size_t i = 0; i < 4; i++)
		arrange_put_four_bytes(p, 1, i, in[i]);
	arrange_put_half(p, 0, arrange_last_word(p, 206) >> 16);
}

ALWAYS_INLINE void arrange_iq4_xs(const struct arrange_part *p)
{
	const arrange_words high = arrange_word_at(p, 0), low = arrange_word_at(p, 4);

	for (size_t b = 0; b < K_BLOCKS; b++)
		arrange_put_words(p, 4 * b, 8 + b * HALF_BLOCK, 4);
	arrange_put_half(p, 0, high);
	for (uint32_t i = 0; i < 2; i++)
		arrange_put_four_bytes(
			p, 1, i,
			arrange_less_32(p, arrange_spread(low >> 16 * i, 4) |
						   arrange_spread(high >> (16 + 8 * i), 2) << 4));
}

ALWAYS_INLINE arrange_words arrange_look_up_points(arrange_words at)
{
	uint32_t point[LANES];
	memcpy(point, &at, sizeof point);
	for (size_t r = 0; r < LANES; r++)
		point[r] = block_iq3_s_grid[point[r]];
	memcpy(&at, point, sizeof at);
	return at;
}

/* Codes 0 … 15 mean -15, -13 … 15. The upper half has the magnitudes in order; the code of a
 * negative number has all bits inverted. */
ALWAYS_INLINE void arrange_block_iq3_s(const struct arrange_part *p, size_t b, arrange_words ninth,
				       arrange_words signs)
{
	arrange_words in[2], code[WORDS];

	arrange_load(in, p, 2 + b * WORDS, 2);
	for (uint32_t k = 0; k < WORDS; k++) {
		const arrange_words point = (in[k / 4] >> k % 4 * 8 & 255) | (ninth >> k & 1) << 8,
				    negative = arrange_spread(signs >> 4 * k, 1);
		code[k] = (arrange_spread(arrange_look_up_points(point), 4) + BYTES(8)) ^
			  ((negative << 4) - negative);
		code[k] &= p->there;
	}
	arrange_put_fours(p, 4 * b, code, 0);
}

ALWAYS_INLINE void arrange_iq3_s(const struct arrange_part *p)
{
	arrange_words ninth[2], signs[K_BLOCKS];

	arrange_load(ninth, p, 66, 2);
	arrange_load(signs, p, 74, K_BLOCKS);
	for (uint32_t b = 0; b < K_BLOCKS; b++)
		arrange_block_iq3_s(p, b, ninth[b / 4] >> b % 4 * 8, signs[b]);
	arrange_put_half(p, 0, arrange_word_at(p, 0));
	for (uint32_t i = 0; i < 2; i++)
		arrange_put_four_bytes(
			p, 1, i,
			(arrange_spread(arrange_last_word(p, 106) >> 16 * i, 4) << 1 | BYTES(1)) &
				p->there);
}

/* ---- streams, block by block; scales in a separate piece ---- */

/* From columns c in the lower bytes and d (16 columns later) in the upper bytes: nibbles c0 c1 d0
 * d1 c2 c3 d2 d3. */
ALWAYS_INLINE void arrange_stream4(const struct arrange_part *p)
{
	arrange_words in[4];

	arrange_load_mixed(in, p->from, p->stride);
	for (size_t k = 0; k < 4; k++)
		arrange_put(p, k, arrange_exchange(in[k], 0x00f000f0U, 4));
}

/* Signed codes. */
ALWAYS_INLINE void arrange_stream8(const struct arrange_part *p)
{
	arrange_words in[WORDS];

	arrange_load(in, p, 0, WORDS);
	for (size_t k = 0; k < WORDS; k++)
		arrange_put(p, k, in[k] ^ BYTES(0x80));
}

ALWAYS_INLINE void arrange_stream(const struct arrange_part *p, uint32_t bits)
{
	arrange_words in[WORDS], code[WORDS];

	arrange_load(in, p, 0, bits);
	for (uint32_t k = 0; k < WORDS; k++) {
		const uint32_t at = 4 * k * bits / 32, shift = 4 * k * bits % 32;
		arrange_words four = in[at] >> shift;
		if (shift + 4 * bits > 32)
			four |= in[at + 1] << (32 - shift);
		code[k] = arrange_spread(four, bits);
	}
	if (bits & 4)
		arrange_put_fours(p, 0, code, 0);
	if (bits & 2)
		arrange_put_twos(p, bits & 4, code, bits & 4);
	if (bits & 1)
		arrange_put_ones(p, bits - 1, code, bits - 1);
}
ALWAYS_INLINE void arrange_stream2(const struct arrange_part *p)
{
	arrange_stream(p, 2);
}
ALWAYS_INLINE void arrange_stream3(const struct arrange_part *p)
{
	arrange_stream(p, 3);
}
ALWAYS_INLINE void arrange_stream5(const struct arrange_part *p)
{
	arrange_stream(p, 5);
}
ALWAYS_INLINE void arrange_stream6(const struct arrange_part *p)
{
	arrange_stream(p, 6);
}

/* ---- rows of tiles ---- */

ALWAYS_INLINE arrange_words arrange_rows_there(size_t row, uint32_t count)
{
	uint32_t there[LANES];
	arrange_words v;

	for (size_t r = 0; r < LANES; r++)
		there[r] = row + r < count ? UINT32_MAX : 0;
	memcpy(&v, there, sizeof v);
	return v;
}

ALWAYS_INLINE struct arrange_part arrange_part_of(uint8_t *to, const struct arrange_rows *rows,
						  size_t row)
{
	return (struct arrange_part){rows->from + row * rows->stride,
				     rows->stride,
				     to + row * sizeof(uint32_t),
				     to + rows->scales,
				     row,
				     arrange_rows_there(row, rows->count)};
}

/* Call once for all parts of a tile. */
ALWAYS_INLINE void arrange_prefetch(const struct arrange_part *p, const struct arrange_rows *rows)
{
	if (p->row == 0)
		prefetch_slot((uintptr_t)p->planes, rows->to_tile);
}

#define EACH_PART(row) for (size_t row = 0; row < TILE_ROWS; row += LANES)

ALWAYS_INLINE void arrange_all_tiles(uint8_t *to, const struct arrange_rows *rows,
				     void tile(const struct arrange_part *p))
{
	EACH_PART(row)
	{
		struct arrange_part p = arrange_part_of(to, rows, row);
		for (size_t t = 0; t < rows->tiles; t++) {
			arrange_prefetch(&p, rows);
			tile(&p);
			p.from += rows->from_tile;
			p.planes += rows->to_tile;
			p.scales += rows->to_tile;
		}
	}
}

ALWAYS_INLINE void arrange_all_blocks(uint8_t *to, const struct arrange_rows *rows, size_t bits,
				      void block(const struct arrange_part *p))
{
	EACH_PART(row)
	{
		struct arrange_part p = arrange_part_of(to, rows, row);
		for (size_t t = 0; t < rows->tiles; t++) {
			struct arrange_part in = p;
			arrange_prefetch(&p, rows);
			for (size_t b = 0; b < rows->blocks; b++) {
				block(&in);
				in.from += 4 * bits;
				in.planes += bits * BLOCK_PLANE;
			}
			p.from += rows->from_tile;
			p.planes += rows->to_tile;
		}
	}
}

#define TILES(format)                                                                    \
	static void arrange_tiles_##format(uint8_t *to, const struct arrange_rows *rows) \
	{                                                                                \
		arrange_all_tiles(to, rows, arrange_##format);                           \
	}
TILES(q8_0)
TILES(q4_0)
TILES(q4_1)
TILES(q5_0)
TILES(q5_1)
TILES(q2_k)
TILES(q3_k)
TILES(q4_k)
TILES(q5_k)
TILES(q6_k)
TILES(iq4_xs)
TILES(iq3_s)
TILES(mxfp4_gguf)

#define STREAM(bits)                                                                       \
	static void arrange_all_stream##bits(uint8_t *to, const struct arrange_rows *rows) \
	{                                                                                  \
		arrange_all_blocks(to, rows, bits, arrange_stream##bits);                  \
	}
STREAM(2)
STREAM(3)
STREAM(4)
STREAM(5)
STREAM(6)
STREAM(8)

/* ---- scales in a separate piece ---- */

/* Stores the elements of a word; `to` is the place of the first element of the first row. */
ALWAYS_INLINE void arrange_put_elements(uint8_t *to, size_t to_tile, arrange_words v, size_t bytes)
{
	if (bytes == 1) {
		arrange_put_bytes(to, to_tile, v);
	} else if (bytes == 2) {
		arrange_put_halves(to, v);
		arrange_put_halves(to + to_tile, v >> 16);
	} else {
		memcpy(to, &v, sizeof v);
	}
}

ALWAYS_INLINE void arrange_put_apart(uint8_t *to, size_t to_tile, const uint8_t *from,
				     size_t stride, size_t tiles, size_t bytes)
{
	const size_t of_word = 4 / bytes;
	size_t t = 0;

	for (; t + 4 * of_word <= tiles; t += 4 * of_word)
		EACH_PART(row)
		{
			arrange_words in[4];
			arrange_load_four(in, from + t * bytes + row * stride, stride);
			for (size_t k = 0; k < 4; k++)
				arrange_put_elements(to + (t + k * of_word) * to_tile + row * bytes,
						     to_tile, in[k], bytes);
		}
	for (; t < tiles; t++)
		for (size_t r = 0; r < TILE_ROWS; r++)
			memcpy(to + t * to_tile + r * bytes, from + t * bytes + r * stride, bytes);
}

static void arrange_scales_apart(uint8_t *to, size_t to_tile, const uint8_t *from, size_t stride,
				 size_t tiles, size_t bytes)
{
	if (bytes == 1)
		arrange_put_apart(to, to_tile, from, stride, tiles, 1);
	else if (bytes == 2)
		arrange_put_apart(to, to_tile, from, stride, tiles, 2);
	else
		arrange_put_apart(to, to_tile, from, stride, tiles, 4);
}

static const struct arrange_blocks arrange_blocks = {
	.tiles = {[FORMAT_Q8_0] = arrange_tiles_q8_0,
		  [FORMAT_Q4_0] = arrange_tiles_q4_0,
		  [FORMAT_Q4_1] = arrange_tiles_q4_1,
		  [FORMAT_Q5_0] = arrange_tiles_q5_0,
		  [FORMAT_Q5_1] = arrange_tiles_q5_1,
		  [FORMAT_Q2_K] = arrange_tiles_q2_k,
		  [FORMAT_Q3_K] = arrange_tiles_q3_k,
		  [FORMAT_Q4_K] = arrange_tiles_q4_k,
		  [FORMAT_Q5_K] = arrange_tiles_q5_k,
		  [FORMAT_Q6_K] = arrange_tiles_q6_k,
		  [FORMAT_IQ4_NL] = arrange_tiles_q4_0,
		  [FORMAT_IQ4_XS] = arrange_tiles_iq4_xs,
		  [FORMAT_IQ3_S] = arrange_tiles_iq3_s,
		  [FORMAT_MXFP4_GGUF] = arrange_tiles_mxfp4_gguf,
		  [FORMAT_MXFP4] = arrange_all_stream4,
		  [FORMAT_AFFINE2] = arrange_all_stream2,
		  [FORMAT_AFFINE3] = arrange_all_stream3,
		  [FORMAT_AFFINE4] = arrange_all_stream4,
		  [FORMAT_AFFINE5] = arrange_all_stream5,
		  [FORMAT_AFFINE6] = arrange_all_stream6,
		  [FORMAT_AFFINE8] = arrange_all_stream8},
	.scales = arrange_scales_apart,
};

#endif
