/* The block formats, and the layout of a matrix of blocks in memory. Only kernels/ and its tests
 * use this header.
 *
 * A tile is 16 rows by the columns of one block of the file (32 or 256), or of one affine group.
 * The tiles of 16 rows lie one after the other. A tile has its blocks of BLOCK = 32 columns, then
 * the scales of all these blocks.
 *
 * A block is `bits` planes of 64 bytes. A plane has one 32-bit word for each row. Byte j of a word
 * has bits of columns 4 · k + j, for several k. The lanes of a register are rows, so one shift and
 * one mask leave one code in each byte, for four adjacent columns. The bits of the code of column 4
 * · k + j, k = 0 … 7, lie
 *     all 8 bits          in plane k
 *     the lowest 4        in plane k mod 4, from bit 4 · (k / 4) on
 *     the next 2          in plane k / 4, from bit 2 · (k mod 4) on
 *     the highest 1       in one plane, at bit k
 * Planes of 4 bits come first, then those of 2, then that of 1. A format has only the planes that
 * it needs: 3 bits are 2 + 1, 5 are 4 + 1, 6 are 4 + 2.
 *
 * The scales are floats of the 16 rows, then bytes of the 16 rows; see enum block_scales.
 */
#ifndef MOEFS_KERNELS_BLOCK_LAYOUT_H
#define MOEFS_KERNELS_BLOCK_LAYOUT_H

#include "kernels/block.h"

/* All block formats: DO(name in functions, format). Every table of kernels has a product for each
 * row. */
#define BLOCK_FORMATS(DO)                 \
	DO(q8_0, FORMAT_Q8_0)             \
	DO(q4_0, FORMAT_Q4_0)             \
	DO(q4_1, FORMAT_Q4_1)             \
	DO(q5_0, FORMAT_Q5_0)             \
	DO(q5_1, FORMAT_Q5_1)             \
	DO(q2_k, FORMAT_Q2_K)             \
	DO(q3_k, FORMAT_Q3_K)             \
	DO(q4_k, FORMAT_Q4_K)             \
	DO(q5_k, FORMAT_Q5_K)             \
	DO(q6_k, FORMAT_Q6_K)             \
	DO(iq4_nl, FORMAT_IQ4_NL)         \
	DO(iq4_xs, FORMAT_IQ4_XS)         \
	DO(iq3_s, FORMAT_IQ3_S)           \
	DO(mxfp4_gguf, FORMAT_MXFP4_GGUF) \
	DO(mxfp4, FORMAT_MXFP4)           \
	DO(affine2, FORMAT_AFFINE2)       \
	DO(affine3, FORMAT_AFFINE3)       \
	DO(affine4, FORMAT_AFFINE4)       \
	DO(affine5, FORMAT_AFFINE5)       \
	DO(affine6, FORMAT_AFFINE6)       \
	DO(affine8, FORMAT_AFFINE8)

#define BLOCK_FORMATS_COUNT(name, format) +1
_Static_assert(0 BLOCK_FORMATS(BLOCK_FORMATS_COUNT) == FORMAT_COUNT - FORMAT_Q8_0,
	       "every block format of enum format has a row of BLOCK_FORMATS");
#undef BLOCK_FORMATS_COUNT

enum block_scales {
	SCALES_FLOAT,  /* [16] scales; [16] offsets, if there are any */
	SCALES_POWER,  /* [16] bytes of block_e8m0_half */
	SCALES_SIGNED, /* [16] halves, [n][16] signed bytes: scale = half · byte */
	SCALES_K, /* [2][16] halves, [12][16] bytes: block_k_scale of the first, block_k_offset of
		     the other */
	SCALES_NIBBLES /* [2][16] halves, [n][16] bytes: the lower bits times the first are a scale,
			  the upper times the other an offset to subtract */
};

enum { WORDS = BLOCK / 4 };	      /* words of four columns in a block */
enum { BLOCK_PLANE = TILE_ROWS * 4 }; /* bytes of a plane */

struct block_layout {
	uint8_t bits;
	uint8_t blocks; /* in a tile; 0: as many as the shape's group has */
	enum block_scales scales;
	bool by_16;   /* one scale per 16 columns; else per 32 */
	bool offsets; /* the format has offsets; else they are zero */
	/* Kernels multiply numbers that are larger than the weights by `zero`: the stored codes, or
	 * values plus zero. If `wide`, they are signed bytes, else 0 … 63. */
	bool wide;
	int16_t zero;
	const int8_t *values; /* values of codes of 4 bits; NULL: code - zero */
};

