/* Weights in blocks in registers, as a warp multiplies a piece of a tile of 16 rows: eight parts,
 * which are columns with a scale of their own. block_layout.h says how arranged matrices lie in
 * memory. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_BLOCKS_H
#define MOEFS_KERNELS_CUDA_CUDA_BLOCKS_H

#include "kernels/cuda/cuda_items.h"

enum {
	CUDA_PARTS = 8,	      /* of a piece */
	CUDA_PLANES_MOST = 4, /* kinds of planes: not all are of one format */
	CUDA_PLANE = 64,      /* bytes */
	CUDA_BLOCK_WORDS = 8, /* of a block's inputs */
};

enum cuda_scale_kind {
	CUDA_SCALES_FLOAT,
	CUDA_SCALES_POWER,
	CUDA_SCALES_SIGNED,
	CUDA_SCALES_K,
	CUDA_SCALES_NIBBLES
};

/* Whether tiles are groups, whose size and type of floats are the product's (struct cuda_block_kind); and
 * whether the bits of a code are, too. */
enum cuda_grouping { CUDA_NO_GROUPS, CUDA_GROUPS, CUDA_GROUPS_ANY };

/* How a format is multiplied: constants, those of block_layouts. */
struct cuda_format {
	uint32_t bits;
	uint32_t together; /* 2^together blocks of 32 columns are a tile */
	enum cuda_scale_kind scales;
	bool by_16; /* parts are 16 columns, not 32 */
	bool offsets;
	int32_t zero;
	bool values; /* codes are looked up in the product's table */
	enum cuda_grouping groups;
	enum cuda_number norms; /* F16 without groups */
};

/* How codes become numbers. */
#define CUDA_CODES false, CUDA_NO_GROUPS, CUDA_F16
#define CUDA_VALUES true, CUDA_NO_GROUPS, CUDA_F16
#define CUDA_IN_GROUPS false, CUDA_GROUPS, CUDA_F16
#define CUDA_OF_ANY_BITS false, CUDA_GROUPS_ANY, CUDA_F16

/* DO(name in kernels, number, and the constants). Those that are often in one file, which have kernels for
 * several products in one launch, too; others; and those that have no kernel for 32 tokens. */
#define CUDA_COMMON_FORMATS(DO)                                                    \
	DO(q8_0, CUDA_Q8_0, 8, 0, CUDA_SCALES_FLOAT, false, false, 0, CUDA_CODES)  \
	DO(q5_0, CUDA_Q5_0, 5, 0, CUDA_SCALES_FLOAT, false, false, 16, CUDA_CODES) \
	DO(q4_k, CUDA_Q4_K, 4, 3, CUDA_SCALES_K, false, true, 0, CUDA_CODES)       \
	DO(q5_k, CUDA_Q5_K, 5, 3, CUDA_SCALES_K, false, true, 0, CUDA_CODES)       \
	DO(q6_k, CUDA_Q6_K, 6, 3, CUDA_SCALES_SIGNED, true, false, 32, CUDA_CODES)
#define CUDA_OTHER_FORMATS(DO)                                                            \
	DO(fp4, CUDA_FP4, 4, 0, CUDA_SCALES_POWER, false, false, 0, CUDA_VALUES)          \
	DO(iq4_nl, CUDA_IQ4_NL, 4, 0, CUDA_SCALES_FLOAT, false, false, 0, CUDA_VALUES)    \
	DO(iq4_xs, CUDA_IQ4_XS, 4, 3, CUDA_SCALES_SIGNED, false, false, 0, CUDA_VALUES)   \
	DO(q3_k, CUDA_Q3_K, 3, 3, CUDA_SCALES_SIGNED, true, false, 4, CUDA_CODES)         \
	DO(q2_k, CUDA_Q2_K, 2, 3, CUDA_SCALES_NIBBLES, true, true, 0, CUDA_CODES)         \
	DO(affine4, CUDA_AFFINE4, 4, 0, CUDA_SCALES_FLOAT, false, true, 0, CUDA_IN_GROUPS) \
	DO(affine8, CUDA_AFFINE8, 8, 0, CUDA_SCALES_FLOAT, false, true, -128, CUDA_IN_GROUPS)
