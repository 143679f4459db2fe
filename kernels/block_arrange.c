/* The way of blocks from their layout in files to the one in memory (block_layout.h).
 *
 * A tile is taken as words of 32 bits, each for all 16 rows, so that what is done to them becomes
 * vectors. Whatever the format, its codes are laid bare one to a byte and packed anew: every expert
 * passes through here on its way from the disk, but this is several times as fast as that.
 */
#include "kernels/block_arrange.h"
#include "kernels/block_layout.h"
#include "kernels/iq3s_grid.h"

#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One for each row of a tile. */
typedef uint32_t words[TILE_ROWS];

/* Where a tile's bytes are in the file. */
struct rows {
	const uint8_t *at; /* of the first row */
	size_t stride;	   /* from row to row */
	uint32_t count;	   /* 1 … 16; the others are zeros */
};

static const uint8_t *row_at(const struct rows *r, size_t row, size_t offset)
{
	return r->at + row * r->stride + offset;
}

ALWAYS_INLINE void load(words *to, const struct rows *r, size_t offset, size_t count)
{
	for (size_t i = r->count < TILE_ROWS ? 0 : count; i < count; i++)
		memset(to[i], 0, sizeof to[i]);
	for (size_t row = 0; row < r->count; row++)
		for (size_t i = 0; i < count; i++)
			memcpy(&to[i][row], row_at(r, row, offset + 4 * i), sizeof to[i][row]);
}

/* ---- packing codes ---- */

#define EACH_ROW for (size_t r = 0; r < TILE_ROWS; r++)
#define BYTES(b) (UINT32_C(0x01010101) * (b)) /* b in each byte */

/* Planes of codes, one to a byte of code[k]. bits is a constant where this is inlined, here and
 * below. */
ALWAYS_INLINE void pack(uint8_t *to, words code[WORDS], size_t bits)
{
	words plane;
	size_t shift = 0;

	for (size_t k = 0; bits == 8 && k < WORDS; k++, to += sizeof plane)
		memcpy(to, code[k], sizeof plane);
	for (size_t k = 0; bits & 4 && k < WORDS / 2; k++, to += sizeof plane) {
		EACH_ROW
		plane[r] = (code[k][r] & BYTES(15)) | (code[k + WORDS / 2][r] & BYTES(15)) << 4;
		memcpy(to, plane, sizeof plane);
		shift = 4;
	}
	for (size_t k = 0; bits & 2 && k < WORDS; k += 4, to += sizeof plane) {
		EACH_ROW
		plane[r] = (code[k][r] >> shift & BYTES(3)) |
			   (code[k + 1][r] >> shift & BYTES(3)) << 2 |
			   (code[k + 2][r] >> shift & BYTES(3)) << 4 |
			   (code[k + 3][r] >> shift & BYTES(3)) << 6;
		memcpy(to, plane, sizeof plane);
	}
	if (bits & 1) {
		shift = bits - 1;
		EACH_ROW
		plane[r] = 0;
		for (size_t k = 0; k < WORDS; k++)
			EACH_ROW
		plane[r] |= (code[k][r] >> shift & BYTES(1)) << k;
		memcpy(to, plane, sizeof plane);
	}
}

/* ---- codes, one to a byte, of 32 columns ---- */

/* 4 words: columns 0 … 15 in the lower bits of their bytes, 16 … 31 in the upper. */
ALWAYS_INLINE void split_nibbles(words code[WORDS], words *in)
{
	for (size_t k = 0; k < WORDS; k++)
		EACH_ROW
	code[k][r] = in[k % 4][r] >> k / 4 * 4 & BYTES(15);
}

/* 8 words with one column in each byte, from bit `shift` on; they go above `to`. */
ALWAYS_INLINE void take_plane(words code[WORDS], words *in, size_t shift, uint32_t mask, size_t to)
{
	for (size_t k = 0; k < WORDS; k++)
		EACH_ROW
	code[k][r] = (to ? code[k][r] : 0) | (in[k][r] >> shift & mask * BYTES(1)) << to;
}

