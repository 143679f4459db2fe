/* Weight formats: how a matrix of weights lies on disk and how it lies in memory.
 *
 * On disk ("canonical") a matrix [rows, cols] is what README.md here and safetensors say: rows one
 * after the other, TQ formats as packed indices plus one norm per group of 128 columns, blocks as
 * their files have them.
 *
 * In memory ("arranged") it is laid out for the multiply kernels:
 *   16-bit and 32-bit floats   rows one after the other, as on disk;
 *   TQ, TC   blocks of TILE_ROWS = 16 rows; in a block, group after group of 128 columns; in a
 *         group, four slabs of 32 columns, then the 16 norms (in their own type). A slab is
 *         `bits` planes of 64 bytes. Where the packed row has, for 8 columns, `bits` bytes with 8
 *         indices (a unit), plane p has byte p of each of the slab's units: byte 4 · row + k is
 *         that of unit k.
 * Rows missing from the last block have zero indices and zero norms.
 *   blocks   as block_layout.h says.
 *
 * So a register filled from a plane has rows as 32-bit lanes, and a shift and a mask, the same for
 * all lanes, lay bare one index in each byte: no byte has to move. Arranging moves bytes alone.
 *
 * No function here allocates or fails; sizes must have been checked by the caller (format_fits).
 */
#ifndef MOEFS_KERNELS_FORMAT_H
#define MOEFS_KERNELS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum format {
	FORMAT_F32,
	FORMAT_F16,
	FORMAT_BF16,
	FORMAT_TQ2,
	FORMAT_TQ3,
	FORMAT_TQ4,
	/* The same groups, norms and bytes, but the codes of a trellis. */
	FORMAT_TC2,
	FORMAT_TC3,
	FORMAT_TC4,
	/* Blocks as GGUF files have them, scales among the codes. */
	FORMAT_Q8_0,
	FORMAT_Q4_0,
	FORMAT_Q4_1,
	FORMAT_Q5_0,
	FORMAT_Q5_1,
	FORMAT_Q2_K,
	FORMAT_Q3_K,
	FORMAT_Q4_K,
	FORMAT_Q5_K,
	FORMAT_Q6_K,
	FORMAT_IQ4_NL,
	FORMAT_IQ4_XS,
	FORMAT_IQ3_S,
	FORMAT_MXFP4_GGUF,
	FORMAT_MXFP4, /* the same numbers as published, scales apart */
	/* Groups with a scale and a bias each, apart (MLX). */
	FORMAT_AFFINE2,
	FORMAT_AFFINE3,
	FORMAT_AFFINE4,
	FORMAT_AFFINE5,
	FORMAT_AFFINE6,
	FORMAT_AFFINE8,
	FORMAT_COUNT
};
/* Type of a TQ group's norm, or of an affine group's scale and bias. */
enum norm_type { NORM_F16, NORM_F32, NORM_BF16 };

enum { TQ_GROUP = 128, TILE_ROWS = 16, TQ_UNIT = 8 };
enum { TQ_SLAB = 32, SLAB_UNITS = TQ_SLAB / TQ_UNIT, PLANE_BYTES = TILE_ROWS * SLAB_UNITS };
enum { SLABS = TQ_GROUP / TQ_SLAB }; /* of a tile, which is one group of 16 rows */

struct shape {
	enum format format;
	enum norm_type norms; /* TQ and TC (not BF16) and affine only */
	uint32_t rows, cols;  /* cols is the input dimension */
	uint32_t group;	      /* affine only: columns that share a scale: 32, 64 or 128 */
};

/* Canonical bytes, as files have them: rows one after the other in each piece. What a format does
 * not have may be NULL. */
struct pieces {
	const void *weights; /* floats, packed indices, or blocks */
	const void *scales;  /* TQ norms, affine scales, or MXFP4's powers of two */
	const void *biases;  /* affine */
};

struct matrix { /* an arranged matrix; does not own data */
	struct shape shape;
	const void *data; /* 64-byte aligned */
};

