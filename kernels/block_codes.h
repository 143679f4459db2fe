/* The way of 16 rows of blocks from their layout in files to the one in memory (block_layout.h),
 * for every instruction set; within kernels/ only. Every expert passes through here on its way from
 * the disk, so what is done to a word of 32 bits is done to that of LANES rows at once, and most
 * formats go from plane to plane without a code ever being alone in its byte. Included once by each
 * *_arrange.c, which says before it what a vector is:
 *
 *     WAYS                     the name of the table, as in block_ways.h
 *     lanes, LANES             32 bits of so many rows (at most 16), a type that C's operators take
 *     load_four(to, at, stride)      the 4 words from `at` on of LANES rows, word by word
 *     load_two(to, at, stride)       the same with 2 words
 *     load_mixed(to, at, stride)     load_four, of 16 bytes in the order 0 8 1 9 … 7 15
 *     put_halves(to, v)        the lower halves of v, one row after the other
 *     put_bytes(to, step, v)   the lowest bytes of v, one row after the other; the next `step`
 * bytes farther, and so all four
 *
 * Numbers of planes, shifts and words are constants where these functions are inlined.
 */
#ifndef MOEFS_KERNELS_BLOCK_CODES_H
#define MOEFS_KERNELS_BLOCK_CODES_H

#include "kernels/block_layout.h"
#include "kernels/block_ways.h"
#include "kernels/iq3s_grid.h"
#include "kernels/look_ahead.h"

#include <string.h>

enum { K_BLOCKS = 8, PLANE = TILE_ROWS * 4 }; /* of 256 columns; bytes */

#define BYTES(b) (UINT32_C(0x01010101) * (b)) /* b in each byte */

/* LANES rows of a tile. */
struct part {
	const uint8_t *from;
	size_t stride;
	uint8_t *planes, *scales; /* scales: of the tile's first row */
	size_t row;
	lanes there; /* all bits of rows that are */
};

ALWAYS_INLINE void load(lanes *to, const struct part *p, size_t offset, size_t words)
{
	const uint8_t *from = p->from + offset;

	if (words < 4) {
		load_two(to, from, p->stride);
		load_two(to + words - 2, from + 4 * (words - 2), p->stride);
		return;
	}
	for (size_t i = 0; i + 4 <= words; i += 4)
		load_four(to + i, from + 4 * i, p->stride);
	if (words % 4)
		load_four(to + words - 4, from + 4 * (words - 4), p->stride);
}

/* ---- planes ---- */

ALWAYS_INLINE void put(const struct part *p, size_t plane, lanes v)
{
	memcpy(p->planes + plane * PLANE, &v, sizeof v);
}

/* Codes of 4 bits, which lie in 8 words with one column to a byte, from bit `shift` on. */
ALWAYS_INLINE void put_fours(const struct part *p, size_t plane, const lanes *in, uint32_t shift)
{
	for (size_t k = 0; k < 4; k++)
		put(p, plane + k,
		    shift == 4 ? (in[k] >> 4 & BYTES(15)) | (in[k + 4] & BYTES(0xf0U))
			       : (in[k] & BYTES(15)) | (in[k + 4] & BYTES(15)) << 4);
}

/* The same with 2 bits, and 1. */
ALWAYS_INLINE void put_twos(const struct part *p, size_t plane, const lanes *in, uint32_t shift)
{
	for (size_t k = 0; k < WORDS; k += 4)
		put(p, plane + k / 4,
		    (in[k] >> shift & BYTES(3)) | (in[k + 1] >> shift & BYTES(3)) << 2 |
			    (in[k + 2] >> shift & BYTES(3)) << 4 |
			    (in[k + 3] >> shift & BYTES(3)) << 6);
}
ALWAYS_INLINE void put_ones(const struct part *p, size_t plane, const lanes *in, uint32_t shift)
{
	lanes all = in[0] >> shift & BYTES(1);

	for (uint32_t k = 1; k < WORDS; k++)
		all |= (in[k] >> shift & BYTES(1)) << k;
	put(p, plane, all);
}

/* Words that are planes as they are: columns 0 … 15 in the lower bits, 16 … 31 in the upper, or
 * whole bytes. */
ALWAYS_INLINE void put_words(const struct part *p, size_t plane, size_t offset, size_t words)
{
	lanes in[WORDS];

	load(in, p, offset, words);
	for (size_t k = 0; k < words; k++)
		put(p, plane + k, in[k]);
}

