/* The body of the NEON products of TQ matrices, with and without dot product instructions.
 *
 * A slab's planes are registers of 4 rows whose 32-bit lanes are rows. They become registers of
 * codes, for four columns each, and each of these meets one 32-bit word of the input in all lanes
 * at once. Codes are made in pairs, of the indices 2j and 2j + 1 of each unit, for 8 bytes of the
 * input. What the two instruction sets do differently the file that includes this one defines: how
 * codes meet an input, and in how many registers the sums of 4 rows lie.
 *
 * One token is multiplied as the codes are made. For several, codes of a tile (one group of 16
 * rows) are made once and kept in the first-level cache, and blocks of at most 8 tokens are
 * multiplied by them; 16 registers of sums, the codes and an input stay in registers.
 */
#ifndef MOEFS_KERNELS_NEON_TQ_H
#define MOEFS_KERNELS_NEON_TQ_H

#include "kernels/neon.h"
#include "kernels/tq.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* of registers of codes for 4 rows */
	PAIRS = SLABS * SLAB_PAIRS,
	QUARTERS = TILE_ROWS / NEON_LANES, /* a plane's registers of rows */
	BLOCK_TOKENS = 8,		   /* multiplied together */
	TILE_TOKENS = 64,		   /* share one making of codes */
	/* Quarters that a block of tokens is multiplied by at once. SUM_PARTS, 1 or 2, is the
	 * number of registers of sums of a quarter, defined by whoever includes this. */
	BLOCK_QUARTERS = 2 / SUM_PARTS,
};

struct codes {
	int8x16_t even, odd;
};
/* Of 4 rows. */
struct sums {
	int32x4_t part[SUM_PARTS];
};
/* To be defined by whoever includes this.
 * sums += codes.even[4][4] · q[0 … 3] + codes.odd[4][4] · q[4 … 7] */
ALWAYS_INLINE struct sums add_products(struct sums sums, struct codes codes, int8x8_t q);
/* A lane for each row. */
ALWAYS_INLINE int32x4_t total(struct sums sums);

/* ---- making codes ---- */

/* Index i (0 … 7) of each unit in the lower bits of each byte; `planes` is a slab's first one, at
 * the rows in question. Shifts move bytes, not words as on x86, so bits of a neighbour never get
 * in; but there are none by 0 or 8. i and bits are constants where this is inlined, here and below.
 */
ALWAYS_INLINE uint8x16_t indices(const uint8_t *planes, size_t i, size_t bits)
{
	const size_t plane = i * bits / 8, shift = i * bits % 8, here = 8 - shift;
	const uint8x16_t all = vld1q_u8(planes + plane * PLANE_BYTES);
	const uint8x16_t mask = vdupq_n_u8((uint8_t)((1 << bits) - 1));
	const uint8x16_t low = shift ? vshlq_u8(all, vdupq_n_s8(-(int8_t)shift)) : all;

	if (here == bits)
		return low;
	if (here > bits)
		return vandq_u8(low, mask);
	const uint8x16_t high = vld1q_u8(planes + (plane + 1) * PLANE_BYTES);
	return vandq_u8(vorrq_u8(low, vshlq_u8(high, vdupq_n_s8((int8_t)here))), mask);
}

/* A pair of a slab, for the 4 rows of a quarter. */
ALWAYS_INLINE struct codes make_codes(const uint8_t *slab, size_t quarter, size_t pair,
				      int8x16_t codebook, uint32_t bits)
{
	const uint8_t *planes = slab + quarter * (PLANE_BYTES / QUARTERS);
	return (struct codes){vqtbl1q_s8(codebook, indices(planes, 2 * pair, bits)),
			      vqtbl1q_s8(codebook, indices(planes, 2 * pair + 1, bits))};
}

/* Its levels, and after them anything. */
ALWAYS_INLINE int8x16_t load_codebook(uint32_t bits)
{
	return vld1q_s8(tq_codebook(bits)->integer);
}