/* Four codes of so many bits, the first in the lowest ones, each to a byte. */
ALWAYS_INLINE uint32_t spread(uint32_t four, size_t bits)
{
	const uint32_t one = (1U << bits) - 1, two = (1U << 2 * bits) - 1;
	const uint32_t pairs = (four & two) | (four << (16 - 2 * bits) & two << 16);

	return (pairs & one * 0x10001) | (pairs << (8 - bits) & one * 0x1000100);
}

/* Bit i of a word is the fifth of column i. */
ALWAYS_INLINE void add_fifth_bits(words code[WORDS], words in)
{
	for (size_t k = 0; k < WORDS; k++)
		EACH_ROW
	code[k][r] |= spread(in[r] >> 4 * k, 1) << 4;
}

/* `bits` words: a little-endian stream of 32 codes. */
ALWAYS_INLINE void split_stream(words code[WORDS], words *in, size_t bits)
{
	for (size_t k = 0; k < WORDS; k++) {
		const size_t at = 4 * k * bits / 32, shift = 4 * k * bits % 32;
		EACH_ROW
		{
			uint32_t four = in[at][r] >> shift;
			if (shift + 4 * bits > 32)
				four |= in[at + 1][r] << (32 - shift);
			code[k][r] = bits == 8 ? four : spread(four, bits);
		}
	}
}

/* ---- tiles, format by format ---- */

/* Blocks of a tile to `to`. `from` are the rows' weights, from the tile's first byte on. */
typedef void codes_fn(uint8_t *to, const struct rows *from);

static void codes_q8_0(uint8_t *to, const struct rows *from)
{
	words code[WORDS];
	load(code, from, 2, WORDS);
	pack(to, code, 8);
}

/* Nibbles after `offset` bytes of scales. */
ALWAYS_INLINE void codes_nibbles(uint8_t *to, const struct rows *from, size_t offset)
{
	words in[4], code[WORDS];
	load(in, from, offset, 4);
	split_nibbles(code, in);
	pack(to, code, 4);
}

static void codes_q4_0(uint8_t *to, const struct rows *from)
{
	codes_nibbles(to, from, 2);
}

static void codes_q4_1(uint8_t *to, const struct rows *from)
{
	codes_nibbles(to, from, 4);
}

static void codes_mxfp4_gguf(uint8_t *to, const struct rows *from)
{
	codes_nibbles(to, from, 1);
}

/* A word of fifth bits and nibbles, after `offset` bytes of scales. */
ALWAYS_INLINE void codes_fives(uint8_t *to, const struct rows *from, size_t offset)
{
	words in[5], code[WORDS];
	load(in, from, offset, 5);
	split_nibbles(code, in + 1);
	add_fifth_bits(code, in[0]);
	pack(to, code, 5);
}

static void codes_q5_0(uint8_t *to, const struct rows *from)
{
	codes_fives(to, from, 2);
}

static void codes_q5_1(uint8_t *to, const struct rows *from)
{
	codes_fives(to, from, 4);
}

enum { K_BLOCKS = 8, PLANE = TILE_ROWS * 4 }; /* of 256 columns; bytes */

static void codes_q2_k(uint8_t *to, const struct rows *from)
{
	words in[16], code[WORDS];
	load(in, from, 16, 16);
	for (size_t b = 0; b < K_BLOCKS; b++, to += 2 * PLANE) {
		take_plane(code, in + b / 4 * WORDS, 2 * (b % 4), 3, 0);
		pack(to, code, 2);
	}
}

static void codes_q3_k(uint8_t *to, const struct rows *from)
{
	words in[24], code[WORDS];
	load(in, from, 0, 24);
	for (size_t b = 0; b < K_BLOCKS; b++, to += 3 * PLANE) {
		take_plane(code, in + (1 + b / 4) * WORDS, 2 * (b % 4), 3, 0);
		take_plane(code, in, b, 1, 2);
		pack(to, code, 3);
	}
}