#define CUDA_FEW_FORMATS(DO) \
	DO(affine, CUDA_AFFINE, 0, 0, CUDA_SCALES_FLOAT, false, true, 0, CUDA_OF_ANY_BITS)

/* With what the product says of groups. */
CUDA_THREAD struct cuda_format cuda_format_of(struct cuda_format f, const struct cuda_block_kind *b)
{
	if (f.groups == CUDA_NO_GROUPS)
		return f;
	f.together = b->together;
	f.norms = b->norms;
	if (f.groups == CUDA_GROUPS_ANY)
		f.bits = b->bits;
	return f;
}

/* Whether tiles have 256 columns: pieces are whole, and begin where tiles do or in their middle. */
CUDA_THREAD bool cuda_wide_tiles(struct cuda_format f)
{
	return f.scales != CUDA_SCALES_FLOAT && f.scales != CUDA_SCALES_POWER;
}
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
	return cuda_block_bytes(f) << f.together;
}
CUDA_THREAD uint32_t cuda_norms_bytes(struct cuda_format f)
{
	return f.norms == CUDA_F32 ? 4 : 2;
}
CUDA_THREAD uint32_t cuda_tile_floats(struct cuda_format f)
{
	return f.scales == CUDA_SCALES_POWER ? 0 : f.offsets ? 2 : 1;
}
CUDA_THREAD uint32_t cuda_tile_whole(struct cuda_format f)
{
	switch (f.scales) {
	case CUDA_SCALES_FLOAT:
		return 0;
	case CUDA_SCALES_POWER:
		return 1;
	case CUDA_SCALES_K:
		return 12;
	default:
		return (f.by_16 ? 2U : 1U) << f.together;
	}
}
CUDA_THREAD uint32_t cuda_tile_bytes(struct cuda_format f)
{
	return cuda_codes_bytes(f) +
	       CUDA_ROWS * (cuda_norms_bytes(f) * cuda_tile_floats(f) + cuda_tile_whole(f));
}
/* The tile of a block of a row of tiles, and the block. */
CUDA_THREAD const uint8_t *cuda_tile_of(struct cuda_format f, const uint8_t *tiles, uint32_t block)
{
	return tiles + (size_t)(block >> f.together) * cuda_tile_bytes(f);
}
CUDA_THREAD const uint8_t *cuda_block_of(struct cuda_format f, const uint8_t *tiles, uint32_t block)
{
	return cuda_tile_of(f, tiles, block) +
	       (block & ((1U << f.together) - 1)) * cuda_block_bytes(f);
}

/* ---- codes ----
 *
 * Thread 4 g + c of a warp has the rows 2 g and 2 g + 1, words of both are one load. Of a block it
 * has the columns 4 c … 4 c + 3 and those 16 farther, in the order of cuda_multiply_tile: a word of
 * each row, then the word 16 columns farther. */

/* A block's planes, as a thread has them: first one of 4 bits, or of the lower 16 columns of 8, whose
 * others are next; then two of 2 bits; then that of 1. */
struct cuda_planes {
	struct cuda_two of[CUDA_PLANES_MOST];
};

CUDA_THREAD void cuda_planes_load(struct cuda_planes *w, struct cuda_format f, const uint8_t *block)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, c = lane % 4;
	const uint32_t *words = (const uint32_t *)(const void *)block + lane / 4 * 2;
	const uint32_t small = f.bits & 4; /* planes before those of 2 bits */

	if (f.bits >= 4)
		w->of[0] = cuda_load_two(words + c * CUDA_ROWS);
	if (f.bits == 8)
		w->of[1] = cuda_load_two(words + (c + 4) * CUDA_ROWS);
	if (f.bits & 2) {
		w->of[1] = cuda_load_two(words + small * CUDA_ROWS);
		w->of[2] = cuda_load_two(words + (small + 1) * CUDA_ROWS);
	}
	if (f.bits & 1)
		w->of[3] = cuda_load_two(words + (f.bits - 1) * CUDA_ROWS);
}