static const struct block_layout block_layouts[FORMAT_COUNT] = {
	[FORMAT_Q8_0] = {8, 1, SCALES_FLOAT, .wide = true},
	[FORMAT_Q4_0] = {4, 1, SCALES_FLOAT, .zero = 8},
	[FORMAT_Q4_1] = {4, 1, SCALES_FLOAT, .offsets = true},
	[FORMAT_Q5_0] = {5, 1, SCALES_FLOAT, .zero = 16},
	[FORMAT_Q5_1] = {5, 1, SCALES_FLOAT, .offsets = true},
	[FORMAT_Q2_K] = {2, 8, SCALES_NIBBLES, .by_16 = true, .offsets = true},
	[FORMAT_Q3_K] = {3, 8, SCALES_SIGNED, .by_16 = true, .zero = 4},
	[FORMAT_Q4_K] = {4, 8, SCALES_K, .offsets = true},
	[FORMAT_Q5_K] = {5, 8, SCALES_K, .offsets = true},
	[FORMAT_Q6_K] = {6, 8, SCALES_SIGNED, .by_16 = true, .zero = 32},
	[FORMAT_IQ4_NL] = {4, 1, SCALES_FLOAT, .wide = true, .values = block_iq4_values},
	[FORMAT_IQ4_XS] = {4, 8, SCALES_SIGNED, .wide = true, .values = block_iq4_values},
	[FORMAT_IQ3_S] = {4, 8, SCALES_SIGNED, .zero = 15, .values = block_iq3_values},
	[FORMAT_MXFP4_GGUF] = {4, 1, SCALES_POWER, .zero = 12, .values = block_fp4_values},
	[FORMAT_MXFP4] = {4, 1, SCALES_POWER, .zero = 12, .values = block_fp4_values},
	[FORMAT_AFFINE2] = {2, 0, SCALES_FLOAT, .offsets = true},
	[FORMAT_AFFINE3] = {3, 0, SCALES_FLOAT, .offsets = true},
	[FORMAT_AFFINE4] = {4, 0, SCALES_FLOAT, .offsets = true},
	[FORMAT_AFFINE5] = {5, 0, SCALES_FLOAT, .offsets = true},
	[FORMAT_AFFINE6] = {6, 0, SCALES_FLOAT, .offsets = true},
	[FORMAT_AFFINE8] = {8, 0, SCALES_FLOAT, .offsets = true, .wide = true, .zero = -128},
};

static inline size_t layout_blocks(const struct block_layout *l, const struct shape *s)
{
	return l->blocks ? l->blocks : s->group / BLOCK;
}

/* The type of a tile's float scales. GGUF has 16-bit floats. */
static inline enum norm_type layout_norms(const struct block_layout *l, const struct shape *s)
{
	return l->blocks ? NORM_F16 : s->norms;
}
static inline size_t layout_floats(const struct block_layout *l)
{
	return l->scales == SCALES_POWER ? 0 : 1 + l->offsets;
}
static inline size_t layout_norm_bytes(const struct block_layout *l, const struct shape *s)
{
	return layout_norms(l, s) == NORM_F32 ? 4 : 2;
}
/* Bytes of a tile's integer scales per row. */
static inline size_t layout_scale_bytes(const struct block_layout *l)
{
	static const uint8_t of_k = 12;
	return l->scales == SCALES_FLOAT   ? 0
	       : l->scales == SCALES_POWER ? 1
	       : l->scales == SCALES_K	   ? of_k
					   : (size_t)l->blocks * (l->by_16 ? HALVES : 1);
}

/* The largest magnitude that kernels multiply with. */
static inline int layout_most(const struct block_layout *l)
{
	return l->wide ? 128 : l->values ? 2 * l->zero : (1 << l->bits) - 1;
}

static inline size_t layout_block_bytes(const struct block_layout *l)
{
	return (size_t)l->bits * BLOCK_PLANE;
}
/* layout_scales_at: offset of a tile's scales. layout_tile_bytes: bytes of a tile. */
static inline size_t layout_scales_at(const struct block_layout *l, const struct shape *s)
{
	return layout_blocks(l, s) * layout_block_bytes(l);
}
static inline size_t layout_tile_bytes(const struct block_layout *l, const struct shape *s)
{
	return layout_scales_at(l, s) +
	       TILE_ROWS * (layout_floats(l) * layout_norm_bytes(l, s) + layout_scale_bytes(l));
}

/* ---- into memory (format_arrange.c, arrange_lanes.h) ---- */

/* Adjacent tiles of 16 rows, in the file and in memory. */
struct arrange_rows {
	const uint8_t *from;		  /* the first row */
	size_t stride;			  /* bytes from row to row; all 16 rows must be readable */
	uint32_t count;			  /* rows that the matrix has; the others become zeros */
	size_t tiles, from_tile, to_tile; /* number of tiles, and bytes from one to the next */
	size_t blocks;			  /* blocks of 32 columns in a tile */
	size_t scales;			  /* offset of the scales in a tile in memory */
};

/* One table's functions (kernels.h) that arrange tiles of 16 rows. */
struct arrange_blocks {
	/* Arranges codes, and scales that lie between the codes in the file. */
	void (*tiles[FORMAT_COUNT])(uint8_t *to, const struct arrange_rows *rows);
	/* Arranges scales of a separate piece: 16 rows of `tiles` elements of 1, 2 or 4 bytes. The
	 * elements of the first tile go to `to`, those of each further tile to_tile bytes later. */
	void (*scales)(uint8_t *to, size_t to_tile, const uint8_t *from, size_t stride,
		       size_t tiles, size_t bytes);
};

/* format_arrange for blocks, with the functions of one table. rows: whole blocks of rows; `to`: the
 * place of the first of them. */
void arrange_blocks_by(const struct arrange_blocks *by, uint8_t *to, const struct shape *s,
		       uint32_t rows, const struct pieces *pieces);

#endif