static void codes_q4_k(uint8_t *to, const struct rows *from)
{
	words in[32], code[WORDS];
	load(in, from, 16, 32);
	for (size_t b = 0; b < K_BLOCKS; b++, to += 4 * PLANE) {
		take_plane(code, in + b / 2 * WORDS, 4 * (b % 2), 15, 0);
		pack(to, code, 4);
	}
}

static void codes_q5_k(uint8_t *to, const struct rows *from)
{
	words in[40], code[WORDS];
	load(in, from, 16, 40);
	for (size_t b = 0; b < K_BLOCKS; b++, to += 5 * PLANE) {
		take_plane(code, in + (1 + b / 2) * WORDS, 4 * (b % 2), 15, 0);
		take_plane(code, in, b, 1, 4);
		pack(to, code, 5);
	}
}

static void codes_q6_k(uint8_t *to, const struct rows *from)
{
	words in[48], code[WORDS];
	load(in, from, 0, 48);
	for (size_t b = 0; b < K_BLOCKS; b++, to += 6 * PLANE) {
		const size_t half = b / 4, low = half * 2 + b % 2;
		take_plane(code, in + low * WORDS, b % 4 / 2 * 4, 15, 0);
		take_plane(code, in + (4 + half) * WORDS, 2 * (b % 4), 3, 4);
		pack(to, code, 6);
	}
}

static void codes_iq4_xs(uint8_t *to, const struct rows *from)
{
	for (size_t b = 0; b < K_BLOCKS; b++, to += 4 * PLANE)
		codes_nibbles(to, from, 8 + b * HALF_BLOCK);
}

/* Codes 0 … 15 for -15, -13 … 15: the upper half is the magnitudes in order, and the code of what
 * is negative has all bits the other way. `k` counts the words of 256 columns. */
static uint32_t iq3_s_codes(const uint8_t *block, size_t k)
{
	const uint32_t point = block[2 + k] | (block[66 + k / 8] >> k % 8 & 1U) << 8,
		       signs = block[74 + k / 2] >> 4 * (k % 2) & 15;

	return (spread(iq3s_grid[point], 4) + BYTES(8)) ^ spread(signs, 1) * 15;
}

static void codes_iq3_s(uint8_t *to, const struct rows *from)
{
	for (size_t b = 0; b < K_BLOCKS; b++, to += 4 * PLANE) {
		words code[WORDS] = {{0}};
		for (size_t r = 0; r < from->count; r++)
			for (size_t k = 0; k < WORDS; k++)
				code[k][r] = iq3_s_codes(row_at(from, r, 0), b * WORDS + k);
		pack(to, code, 4);
	}
}

/* One block of a stream; a tile may have several. */
ALWAYS_INLINE void codes_stream(uint8_t *to, const struct rows *from, size_t bits)
{
	words in[8], code[WORDS];
	load(in, from, 0, bits);
	split_stream(code, in, bits);
	for (size_t k = 0; bits == 8 && k < WORDS; k++)
		EACH_ROW
	code[k][r] ^= BYTES(0x80); /* signed */
	pack(to, code, bits);
}

#define STREAM(bits)                                                         \
	static void codes_stream##bits(uint8_t *to, const struct rows *from) \
	{                                                                    \
		codes_stream(to, from, bits);                                \
	}
STREAM(2)
STREAM(3)
STREAM(4)
STREAM(5)
STREAM(6)
STREAM(8)

/* ---- scales ---- */

/* Floats among a tile's bytes, of each row. */
static uint8_t *put_halves(uint8_t *to, const struct rows *from, size_t offset)
{
	memset(to, 0, TILE_ROWS * sizeof(uint16_t));
	for (size_t r = 0; r < from->count; r++)
		memcpy(to + r * sizeof(uint16_t), row_at(from, r, offset), sizeof(uint16_t));
	return to + TILE_ROWS * sizeof(uint16_t);
}