/* ---- one tile ---- */

/* The norms of 4 rows. */
ALWAYS_INLINE float32x4_t load_norms(const uint8_t *norms, size_t quarter, enum norm_type type)
{
	const size_t row = quarter * NEON_LANES;

	return type == NORM_F16
		       ? f16_to_f32_4(vld1_u16((const uint16_t *)(const void *)norms + row))
		       : vld1q_f32((const float *)(const void *)norms + row);
}

/* y[4] = fmaf((float)I, norm · a, y[4]) */
ALWAYS_INLINE void finish_sums(float *y, struct sums sums, float32x4_t norms, float a)
{
	const float32x4_t factor = vmulq_f32(norms, vdupq_n_f32(a));
	vst1q_f32(y, vfmaq_f32(vld1q_f32(y), vcvtq_f32_s32(total(sums)), factor));
}

/* One token: codes are used as they are made. */
ALWAYS_INLINE void multiply_one(float y[TILE_ROWS], const uint8_t *tile, const int8_t *q, float a,
				enum norm_type norms, int8x16_t codebook, uint32_t bits)
{
	struct sums sums[QUARTERS] = {{{{0}}}};

	for (size_t slab = 0; slab < SLABS; slab++) {
		const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
#pragma GCC unroll 4
		for (size_t pair = 0; pair < SLAB_PAIRS; pair++, q += TQ_UNIT) {
			const int8x8_t eight = vld1_s8(q);
			for (size_t i = 0; i < QUARTERS; i++)
				sums[i] = add_products(sums[i],
						       make_codes(planes, i, pair, codebook, bits),
						       eight);
		}
	}
	for (size_t i = 0; i < QUARTERS; i++)
		finish_sums(y + i * NEON_LANES, sums[i],
			    load_norms(tile + tq_slabs_bytes(bits), i, norms), a);
}

/* Codes of one tile. */
struct unpacked {
	struct codes codes[QUARTERS][PAIRS];
	float32x4_t norms[QUARTERS];
};

ALWAYS_INLINE void unpack(struct unpacked *to, const uint8_t *tile, enum norm_type norms,
			  int8x16_t codebook, uint32_t bits)
{
	for (size_t slab = 0; slab < SLABS; slab++)
#pragma GCC unroll 4
		for (size_t pair = 0; pair < SLAB_PAIRS; pair++)
			for (size_t i = 0; i < QUARTERS; i++)
				to->codes[i][slab * SLAB_PAIRS + pair] = make_codes(
					tile + slab * tq_slab_bytes(bits), i, pair, codebook, bits);
	for (size_t i = 0; i < QUARTERS; i++)
		to->norms[i] = load_norms(tile + tq_slabs_bytes(bits), i, norms);
}

/* One group of a block of tokens. */
struct block {
	const int8_t *q[BLOCK_TOKENS];
	float a[BLOCK_TOKENS]; /* scale · gain */
	float (*y)[TILE_ROWS];
};

/* BLOCK_QUARTERS quarters from the first; count is a constant where this is inlined, so that the
 * sums stay in registers. */
ALWAYS_INLINE void multiply_quarters(const struct block *b, const struct unpacked *w, size_t first,
				     size_t count)
{
	struct sums sums[BLOCK_TOKENS][BLOCK_QUARTERS];

	for (size_t t = 0; t < count; t++)
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			sums[t][i] = (struct sums){{{0}}};
	for (size_t pair = 0; pair < PAIRS; pair++) {
		struct codes codes[BLOCK_QUARTERS];
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			codes[i] = w->codes[first + i][pair];
		for (size_t t = 0; t < count; t++) {
			const int8x8_t eight = vld1_s8(b->q[t] + pair * TQ_UNIT);
			for (size_t i = 0; i < BLOCK_QUARTERS; i++)
				sums[t][i] = add_products(sums[t][i], codes[i], eight);
		}
	}
	for (size_t t = 0; t < count; t++)
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			finish_sums(b->y[t] + (first + i) * NEON_LANES, sums[t][i],
				    w->norms[first + i], b->a[t]);
}