const char *format_name(enum format f); /* "bf16", "tq3" … */
/* Numbers as they are, without codes. */
static inline bool format_is_float(enum format f)
{
	return f == FORMAT_F32 || f == FORMAT_F16 || f == FORMAT_BF16;
}
/* The format of that name; FORMAT_COUNT: none. */
enum format format_named(const char *name);
/* Bits of a weight in rotated groups of TQ_GROUP with a norm each; 0 for what has none. */
uint32_t format_tq_bits(enum format f);
/* Rotated groups with norms, whatever the codes: sizes, inputs and norms are those of TQ. */
static inline bool format_is_tq(enum format f)
{
	return format_tq_bits(f) != 0;
}
/* Of these, those whose codes are a trellis' (TC): what a code means depends on those before it. */
bool format_is_trellis(enum format f);
/* Blocks with scales (block.h). */
bool format_is_block(enum format f);
uint32_t format_affine_bits(enum format f); /* of a code; 0 for what is not affine */
uint32_t format_block_bytes(enum format f); /* of a block's weights */
/* What multiply wants of its input besides the floats. */
enum input_form { INPUT_FLOATS, INPUT_TQ, INPUT_BLOCKS, INPUT_FORMS };
enum input_form format_input(enum format f);
/* Columns of what is packed together: a row is a whole number of these. 1 for floats, and for TQ,
 * whose last group is padded. */
uint32_t format_block_cols(const struct shape *s);
/* Groups per row: ceil(cols / 128). */
static inline size_t tq_groups(uint32_t cols)
{
	return ((size_t)cols + TQ_GROUP - 1) / TQ_GROUP;
}

/* Packed bytes of one group in one row, and bytes of its norm. */
static inline size_t tq_group_bytes(size_t bits)
{
	return TQ_GROUP / 8 * bits;
}
static inline size_t tq_norm_bytes(enum norm_type norms)
{
	return norms == NORM_F32 ? 4 : 2;
}

/* Bytes of an arranged slab, of a tile's slabs, and of a tile with its norms. */
static inline size_t tq_slab_bytes(size_t bits)
{
	return bits * PLANE_BYTES;
}
static inline size_t tq_slabs_bytes(size_t bits)
{
	return SLABS * tq_slab_bytes(bits);
}
static inline size_t tq_tile_bytes(size_t bits, enum norm_type norms)
{
	return tq_slabs_bytes(bits) + (size_t)TILE_ROWS * (norms == NORM_F16 ? 2 : 4);
}

/* Largest rows and cols accepted; every byte count below then fits in 63 bits. */
bool format_fits(uint64_t rows, uint64_t cols);
/* A shape with which every function of kernels/ may be called: rows and cols that fit, whole
 * blocks, a group and a type of norms that the format has. Nothing here looks again. */
bool format_shape_fits(const struct shape *s);

/* Canonical bytes of the pieces: weights, scales (0 where there are none), biases (the same). */
size_t format_packed_bytes(const struct shape *s);
size_t format_norm_bytes(const struct shape *s);
size_t format_bias_bytes(const struct shape *s);
/* Bytes of the arranged matrix, a multiple of 64. */
size_t format_arranged_bytes(const struct shape *s);

/* Rearranges rows [row0, row0 + rows) of a canonical matrix into dst, the start of the whole
 * arranged matrix. row0 is a multiple of TILE_ROWS, and so is rows unless it reaches the end.
 * `from` are the canonical bytes of row0 onward, which may be unaligned. */
void format_arrange(void *dst, const struct shape *s, uint32_t row0, uint32_t rows,
		    const struct pieces *from);

/* Row 0 of the canonical bytes given, as floats: out[cols]. The bytes of a float format may lie at
 * the end of out itself: each is read before it is overwritten. */
void format_dequantise_row(float *out, const struct shape *s, const struct pieces *from);

/* Whether the canonical bytes of a whole matrix hold no NaN and no infinity, nor a scale so large
 * (above 1e30) that its multiples might. Looks at scales alone where there are codes. */
bool format_is_finite(const struct shape *s, const struct pieces *from);

/* Scalar conversions, round to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t b);
uint16_t f32_to_bf16(float f);
/* n of them; the row may lie at the end of out itself. */
void f16_row_to_f32(float *out, const void *row, size_t n);
void bf16_row_to_f32(float *out, const void *row, size_t n);
/* Element i of some norms, which may be unaligned. */
float norm_at(const void *norms, size_t i, enum norm_type type);

#endif
