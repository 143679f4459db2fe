/* Weight formats: how a matrix of weights lies on disk and how it lies in memory.
 *
 * On disk ("canonical") a matrix [rows, cols] is what README.md here and safetensors say: rows one
 * after the other, TQ formats as packed indices plus one norm per group of 128 columns.
 *
 * In memory ("arranged") it is laid out for the multiply kernels:
 *   16-bit and 32-bit floats   rows one after the other, as on disk;
 *   TQ    blocks of TILE_ROWS = 16 rows; in a block, group after group of 128 columns; in a group,
 *         four slabs of 32 columns, then the 16 norms (in their own type). A slab is `bits` planes
 *         of 64 bytes. Where the packed row has, for 8 columns, `bits` bytes with 8 indices (a
 *         unit), plane p has byte p of each of the slab's units: byte 4 · row + k is that of
 *         unit k.
 * Rows missing from the last block have zero indices and zero norms.
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
	FORMAT_COUNT
};
enum norm_type { NORM_F16, NORM_F32 }; /* type of a TQ group's norm */

enum { TQ_GROUP = 128, TILE_ROWS = 16, TQ_UNIT = 8 };
enum { TQ_SLAB = 32, SLAB_UNITS = TQ_SLAB / TQ_UNIT, PLANE_BYTES = TILE_ROWS * SLAB_UNITS };
enum { SLABS = TQ_GROUP / TQ_SLAB }; /* of a tile, which is one group of 16 rows */

struct shape {
	enum format format;
	enum norm_type norms; /* TQ only */
	uint32_t rows, cols;  /* cols is the input dimension */
};

struct matrix { /* an arranged matrix; does not own data */
	struct shape shape;
	const void *data; /* 64-byte aligned */
};

const char *format_name(enum format f); /* "bf16", "tq3" … */
static inline bool format_is_tq(enum format f)
{
	return f >= FORMAT_TQ2;
}
static inline uint32_t format_tq_bits(enum format f)
{
	return (uint32_t)(f - FORMAT_TQ2) + 2;
}
/* Groups per row: ceil(cols / 128). */
static inline size_t tq_groups(uint32_t cols)
{
	return ((size_t)cols + TQ_GROUP - 1) / TQ_GROUP;
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

/* Canonical bytes: weights (packed indices, or the floats) and norms (0 for floats). */
size_t format_packed_bytes(const struct shape *s);
size_t format_norm_bytes(const struct shape *s);
/* Bytes of the arranged matrix, a multiple of 64. */
size_t format_arranged_bytes(const struct shape *s);

/* Rearranges rows [row0, row0 + rows) of a canonical matrix into dst, the start of the whole
 * arranged matrix. row0 is a multiple of TILE_ROWS, and so is rows unless it reaches the end.
 * `packed` and `norms` are the canonical bytes of row0 onward (norms may be unaligned). */
void format_arrange(void *dst, const struct shape *s, uint32_t row0, uint32_t rows,
		    const void *packed, const void *norms);

/* Row 0 of the canonical bytes given, as floats: out[cols]. The bytes of a float format may lie at
 * the end of out itself: each is read before it is overwritten. */
void format_dequantise_row(float *out, const struct shape *s, const void *packed,
			   const void *norms);

/* Scalar conversions, round to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t b);
uint16_t f32_to_bf16(float f);

#endif