/* Exchanges bits of `mask` with those `up` bits above. */
ALWAYS_INLINE lanes exchange(lanes v, uint32_t mask, uint32_t up)
{
	const lanes other = (v ^ v >> up) & mask;
	return v ^ other ^ other << up;
}

/* Bit i is that of column i: to bit i / 4 of byte i mod 4. Of the five bits of i each exchange
 * swaps two. */
ALWAYS_INLINE lanes plane_of_bits(lanes v)
{
	v = exchange(v, 0x0000ccccU, 14);
	v = exchange(v, 0x00aa00aaU, 7);
	v = exchange(v, 0x0c0c0c0cU, 2);
	return exchange(v, 0x22222222U, 1);
}

/* Four codes of so many bits, the first in the lowest ones, each to a byte. */
ALWAYS_INLINE lanes spread(lanes four, uint32_t bits)
{
	const uint32_t one = (1U << bits) - 1, two = (1U << 2 * bits) - 1;
	const lanes pairs = (four & two) | (four << (16 - 2 * bits) & two << 16);

	return (pairs & one * 0x10001) | (pairs << (8 - bits) & one * 0x1000100);
}

/* ---- scales ---- */

ALWAYS_INLINE lanes word_at(const struct part *p, size_t offset)
{
	lanes in[4];
	load_four(in, p->from + offset, p->stride);
	return in[0];
}
/* The same at the end of a block, where nothing may be read behind it. */
ALWAYS_INLINE lanes last_word(const struct part *p, size_t offset)
{
	lanes in[4];
	load_four(in, p->from + offset - 12, p->stride);
	return in[3];
}

/* The scales' half i of each row: the lower half of v. */
ALWAYS_INLINE void put_half(const struct part *p, size_t i, lanes v)
{
	put_halves(p->scales + (i * TILE_ROWS + p->row) * sizeof(uint16_t), v);
}
/* Bytes 4 · i … 4 · i + 3 after the halves. */
ALWAYS_INLINE void put_four_bytes(const struct part *p, size_t halves, size_t i, lanes v)
{
	put_bytes(p->scales + (halves * sizeof(uint16_t) + 4 * i) * TILE_ROWS + p->row, TILE_ROWS,
		  v);
}

/* Two halves in a word. */
ALWAYS_INLINE void put_two_halves(const struct part *p, lanes v)
{
	put_half(p, 0, v);
	put_half(p, 1, v >> 16);
}

/* Bytes 0 … 63, less 32; 0 where no row is. */
ALWAYS_INLINE lanes less_32(const struct part *p, lanes v)
{
	v ^= BYTES(32);
	return (v | (v & BYTES(32)) << 1 | (v & BYTES(32)) << 2) & p->there;
}

/* ---- tiles, format by format ---- */

ALWAYS_INLINE void tile_q8_0(const struct part *p)
{
	put_words(p, 0, 2, WORDS);
	put_half(p, 0, word_at(p, 0));
}

ALWAYS_INLINE void tile_q4_0(const struct part *p)
{
	put_words(p, 0, 2, 4);
	put_half(p, 0, word_at(p, 0));
}

ALWAYS_INLINE void tile_q4_1(const struct part *p)
{
	put_words(p, 0, 4, 4);
	put_two_halves(p, word_at(p, 0));
}

ALWAYS_INLINE void tile_q5_0(const struct part *p)
{
	put_words(p, 0, 6, 4);
	put(p, 4, plane_of_bits(word_at(p, 2)));
	put_half(p, 0, word_at(p, 0));
}

ALWAYS_INLINE void tile_q5_1(const struct part *p)
{
	put_words(p, 0, 8, 4);
	put(p, 4, plane_of_bits(word_at(p, 4)));
	put_two_halves(p, word_at(p, 0));
}

ALWAYS_INLINE void tile_mxfp4_gguf(const struct part *p)
{
	uint8_t four[4 * LANES];

	put_words(p, 0, 1, 4);
	put_bytes(four, LANES, word_at(p, 0));
	memcpy(p->scales + p->row, four, LANES);
}

ALWAYS_INLINE void tile_q2_k(const struct part *p)
{
	lanes in[WORDS];

	for (size_t b = 0; b < K_BLOCKS; b += 4) {
		load(in, p, 16 + b / 4 * BLOCK, WORDS);
		for (uint32_t i = 0; i < 4; i++)
			put_twos(p, 2 * (b + i), in, 2 * i);
	}
	load(in, p, 0, 4);
	for (size_t i = 0; i < 4; i++)
		put_four_bytes(p, 2, i, in[i]);
	put_two_halves(p, last_word(p, 80));
}