/* [count][16] bytes. */
static void put_bytes(uint8_t *to, const struct rows *from, size_t offset, size_t count)
{
	memset(to, 0, count * TILE_ROWS);
	for (size_t r = 0; r < from->count; r++)
		for (size_t i = 0; i < count; i++)
			to[i * TILE_ROWS + r] = row_at(from, r, offset)[i];
}

typedef void scales_fn(uint8_t *to, const struct rows *from);

static void scales_one(uint8_t *to, const struct rows *from)
{
	put_halves(to, from, 0);
}

static void scales_two(uint8_t *to, const struct rows *from)
{
	put_halves(put_halves(to, from, 0), from, 2);
}

static void scales_power(uint8_t *to, const struct rows *from)
{
	put_bytes(to, from, 0, 1);
}

static void scales_k(uint8_t *to, const struct rows *from)
{
	put_bytes(put_halves(put_halves(to, from, 0), from, 2), from, 4, 12);
}

static void scales_q2_k(uint8_t *to, const struct rows *from)
{
	put_bytes(put_halves(put_halves(to, from, 80), from, 82), from, 0, 16);
}

static void scales_q6_k(uint8_t *to, const struct rows *from)
{
	put_bytes(put_halves(to, from, 208), from, 192, 16);
}

static void scales_q3_k(uint8_t *to, const struct rows *from)
{
	to = put_halves(to, from, 108);
	memset(to, 0, (size_t)16 * TILE_ROWS);
	for (size_t r = 0; r < from->count; r++)
		for (size_t h = 0; h < 16; h++)
			to[h * TILE_ROWS + r] = (uint8_t)q3_k_scale(row_at(from, r, 96), h);
}

static void scales_by(uint8_t *to, const struct rows *from,
		      int scale(const uint8_t *block, size_t b))
{
	to = put_halves(to, from, 0);
	memset(to, 0, (size_t)K_BLOCKS * TILE_ROWS);
	for (size_t r = 0; r < from->count; r++)
		for (size_t b = 0; b < K_BLOCKS; b++)
			to[b * TILE_ROWS + r] = (uint8_t)scale(row_at(from, r, 0), b);
}

static void scales_iq4_xs(uint8_t *to, const struct rows *from)
{
	scales_by(to, from, iq4_xs_scale);
}

static void scales_iq3_s(uint8_t *to, const struct rows *from)
{
	scales_by(to, from, iq3_s_scale);
}

/* ---- matrices ---- */

static const struct {
	codes_fn *codes;
	scales_fn *scales; /* NULL: they lie apart */
} ways[FORMAT_COUNT] = {
	[FORMAT_Q8_0] = {codes_q8_0, scales_one},
	[FORMAT_Q4_0] = {codes_q4_0, scales_one},
	[FORMAT_Q4_1] = {codes_q4_1, scales_two},
	[FORMAT_Q5_0] = {codes_q5_0, scales_one},
	[FORMAT_Q5_1] = {codes_q5_1, scales_two},
	[FORMAT_Q2_K] = {codes_q2_k, scales_q2_k},
	[FORMAT_Q3_K] = {codes_q3_k, scales_q3_k},
	[FORMAT_Q4_K] = {codes_q4_k, scales_k},
	[FORMAT_Q5_K] = {codes_q5_k, scales_k},
	[FORMAT_Q6_K] = {codes_q6_k, scales_q6_k},
	[FORMAT_IQ4_NL] = {codes_q4_0, scales_one},
	[FORMAT_IQ4_XS] = {codes_iq4_xs, scales_iq4_xs},
	[FORMAT_IQ3_S] = {codes_iq3_s, scales_iq3_s},
	[FORMAT_MXFP4_GGUF] = {codes_mxfp4_gguf, scales_power},
	[FORMAT_MXFP4] = {codes_stream4, NULL},
	[FORMAT_AFFINE2] = {codes_stream2, NULL},
	[FORMAT_AFFINE3] = {codes_stream3, NULL},
	[FORMAT_AFFINE4] = {codes_stream4, NULL},
	[FORMAT_AFFINE5] = {codes_stream5, NULL},
	[FORMAT_AFFINE6] = {codes_stream6, NULL},
	[FORMAT_AFFINE8] = {codes_stream8, NULL},
};

