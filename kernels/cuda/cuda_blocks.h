/* Weights in blocks in registers, as a warp multiplies a piece of a tile of 16 rows: eight parts,
 * which are columns with a scale of their own. block_layout.h says how arranged matrices lie in
 * memory. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_BLOCKS_H
#define MOEFS_KERNELS_CUDA_CUDA_BLOCKS_H

#include "kernels/cuda/cuda_items.h"

enum {
	CUDA_PARTS = 8,	      /* of a piece */
	CUDA_PLANES_MOST = 3, /* that a thread reads of a block */
	CUDA_PLANE = 64,      /* bytes */
	CUDA_BLOCK_WORDS = 8, /* of a block's inputs */
};

enum cuda_scale_kind { CUDA_SCALES_FLOAT, CUDA_SCALES_SIGNED, CUDA_SCALES_K };

/* A format: constants, those of block_layouts. */
struct cuda_format {
	uint32_t bits, in_tile; /* blocks of 32 columns in a tile */
	enum cuda_scale_kind scales;
	bool by_16; /* parts are 16 columns, not 32 */
	bool offsets;
	int32_t zero;
};

/* DO(name in kernels, number, and the constants). */
#define CUDA_BLOCK_FORMATS(DO)                                         \
	DO(q8_0, CUDA_Q8_0, 8, 1, CUDA_SCALES_FLOAT, false, false, 0)  \
	DO(q5_0, CUDA_Q5_0, 5, 1, CUDA_SCALES_FLOAT, false, false, 16) \
	DO(q4_k, CUDA_Q4_K, 4, 8, CUDA_SCALES_K, false, true, 0)       \
	DO(q5_k, CUDA_Q5_K, 5, 8, CUDA_SCALES_K, false, true, 0)       \
	DO(q6_k, CUDA_Q6_K, 6, 8, CUDA_SCALES_SIGNED, true, false, 32)

CUDA_THREAD uint32_t cuda_piece_blocks(struct cuda_format f)
{
	return f.by_16 ? CUDA_PARTS / 2 : CUDA_PARTS;
}
CUDA_THREAD uint32_t cuda_part_words(struct cuda_format f)
{
	return f.by_16 ? CUDA_BLOCK_WORDS / 2 : CUDA_BLOCK_WORDS;
}
CUDA_THREAD uint32_t cuda_block_bytes(struct cuda_format f)
{
	return f.bits * CUDA_PLANE;
}
/* Bytes of a tile's codes, then those of its floats and of its whole scales. */
CUDA_THREAD uint32_t cuda_codes_bytes(struct cuda_format f)
{
	return f.in_tile * cuda_block_bytes(f);
}
CUDA_THREAD uint32_t cuda_tile_bytes(struct cuda_format f)
{
	const uint32_t floats = f.scales == CUDA_SCALES_K || f.offsets ? 2 : 1;
	const uint32_t whole = f.scales == CUDA_SCALES_K	? 12
			       : f.scales == CUDA_SCALES_SIGNED ? f.in_tile * (f.by_16 ? 2 : 1)
								: 0;
	return cuda_codes_bytes(f) + CUDA_ROWS * (2 * floats + whole);
}
/* The tile of a block of a row of tiles, and the block. */
CUDA_THREAD const uint8_t *cuda_tile_of(struct cuda_format f, const uint8_t *tiles, uint32_t block)
{
	return tiles + (size_t)(block / f.in_tile) * cuda_tile_bytes(f);
}
CUDA_THREAD const uint8_t *cuda_block_of(struct cuda_format f, const uint8_t *tiles, uint32_t block)
{
	return cuda_tile_of(f, tiles, block) + block % f.in_tile * cuda_block_bytes(f);
}

/* ---- codes ----
 *
 * Thread 4 g + c of a warp has the rows 2 g and 2 g + 1, words of both are one load. Of a block it
 * has the columns 4 c … 4 c + 3 and those 16 farther, in the order of cuda_multiply_tile: a word of
 * each row, then the word 16 columns farther. */