/* Adds the planes of 2 bits and of 1. */
CUDA_THREAD void cuda_small_planes(uint32_t code[2], struct cuda_format f,
				   const struct cuda_planes *w, uint32_t row)
{
	const uint32_t c = cuda_thread() % 4, to = f.bits & 4, one = f.bits - 1;

	if (f.bits & 2) {
		code[0] |= w->of[1].row[row] >> 2 * c << to & 0x03030303U << to;
		code[1] |= w->of[2].row[row] >> 2 * c << to & 0x03030303U << to;
	}
	if (f.bits & 1) {
		const uint32_t last = w->of[3].row[row] >> c;
		code[0] |= last << one & 0x01010101U << one;
		code[1] |= last >> (4 - one) & 0x01010101U << one;
	}
}

/* Of one row, two words. */
CUDA_THREAD void cuda_row_codes(uint32_t code[2], struct cuda_format f, const uint32_t table[4],
				const struct cuda_planes *w, uint32_t row)
{
	const uint32_t first = w->of[0].row[row];

	code[0] = code[1] = 0;
	if (f.values) {
		cuda_eight_values(code, table, first);
	} else if (f.bits == 8) {
		code[0] = first;
		code[1] = w->of[1].row[row];
	} else if (f.bits & 4) {
		code[0] = first & 0x0f0f0f0f;
		code[1] = first >> 4 & 0x0f0f0f0f;
	}
	cuda_small_planes(code, f, w, row);
}

/* table: of the values of codes. */
CUDA_THREAD void cuda_block_codes(uint32_t code[4], struct cuda_format f, const uint32_t table[4],
				  const struct cuda_planes *w)
{
	uint32_t one[2], other[2];

	cuda_row_codes(one, f, table, w, 0);
	cuda_row_codes(other, f, table, w, 1);
	code[0] = one[0];
	code[1] = other[0];
	code[2] = one[1];
	code[3] = other[1];
}

/* A thread's inputs of a part, in the order of codes: values of a word alternate, so inputs do, too. */
CUDA_THREAD void cuda_input_order(uint32_t to[2], struct cuda_format f, uint32_t first,
				  uint32_t second)
{
	to[0] = f.values ? cuda_permute(first, second, 0x5140) : first;
	to[1] = f.values ? cuda_permute(first, second, 0x7362) : second;
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
	struct cuda_two scale[2], offset[2]; /* four floats each: the second where they are F32 */
	uint32_t whole[3];		     /* four bytes each */
};

struct cuda_four_rows {
	float row[4];
} __attribute__((aligned(16)));

CUDA_THREAD void cuda_norms_load(struct cuda_two to[2], struct cuda_format f, const uint8_t *from)
{
	to[0] = cuda_load_two(from);
	if (f.norms == CUDA_F32)
		to[1] = cuda_load_two(from + 8);
}

/* from: those of the tile; b: the block of it, half: of its columns. */
CUDA_THREAD void cuda_whole_load(uint32_t to[3], struct cuda_format f, const uint8_t *from,
				 uint32_t b, uint32_t half)
{
	if (f.scales == CUDA_SCALES_POWER)
		to[0] = cuda_load_bits(from, true);
	if (f.scales == CUDA_SCALES_SIGNED || f.scales == CUDA_SCALES_NIBBLES)
		to[0] = cuda_load_bits(from + (f.by_16 ? 2 * b + half : b) * CUDA_ROWS, true);
	if (f.scales == CUDA_SCALES_K) {
		const uint8_t *own = from + b % 4 * CUDA_ROWS, *last = from + b * CUDA_ROWS;
		to[0] = cuda_load_bits(own, true);
		to[1] = cuda_load_bits(own + 4 * CUDA_ROWS, true);
		to[2] = cuda_load_bits(last + 4 * CUDA_ROWS, true);
	}
}