static void multiply_block(const struct block *b, const struct unpacked *w, size_t count)
{
	for (size_t first = 0; first < QUARTERS; first += BLOCK_QUARTERS) {
#define CASE(n)                                    \
	case n:                                    \
		multiply_quarters(b, w, first, n); \
		break;
		switch (count) {
			CASES_TO_8(CASE)
		}
#undef CASE
	}
}

/* ---- products ---- */

/* One call's operands, and what follows from them. */
struct product {
	const struct input *x;
	const uint32_t *tokens; /* NULL: 0, 1 … */
	size_t first, count;	/* of the tokens at hand, at most TILE_TOKENS */
	size_t groups;
	enum norm_type norms;
	float gain;
};

ALWAYS_INLINE size_t input_group(const struct product *p, size_t t, size_t g)
{
	return (p->tokens ? p->tokens[p->first + t] : p->first + t) * p->groups + g;
}

/* One tile by all tokens at hand, in blocks of as equal a size as can be. */
ALWAYS_INLINE void multiply_tile(float y[][TILE_ROWS], const uint8_t *tile, const struct product *p,
				 size_t g, int8x16_t codebook, uint32_t bits)
{
	struct unpacked w;
	size_t t = 0;

	unpack(&w, tile, p->norms, codebook, bits);
	for (size_t left = (p->count + BLOCK_TOKENS - 1) / BLOCK_TOKENS; left > 0; left--) {
		const size_t count = (p->count - t + left - 1) / left;
		struct block b = {.y = y + t};
		for (size_t i = 0; i < count; i++, t++) {
			const size_t at = input_group(p, t, g);
			b.q[i] = p->x->q + at * TQ_GROUP;
			b.a[i] = p->x->scale[at] * p->gain;
		}
		multiply_block(&b, &w, count);
	}
}

/* 16 rows by all tokens at hand: y[t][16]. */
ALWAYS_INLINE void multiply_rows(float y[][TILE_ROWS], const uint8_t *tile, size_t tile_bytes,
				 const struct product *p, int8x16_t codebook, uint32_t bits)
{
	for (size_t g = 0; g < p->groups; g++, tile += tile_bytes) {
		if (p->count > 1) {
			multiply_tile(y, tile, p, g, codebook, bits);
			continue;
		}
		const size_t at = input_group(p, 0, g);
		multiply_one(y[0], tile, p->x->q + at * TQ_GROUP, p->x->scale[at] * p->gain,
			     p->norms, codebook, bits);
	}
}

ALWAYS_INLINE void multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			       uint32_t row1, const struct input *x, const uint32_t *tokens,
			       size_t n, uint32_t bits)
{
	const int8x16_t codebook = load_codebook(bits);
	struct product p = {
		.x = x,
		.tokens = tokens,
		.groups = tq_groups(x->k),
		.norms = w->shape.norms,
		.gain = tq_codebook(bits)->gain,
	};
	const size_t tile_bytes = tq_tile_bytes(bits, p.norms);

	for (; p.first < n; p.first += p.count) {
		p.count = n - p.first < TILE_TOKENS ? n - p.first : TILE_TOKENS;
		for (uint32_t r = row0; r < row1; r += TILE_ROWS) {
			const uint8_t *tile = w->data;
			const size_t rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;
			float sums[TILE_TOKENS][TILE_ROWS];

			memset(sums, 0, p.count * sizeof sums[0]);
			tile += r / TILE_ROWS * p.groups * tile_bytes;
			multiply_rows(sums, tile, tile_bytes, &p, codebook, bits);
			for (size_t t = 0; t < p.count; t++)
				memcpy(y + (p.first + t) * ldy + r, sums[t], rows * sizeof(float));
		}
	}
}

#endif