/* A block's planes, as a thread has them: of 4 bits, or of the lower 16 columns of 8; then the
 * others. */
struct cuda_planes {
	struct cuda_two of[CUDA_PLANES_MOST];
};

CUDA_THREAD void cuda_planes_load(struct cuda_planes *w, struct cuda_format f, const uint8_t *block)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, c = lane % 4;
	const uint32_t *words = (const uint32_t *)(const void *)block + lane / 4 * 2;

	w->of[0] = cuda_load_two(words + c * CUDA_ROWS);
	if (f.bits > 4)
		w->of[1] = cuda_load_two(words + (f.bits == 8 ? c + 4 : 4) * CUDA_ROWS);
	if (f.bits == 6)
		w->of[2] = cuda_load_two(words + 5 * CUDA_ROWS);
}

/* Of one row, two words. */
CUDA_THREAD void cuda_row_codes(uint32_t code[2], struct cuda_format f, const struct cuda_planes *w,
				uint32_t row)
{
	const uint32_t c = cuda_thread() % 4, first = w->of[0].row[row];

	code[0] = f.bits == 8 ? first : first & 0x0f0f0f0f;
	code[1] = f.bits == 8 ? w->of[1].row[row] : first >> 4 & 0x0f0f0f0f;
	if (f.bits == 5) {
		const uint32_t fifth = w->of[1].row[row] >> c;
		code[0] |= fifth << 4 & 0x10101010;
		code[1] |= fifth & 0x10101010;
	}
	if (f.bits == 6) {
		code[0] |= w->of[1].row[row] >> 2 * c << 4 & 0x30303030;
		code[1] |= w->of[2].row[row] >> 2 * c << 4 & 0x30303030;
	}
}

CUDA_THREAD void cuda_block_codes(uint32_t code[4], struct cuda_format f,
				  const struct cuda_planes *w)
{
	uint32_t one[2], other[2];

	cuda_row_codes(one, f, w, 0);
	cuda_row_codes(other, f, w, 1);
	code[0] = one[0];
	code[1] = other[0];
	code[2] = one[1];
	code[3] = other[1];
}

/* Adds the dots of part i of a piece, whose block has these codes, with inputs: the thread's words
 * of them, one where parts are 16 columns. */
CUDA_THREAD void cuda_part_dots(int32_t sum[4], struct cuda_format f, const uint32_t code[4],
				uint32_t i, const uint32_t input[2])
{
	if (f.by_16)
		cuda_multiply_half(sum, code + i % 2 * 2, input[0]);
	else
		cuda_multiply_tile(sum, code, input);
}

/* ---- scales: thread 4 s + q has those of the rows 4 q … 4 q + 3 of part s ---- */

/* As they are loaded. Bits that are loaded early are made numbers late: that would wait for them.
 */
struct cuda_scale_bits {
	struct cuda_two half[2]; /* of scales and of offsets: four each */
	uint32_t whole[3];	 /* four bytes each */
};

struct cuda_four_rows {
	float row[4];
} __attribute__((aligned(16)));

/* tiles: the row of tiles. part: counted from its beginning. */
CUDA_THREAD void cuda_scales_load(struct cuda_scale_bits *s, struct cuda_format f,
				  const uint8_t *tiles, uint32_t part)
{
	const uint32_t quad = cuda_thread() % 4, block = f.by_16 ? part / 2 : part;
	const uint8_t *at = cuda_tile_of(f, tiles, block) + cuda_codes_bytes(f);
	const bool two = f.offsets || f.scales == CUDA_SCALES_K;
	const uint8_t *whole = at + (two ? 4 : 2) * CUDA_ROWS + 4 * quad;
	const uint32_t b = block % f.in_tile;

	s->half[0] = cuda_load_two(at + 8 * quad);
	if (two)
		s->half[1] = cuda_load_two(at + 2 * CUDA_ROWS + 8 * quad);
	if (f.scales == CUDA_SCALES_SIGNED)
		s->whole[0] =
			cuda_load_bits(whole + (f.by_16 ? 2 * b + part % 2 : b) * CUDA_ROWS, true);
	if (f.scales == CUDA_SCALES_K) {
		s->whole[0] = cuda_load_bits(whole + b % 4 * CUDA_ROWS, true);
		s->whole[1] = cuda_load_bits(whole + (b % 4 + 4) * CUDA_ROWS, true);
		s->whole[2] = cuda_load_bits(whole + (b + 4) * CUDA_ROWS, true);
	}
}