/* 16 scales: their lower bits in two words, all their upper ones in the third. */
ALWAYS_INLINE void scales_q3_k(const struct part *p)
{
	lanes in[4];

	load(in, p, 94, 4); /* the words are 2 bytes farther, and the float behind them */
	for (size_t i = 0; i < 3; i++)
		in[i] = in[i] >> 16 | in[i + 1] << 16;
	for (uint32_t i = 0; i < 4; i++)
		put_four_bytes(p, 1, i,
			       less_32(p, (in[i % 2] >> i / 2 * 4 & BYTES(15)) |
						  (in[2] >> i * 2 & BYTES(3)) << 4));
	put_half(p, 0, in[3] >> 16);
}

ALWAYS_INLINE void tile_q3_k(const struct part *p)
{
	lanes high[WORDS], in[WORDS];

	load(high, p, 0, WORDS);
	for (uint32_t b = 0; b < K_BLOCKS; b += 4) {
		load(in, p, (1 + (size_t)b / 4) * BLOCK, WORDS);
		for (uint32_t i = 0; i < 4; i++) {
			put_twos(p, (size_t)3 * (b + i), in, 2 * i);
			put_ones(p, (size_t)3 * (b + i) + 2, high, b + i);
		}
	}
	scales_q3_k(p);
}

ALWAYS_INLINE void scales_k(const struct part *p)
{
	lanes in[4];

	load(in, p, 0, 4);
	put_two_halves(p, in[0]);
	for (size_t i = 0; i < 3; i++)
		put_four_bytes(p, 2, i, in[i + 1]);
}

ALWAYS_INLINE void tile_q4_k(const struct part *p)
{
	lanes in[WORDS];

	for (size_t b = 0; b < K_BLOCKS; b += 2) {
		load(in, p, 16 + b / 2 * BLOCK, WORDS);
		put_fours(p, 4 * b, in, 0);
		put_fours(p, 4 * b + 4, in, 4);
	}
	scales_k(p);
}

ALWAYS_INLINE void tile_q5_k(const struct part *p)
{
	lanes high[WORDS], in[WORDS];

	load(high, p, 16, WORDS);
	for (uint32_t b = 0; b < K_BLOCKS; b += 2) {
		load(in, p, 48 + (size_t)b / 2 * BLOCK, WORDS);
		for (uint32_t i = 0; i < 2; i++) {
			put_fours(p, (size_t)5 * (b + i), in, 4 * i);
			put_ones(p, (size_t)5 * (b + i) + 4, high, b + i);
		}
	}
	scales_k(p);
}

ALWAYS_INLINE void tile_q6_k(const struct part *p)
{
	lanes high[WORDS], in[WORDS];

	for (size_t b = 0; b < K_BLOCKS; b += 4) {
		load(high, p, 128 + b / 4 * BLOCK, WORDS);
		for (uint32_t i = 0; i < 4; i++)
			put_twos(p, 6 * (b + i) + 4, high, 2 * i);
		for (size_t i = 0; i < 2; i++) { /* words of blocks i and i + 2 of the four */
			load(in, p, (b / 2 + i) * BLOCK, WORDS);
			put_fours(p, 6 * (b + i), in, 0);
			put_fours(p, 6 * (b + i + 2), in, 4);
		}
	}
	load(in, p, 192, 4);
	for (size_t i = 0; i < 4; i++)
		put_four_bytes(p, 1, i, in[i]);
	put_half(p, 0, last_word(p, 206) >> 16);
}

ALWAYS_INLINE void tile_iq4_xs(const struct part *p)
{
	const lanes high = word_at(p, 0), low = word_at(p, 4);

	for (size_t b = 0; b < K_BLOCKS; b++)
		put_words(p, 4 * b, 8 + b * HALF_BLOCK, 4);
	put_half(p, 0, high);
	for (uint32_t i = 0; i < 2; i++)
		put_four_bytes(p, 1, i,
			       less_32(p, spread(low >> 16 * i, 4) | spread(high >> (16 + 8 * i), 2)
									     << 4));
}

ALWAYS_INLINE lanes look_up_points(lanes at)
{
	uint32_t point[LANES];
	memcpy(point, &at, sizeof point);
	for (size_t r = 0; r < LANES; r++)
		point[r] = iq3s_grid[point[r]];
	memcpy(&at, point, sizeof at);
	return at;
}

/* Codes 0 … 15 for -15, -13 … 15: the upper half is the magnitudes in order, and the code of what
 * is negative has all bits the other way. */