/* tiles: the row of tiles. part: counted from its beginning. */
CUDA_THREAD void cuda_scales_load(struct cuda_scale_bits *s, struct cuda_format f,
				  const uint8_t *tiles, uint32_t part)
{
	const uint32_t quad = cuda_thread() % 4, block = f.by_16 ? part / 2 : part;
	const uint32_t bytes = CUDA_ROWS * cuda_norms_bytes(f), floats = cuda_tile_floats(f);
	const uint8_t *at = cuda_tile_of(f, tiles, block) + cuda_codes_bytes(f);

	if (floats > 0)
		cuda_norms_load(s->scale, f, at + bytes / 4 * quad);
	if (floats > 1)
		cuda_norms_load(s->offset, f, at + bytes / 4 * quad + bytes);
	cuda_whole_load(s->whole, f, at + floats * bytes + 4 * quad,
			block & ((1U << f.together) - 1), part % 2);
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

/* block_e8m0_half */
CUDA_THREAD float cuda_power_half(uint32_t e)
{
	const uint32_t small = 0x00200000U << (e & 1), bits = e < 2 ? small : (e - 1) << 23;

	return e == 255 ? cuda_nan() : cuda_float(bits);
}

/* Number i of four. */
CUDA_THREAD float cuda_norm_of(struct cuda_format f, const struct cuda_two four[2], uint32_t i)
{
	const uint16_t half = (uint16_t)(four[0].row[i / 2] >> 16 * (i % 2));

	if (f.norms == CUDA_F32)
		return cuda_float(four[i / 2].row[i % 2]);
	return f.norms == CUDA_F16 ? cuda_from_half(half) : cuda_float((uint32_t)half << 16);
}

CUDA_THREAD void cuda_scales_of(struct cuda_four_rows *scale, struct cuda_four_rows *offset,
				struct cuda_format f, const struct cuda_scale_bits *s)
{
	const uint32_t b = cuda_thread() % CUDA_WARP / 4; /* of a tile of CUDA_SCALES_K */
	const bool floats = cuda_tile_floats(f) > 0;
	uint32_t scales = s->whole[0], offsets = 0;

	if (f.scales == CUDA_SCALES_K)
		cuda_k_bytes(&scales, &offsets, s->whole, b);
	if (f.scales == CUDA_SCALES_NIBBLES) {
		offsets = scales >> 4 & 0x0f0f0f0f;
		scales &= 0x0f0f0f0f;
	}
	CUDA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		const float d = floats ? cuda_norm_of(f, s->scale, i) : 0,
			    m = f.offsets ? cuda_norm_of(f, s->offset, i) : 0;
		const uint32_t byte = scales >> 8 * i & 255;
		scale->row[i] = f.scales == CUDA_SCALES_FLOAT	 ? d
				: f.scales == CUDA_SCALES_POWER	 ? cuda_power_half(byte)
				: f.scales == CUDA_SCALES_SIGNED ? d * (float)(int8_t)byte
								 : d * (float)byte;
		offset->row[i] = f.scales == CUDA_SCALES_FLOAT
					 ? m
					 : -(m * (float)(offsets >> 8 * i & 255));
	}
}

/* ---- what a token adds to a part ---- */

/* The scale of its input; and the sum of its codes, or that times the scale, or what is missing from a dot
 * with codes that are too large by `zero`. */
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
	t.other = !f.offsets ? (uint32_t)(-f.zero * sum)
		  : f.zero   ? (uint32_t)sum
			     : cuda_bits(t.scale * (float)sum);
	return t;
}

/* A part's dot with the weights' codes. */
CUDA_THREAD int32_t cuda_whole_dot(struct cuda_format f, int32_t dot, struct cuda_token_part t)
{
	const int32_t other = (int32_t)t.other;

	return !f.zero ? dot : dot + (f.offsets ? -f.zero * other : other);
}
/* What a format's offset is multiplied with. */
CUDA_THREAD float cuda_token_total(struct cuda_format f, struct cuda_token_part t)
{
	return f.zero ? t.scale * (float)(int32_t)t.other : cuda_float(t.other);
}

/* y with one more part. */
CUDA_THREAD float cuda_part_added(float y, struct cuda_format f, int32_t dot, float scale,
				  float offset, struct cuda_token_part t)
{
	y = cuda_fma((float)cuda_whole_dot(f, dot, t), scale * t.scale, y);
	return f.offsets ? cuda_fma(offset, cuda_token_total(f, t), y) : y;
}

#endif