/* Elements of `bytes`, a constant where this is inlined. */
ALWAYS_INLINE void put_column(uint8_t *to, const uint8_t *from, size_t stride, uint32_t rows,
			      size_t bytes)
{
	memset(to, 0, TILE_ROWS * bytes);
	for (size_t r = 0; r < rows; r++)
		memcpy(to + r * bytes, from + r * stride, bytes);
}

/* Element `tile` of each row of a piece that lies apart. */
static uint8_t *put_apart(uint8_t *to, const uint8_t *piece, size_t stride, size_t tile,
			  size_t bytes, uint32_t rows)
{
	const uint8_t *from = piece + tile * bytes;

	if (bytes == 1)
		put_column(to, from, stride, rows, 1);
	else if (bytes == 2)
		put_column(to, from, stride, rows, 2);
	else
		put_column(to, from, stride, rows, 4);
	return to + TILE_ROWS * bytes;
}

static void put_scales(uint8_t *to, const struct shape *s, const struct rows *from,
		       const struct pieces *pieces, size_t tile)
{
	const size_t stride = format_norm_bytes(s) / s->rows,
		     bytes = stride / (s->cols / format_block_cols(s));

	if (ways[s->format].scales) {
		ways[s->format].scales(to, from);
		return;
	}
	to = put_apart(to, pieces->scales, stride, tile, bytes, from->count);
	if (format_bias_bytes(s))
		put_apart(to, pieces->biases, stride, tile, bytes, from->count);
}

/* Up to 16 rows. */
static void arrange_rows(uint8_t *to, const struct shape *s, uint32_t rows,
			 const struct pieces *pieces)
{
	const struct block_layout *l = &block_layouts[s->format];
	const size_t cols = format_block_cols(s), blocks = layout_blocks(l, s),
		     row_bytes = format_packed_bytes(s) / s->rows,
		     tile_bytes = row_bytes / (s->cols / cols);
	/* Formats with tiles of their own blocks take all of a tile at once, streams a block. */
	const size_t steps = l->blocks ? 1 : blocks;
	struct rows from = {pieces->weights, row_bytes, rows};

	for (size_t tile = 0; tile < s->cols / cols; tile++) {
		const struct rows of_tile = from;
		for (size_t i = 0; i < steps; i++) {
			ways[s->format].codes(to + i * layout_block_bytes(l), &from);
			from.at += tile_bytes / steps;
		}
		put_scales(to + layout_scales_at(l, s), s, &of_tile, pieces, tile);
		to += layout_tile_bytes(l, s);
	}
}

size_t block_rows_bytes(const struct shape *s)
{
	return s->cols / format_block_cols(s) * layout_tile_bytes(&block_layouts[s->format], s);
}

void block_arrange(uint8_t *to, const struct shape *s, uint32_t rows, const struct pieces *pieces)
{
	struct pieces from = *pieces;

	for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
		struct shape above = *s;
		above.rows = r;
		const size_t scales = format_norm_bytes(&above);
		from.weights = (const uint8_t *)pieces->weights + format_packed_bytes(&above);
		if (scales)
			from.scales = (const uint8_t *)pieces->scales + scales;
		if (format_bias_bytes(&above))
			from.biases = (const uint8_t *)pieces->biases + format_bias_bytes(&above);
		arrange_rows(to, s, rows - r < TILE_ROWS ? rows - r : TILE_ROWS, &from);
		to += block_rows_bytes(s);
	}
}