ALWAYS_INLINE void block_iq3_s(const struct part *p, size_t b, lanes ninth, lanes signs)
{
	lanes in[2], code[WORDS];

	load(in, p, 2 + b * WORDS, 2);
	for (uint32_t k = 0; k < WORDS; k++) {
		const lanes point = (in[k / 4] >> k % 4 * 8 & 255) | (ninth >> k & 1) << 8,
			    negative = spread(signs >> 4 * k, 1);
		code[k] = (spread(look_up_points(point), 4) + BYTES(8)) ^
			  ((negative << 4) - negative);
		code[k] &= p->there;
	}
	put_fours(p, 4 * b, code, 0);
}

ALWAYS_INLINE void tile_iq3_s(const struct part *p)
{
	lanes ninth[2], signs[K_BLOCKS];

	load(ninth, p, 66, 2);
	load(signs, p, 74, K_BLOCKS);
	for (uint32_t b = 0; b < K_BLOCKS; b++)
		block_iq3_s(p, b, ninth[b / 4] >> b % 4 * 8, signs[b]);
	put_half(p, 0, word_at(p, 0));
	for (uint32_t i = 0; i < 2; i++)
		put_four_bytes(p, 1, i,
			       (spread(last_word(p, 106) >> 16 * i, 4) << 1 | BYTES(1)) & p->there);
}

/* ---- streams: a block of one; their scales lie apart ---- */

/* Of columns c in the lower bytes and d, 16 farther, in the upper: nibbles c0 c1 d0 d1 c2 c3 d2 d3.
 */
ALWAYS_INLINE void block_stream4(const struct part *p)
{
	lanes in[4];

	load_mixed(in, p->from, p->stride);
	for (size_t k = 0; k < 4; k++)
		put(p, k, exchange(in[k], 0x00f000f0U, 4));
}

/* Signed codes. */
ALWAYS_INLINE void block_stream8(const struct part *p)
{
	lanes in[WORDS];

	load(in, p, 0, WORDS);
	for (size_t k = 0; k < WORDS; k++)
		put(p, k, in[k] ^ BYTES(0x80));
}

ALWAYS_INLINE void block_stream(const struct part *p, uint32_t bits)
{
	lanes in[WORDS], code[WORDS];

	load(in, p, 0, bits);
	for (uint32_t k = 0; k < WORDS; k++) {
		const uint32_t at = 4 * k * bits / 32, shift = 4 * k * bits % 32;
		lanes four = in[at] >> shift;
		if (shift + 4 * bits > 32)
			four |= in[at + 1] << (32 - shift);
		code[k] = spread(four, bits);
	}
	if (bits & 4)
		put_fours(p, 0, code, 0);
	if (bits & 2)
		put_twos(p, bits & 4, code, bits & 4);
	if (bits & 1)
		put_ones(p, bits - 1, code, bits - 1);
}
ALWAYS_INLINE void block_stream2(const struct part *p)
{
	block_stream(p, 2);
}
ALWAYS_INLINE void block_stream3(const struct part *p)
{
	block_stream(p, 3);
}
ALWAYS_INLINE void block_stream5(const struct part *p)
{
	block_stream(p, 5);
}
ALWAYS_INLINE void block_stream6(const struct part *p)
{
	block_stream(p, 6);
}

/* ---- rows of tiles ---- */

ALWAYS_INLINE lanes lanes_there(size_t row, uint32_t count)
{
	uint32_t there[LANES];
	lanes v;

	for (size_t r = 0; r < LANES; r++)
		there[r] = row + r < count ? UINT32_MAX : 0;
	memcpy(&v, there, sizeof v);
	return v;
}

ALWAYS_INLINE struct part part_of(uint8_t *to, const struct block_rows *rows, size_t row)
{
	return (struct part){rows->from + row * rows->stride,
			     rows->stride,
			     to + row * sizeof(uint32_t),
			     to + rows->scales,
			     row,
			     lanes_there(row, rows->count)};
}

/* Once for all parts of a tile. */
ALWAYS_INLINE void look_ahead_of_tile(const struct part *p, const struct block_rows *rows)
{
	if (p->row == 0)
		look_ahead_in_slot((uintptr_t)p->planes, rows->to_tile);
}

#define EACH_PART(row) for (size_t row = 0; row < TILE_ROWS; row += LANES)

