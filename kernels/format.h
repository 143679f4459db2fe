/* Weight formats: the layout of a matrix of weights on disk and in memory.
 *
 * On disk ("canonical") a matrix [rows, cols] has its rows one after the other. Floats are as in
 * safetensors. A row of TQ or TC is packed indices (TQ) or codes (TC), and one norm per group of
 * 128 columns (README.md). Rows of blocks are as in GGUF, MXFP4 or MLX files (block.h).
 *
 * In memory ("arranged") the layout depends on the format:
 *
 * - Floats: rows one after the other, as on disk.
 * - TQ, TC: tiles of TILE_ROWS = 16 rows by one group of 128 columns; the groups of 16 rows lie one
 *   after the other. A tile is four slabs of 32 columns, then 16 norms in their own type. A slab is
 *   `bits` planes of 64 bytes. On disk 8 columns (a unit) are `bits` bytes of a row; plane p has
 *   byte p of each unit of the slab: byte 4 · row + k of the plane belongs to unit k. Rows missing
 *   from the last tile have zero indices and zero norms.
 * - Blocks: block_layout.h.
 *
 * So the 32-bit lanes of a register loaded from a plane of TQ or TC are rows. One shift and one
 * mask, the same for all lanes, leave one index in each byte. Arranging only moves bytes.
 *
 * No function here allocates or fails; the caller checks sizes first (format_shape_fits).
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
	/* The groups, norms and sizes of TQ, with codes of a trellis. */
	FORMAT_TC2,
	FORMAT_TC3,
	FORMAT_TC4,
	/* Blocks in the layout of GGUF files: scales lie between the codes. */
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
	FORMAT_MXFP4, /* as published: the same numbers, with scales in a separate tensor */
	/* MLX: groups with a scale and a bias each, in separate tensors. */
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
enum { SLABS = TQ_GROUP / TQ_SLAB }; /* in a tile, which is one group of 16 rows */

struct shape {
	enum format format;
	enum norm_type norms; /* TQ and TC (not BF16) and affine only */
	uint32_t rows, cols;  /* cols is the input dimension */
	uint32_t group;	      /* affine only: columns that share a scale (32, 64 or 128) */
};

/* Canonical bytes. Each piece has its rows one after the other. A piece that the format does not
 * have may be NULL. */
struct pieces {
	const void *weights; /* floats, packed indices, or blocks */
	const void *scales;  /* TQ norms, affine scales, or MXFP4's powers of two */
	const void *biases;  /* affine */
};

struct matrix { /* an arranged matrix; the caller owns data */
	struct shape shape;
	const void *data; /* 64-byte aligned */
};

/* ---- the table of formats ---- */

const char *format_name(enum format f); /* "bf16", "tq3" … */
/* The format of that name, or FORMAT_COUNT. */
enum format format_named(const char *name);
/* Whether the format has floats, not codes. */
static inline bool format_is_float(enum format f)
{
	return f == FORMAT_F32 || f == FORMAT_F16 || f == FORMAT_BF16;
}
/* TQ and TC: bits of a code; 0 for other formats. */
uint32_t format_tq_bits(enum format f);
/* Whether the format is TQ or TC: rotated groups of TQ_GROUP columns with a norm each. Both use
 * TQ's sizes, inputs and norms. */
static inline bool format_is_tq(enum format f)
{
	return format_tq_bits(f) != 0;
}
/* Whether the format is TC: the meaning of a code depends on earlier codes. */
bool format_is_trellis(enum format f);
/* Whether the format has blocks with scales (block.h): GGUF, MXFP4 and affine. */
bool format_is_block(enum format f);
uint32_t format_affine_bits(enum format f); /* bits of a code; 0 for formats that are not affine */
uint32_t format_block_bytes(enum format f); /* bytes of the weights of a block */
/* The form of input that multiply needs in addition to the floats. */
enum input_form { INPUT_FLOATS, INPUT_TQ, INPUT_BLOCKS, INPUT_FORMS };
enum input_form format_input(enum format f);
/* Columns that are packed together; a row has a multiple of this number. 1 for floats, and for TQ
 * and TC, whose last group is padded. */
uint32_t format_block_cols(const struct shape *s);

/* ---- sizes ---- */

/* Whether these rows and cols are accepted; every byte count below then fits in 63 bits. */
bool format_fits(uint64_t rows, uint64_t cols);
/* Whether every function of kernels/ may be called with this shape: accepted rows and cols, whole
 * blocks, and a group and a type of norms that the format has. No other function checks this
 * again. */
bool format_shape_fits(const struct shape *s);

static inline size_t format_norm_type_bytes(enum norm_type norms)
{
	return norms == NORM_F32 ? 4 : 2;
}
/* Canonical bytes of the weights, of the scales and of the biases; 0 if the format has none. */
size_t format_packed_bytes(const struct shape *s);
size_t format_norm_bytes(const struct shape *s);
size_t format_bias_bytes(const struct shape *s);
/* Element i of an array of norms, which may be unaligned. */
float format_norm_at(const void *norms, size_t i, enum norm_type type);

/* ---- into memory (format_arrange.c) ---- */

/* Bytes of the arranged matrix, a multiple of 64. */
size_t format_arranged_bytes(const struct shape *s);
/* Arranges rows [row0, row0 + rows) of a canonical matrix in dst, the start of the whole arranged
 * matrix. row0 is a multiple of TILE_ROWS, and so is rows unless it reaches the end. `from` has the
 * canonical bytes from row0 on, which may be unaligned. */
void format_arrange(void *dst, const struct shape *s, uint32_t row0, uint32_t rows,
		    const struct pieces *from);

/* ---- as floats (format_floats.c) ---- */

/* Converts row 0 of the canonical bytes to floats: out[cols]. The bytes of a float format may lie
 * at the end of out itself: each is read before it is overwritten. */
void format_dequantise_row(float *out, const struct shape *s, const struct pieces *from);
/* Whether the canonical bytes of a whole matrix have no NaN, no infinity and no scale above 1e30,
 * whose multiples might be infinite. In formats with codes only the scales are read. */
bool format_is_finite(const struct shape *s, const struct pieces *from);

/* ---- 16-bit floats (f16_bf16.c), rounded to nearest even ---- */

float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f);
float bf16_to_f32(uint16_t b);
uint16_t bf16_from_f32(float f);
/* Converts n floats; row may lie at the end of out itself. */
void f16_row_to_f32(float *out, const void *row, size_t n);
void bf16_row_to_f32(float *out, const void *row, size_t n);

#endif
