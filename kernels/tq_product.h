/* One call of multiply for a TQ or TC matrix on x86, shared by the AVX2 and the AVX-512 tables;
 * within kernels/ only. */
#ifndef MOEFS_KERNELS_TQ_PRODUCT_H
#define MOEFS_KERNELS_TQ_PRODUCT_H

#include "kernels/kernels.h"
#include "kernels/tc.h"

/* The factor of a code in addition to its norm. */
static inline float tq_gain_of(enum format f)
{
	const uint32_t bits = format_tq_bits(f);
	return format_is_trellis(f) ? tc_codebook(bits)->gain : tq_codebook(bits)->gain;
}

/* The operands, and values derived from them. */
struct tq_product {
	const struct input *x;
	const uint8_t *w; /* the first block of rows */
	size_t groups, tile_bytes, block_bytes;
	float *y; /* of the first row */
	size_t ldy;
	uint32_t rows;
	enum norm_type norms;
	float gain;
};

static inline struct tq_product tq_product_of(float *y, size_t ldy, const struct matrix *w,
					      uint32_t row0, uint32_t row1, const struct input *x)
{
	const uint32_t bits = format_tq_bits(w->shape.format);
	struct tq_product p = {
		.x = x,
		.groups = tq_groups(x->k),
		.tile_bytes = tq_tile_bytes(bits, w->shape.norms),
		.y = y + row0,
		.ldy = ldy,
		.rows = row1 - row0,
		.norms = w->shape.norms,
		.gain = tq_gain_of(w->shape.format),
	};
	p.block_bytes = p.groups * p.tile_bytes;
	p.w = (const uint8_t *)w->data + row0 / TILE_ROWS * p.block_bytes;
	return p;
}

#endif