ALWAYS_INLINE void all_tiles(uint8_t *to, const struct block_rows *rows,
			     void tile(const struct part *p))
{
	EACH_PART(row)
	{
		struct part p = part_of(to, rows, row);
		for (size_t t = 0; t < rows->tiles; t++) {
			look_ahead_of_tile(&p, rows);
			tile(&p);
			p.from += rows->from_tile;
			p.planes += rows->to_tile;
			p.scales += rows->to_tile;
		}
	}
}

ALWAYS_INLINE void all_blocks(uint8_t *to, const struct block_rows *rows, size_t bits,
			      void block(const struct part *p))
{
	EACH_PART(row)
	{
		struct part p = part_of(to, rows, row);
		for (size_t t = 0; t < rows->tiles; t++) {
			struct part in = p;
			look_ahead_of_tile(&p, rows);
			for (size_t b = 0; b < rows->blocks; b++) {
				block(&in);
				in.from += 4 * bits;
				in.planes += bits * PLANE;
			}
			p.from += rows->from_tile;
			p.planes += rows->to_tile;
		}
	}
}

#define TILES(format)                                                          \
	static void tiles_##format(uint8_t *to, const struct block_rows *rows) \
	{                                                                      \
		all_tiles(to, rows, tile_##format);                            \
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

#define STREAM(bits)                                                         \
	static void stream##bits(uint8_t *to, const struct block_rows *rows) \
	{                                                                    \
		all_blocks(to, rows, bits, block_stream##bits);              \
	}
STREAM(2)
STREAM(3)
STREAM(4)
STREAM(5)
STREAM(6)
STREAM(8)

/* ---- scales that lie apart ---- */

/* The elements of a word; `to` is the place of the first one's first row. */
ALWAYS_INLINE void put_elements(uint8_t *to, size_t to_tile, lanes v, size_t bytes)
{
	if (bytes == 1) {
		put_bytes(to, to_tile, v);
	} else if (bytes == 2) {
		put_halves(to, v);
		put_halves(to + to_tile, v >> 16);
	} else {
		memcpy(to, &v, sizeof v);
	}
}

ALWAYS_INLINE void put_apart(uint8_t *to, size_t to_tile, const uint8_t *from, size_t stride,
			     size_t tiles, size_t bytes)
{
	const size_t of_word = 4 / bytes;
	size_t t = 0;

	for (; t + 4 * of_word <= tiles; t += 4 * of_word)
		EACH_PART(row)
		{
			lanes in[4];
			load_four(in, from + t * bytes + row * stride, stride);
			for (size_t k = 0; k < 4; k++)
				put_elements(to + (t + k * of_word) * to_tile + row * bytes,
					     to_tile, in[k], bytes);
		}
	for (; t < tiles; t++)
		for (size_t r = 0; r < TILE_ROWS; r++)
			memcpy(to + t * to_tile + r * bytes, from + t * bytes + r * stride, bytes);
}

static void scales_apart(uint8_t *to, size_t to_tile, const uint8_t *from, size_t stride,
			 size_t tiles, size_t bytes)
{
	if (bytes == 1)
		put_apart(to, to_tile, from, stride, tiles, 1);
	else if (bytes == 2)
		put_apart(to, to_tile, from, stride, tiles, 2);
	else
		put_apart(to, to_tile, from, stride, tiles, 4);
}

const struct block_ways WAYS = {
	.way = {[FORMAT_Q8_0] = tiles_q8_0,   [FORMAT_Q4_0] = tiles_q4_0,
		[FORMAT_Q4_1] = tiles_q4_1,   [FORMAT_Q5_0] = tiles_q5_0,
		[FORMAT_Q5_1] = tiles_q5_1,   [FORMAT_Q2_K] = tiles_q2_k,
		[FORMAT_Q3_K] = tiles_q3_k,   [FORMAT_Q4_K] = tiles_q4_k,
		[FORMAT_Q5_K] = tiles_q5_k,   [FORMAT_Q6_K] = tiles_q6_k,
		[FORMAT_IQ4_NL] = tiles_q4_0, [FORMAT_IQ4_XS] = tiles_iq4_xs,
		[FORMAT_IQ3_S] = tiles_iq3_s, [FORMAT_MXFP4_GGUF] = tiles_mxfp4_gguf,
		[FORMAT_MXFP4] = stream4,     [FORMAT_AFFINE2] = stream2,
		[FORMAT_AFFINE3] = stream3,   [FORMAT_AFFINE4] = stream4,
		[FORMAT_AFFINE5] = stream5,   [FORMAT_AFFINE6] = stream6,
		[FORMAT_AFFINE8] = stream8},
	.apart = scales_apart,
};

#endif