/* block_k_scale and block_k_offset of four rows; block b of the tile. */
CUDA_THREAD void cuda_k_bytes(uint32_t *scale, uint32_t *offset, const uint32_t whole[3],
			      uint32_t b)
{
	*scale = whole[0] & 0x3f3f3f3f;
	*offset = whole[1] & 0x3f3f3f3f;
	if (b >= 4) {
		*scale = (whole[2] & 0x0f0f0f0f) | (whole[0] >> 2 & 0x30303030);
		*offset = (whole[2] >> 4 & 0x0f0f0f0f) | (whole[1] >> 2 & 0x30303030);
	}
}

CUDA_THREAD float cuda_half_of(const struct cuda_two *four, uint32_t i)
{
	return cuda_from_half((uint16_t)(four->row[i / 2] >> 16 * (i % 2)));
}

CUDA_THREAD void cuda_scales_of(struct cuda_four_rows *scale, struct cuda_four_rows *offset,
				struct cuda_format f, const struct cuda_scale_bits *s)
{
	const uint32_t b = cuda_thread() % CUDA_WARP / 4; /* of a tile of CUDA_SCALES_K */
	uint32_t scales = s->whole[0], offsets = 0;

	if (f.scales == CUDA_SCALES_K)
		cuda_k_bytes(&scales, &offsets, s->whole, b);
	CUDA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		const float d = cuda_half_of(&s->half[0], i), m = cuda_half_of(&s->half[1], i);
		scale->row[i] = f.scales == CUDA_SCALES_K ? d * (float)(scales >> 8 * i & 255)
				: f.scales == CUDA_SCALES_SIGNED
					? d * (float)(int8_t)(scales >> 8 * i)
					: d;
		offset->row[i] =
			f.scales == CUDA_SCALES_K ? -(m * (float)(offsets >> 8 * i & 255)) : m;
	}
}

/* ---- what a token adds to a part ---- */

/* The scale of its input; and the sum of its codes times that, or what is missing from a dot with
 * codes that are too large by `zero`. */
struct cuda_token_part {
	float scale;
	uint32_t other;
} __attribute__((aligned(8)));

/* block: the first one of the token's input. */
CUDA_THREAD struct cuda_token_part cuda_token_part_of(const struct cuda_product *p,
						      struct cuda_format f, uint32_t block,
						      uint32_t part)
{
	const int16_t *sums = p->sum + 2 * (size_t)block + (f.by_16 ? part : 2 * part);
	struct cuda_token_part t;
	int32_t sum = 0;

	t.scale = p->scale[block + (f.by_16 ? part / 2 : part)];
	if (f.offsets || f.zero)
		sum = f.by_16 ? sums[0] : sums[0] + sums[1];
	t.other = f.offsets ? cuda_bits(t.scale * (float)sum) : (uint32_t)(-f.zero * sum);
	return t;
}

/* y with one more part. */
CUDA_THREAD float cuda_part_added(float y, struct cuda_format f, int32_t dot, float scale,
				  float offset, struct cuda_token_part t)
{
	const int32_t whole = f.zero ? dot + (int32_t)t.other : dot;

	y = cuda_fma((float)whole, scale * t.scale, y);
	return f.offsets ? cuda_fma(offset, cuda_float(t.other), y) : y;
}

#endif
