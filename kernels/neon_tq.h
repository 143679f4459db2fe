/* The body of the NEON products of TQ and TC matrices, with and without dot product instructions.
 *
 * A slab's planes are registers of 4 rows whose 32-bit lanes are rows. They become registers of
 * codes, for four columns each, and each of these meets one 32-bit word of the input in all lanes
 * at once. Codes are made in pairs, of the indices 2j and 2j + 1 of each unit, for 8 bytes of the
 * input. How codes are made of planes neon_tq_codes.h and neon_tc_codes.h say; how they meet an
 * input, and in how many registers the sums of 4 rows lie, neon_sums.h and neondot_sums.h.
 *
 * One token is multiplied as the codes are made. For several, codes of a tile (one group of 16
 * rows) are made once and kept in the first-level cache, and blocks of at most 8 tokens are
 * multiplied by them; 16 registers of sums, the codes and an input stay in registers.
 */
#ifndef MOEFS_KERNELS_NEON_TQ_H
#define MOEFS_KERNELS_NEON_TQ_H

#include "kernels/neon_lanes.h"
#include "kernels/tq_product.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* of registers of codes for 4 rows */
	PAIRS = SLABS * SLAB_PAIRS,
	QUARTERS = TILE_ROWS / LANES, /* a plane's registers of rows */
	BLOCK_TOKENS = 8,	      /* multiplied together */
	TILE_TOKENS = 64,	      /* share one making of codes */
	/* Quarters that a block of tokens is multiplied by at once. SUM_PARTS, 1 or 2, is the
	 * number of registers of sums of a quarter, defined by neon_sums.h or neondot_sums.h. */
	BLOCK_QUARTERS = 2 / SUM_PARTS,
};

struct neon_codes {
	int8x16_t even, odd;
};
/* Of 4 rows. */
struct neon_sums {
	int32x4_t part[SUM_PARTS];
};
/* What makes codes: codebooks, and what it has to know of the codes before. */
struct neon_maker;
ALWAYS_INLINE void neon_begin_tile(struct neon_maker *m, const uint8_t *tile, uint32_t bits);
/* A pair of a slab, for the 4 rows of a quarter: of a tile all of them, one after the other. pair
 * and bits are constants where this is inlined, here and below. */
ALWAYS_INLINE struct neon_codes neon_make_codes(struct neon_maker *m, const uint8_t *slab,
						size_t quarter, size_t pair, uint32_t bits);
/* sums += codes.even[4][4] · q[0 … 3] + codes.odd[4][4] · q[4 … 7] */
ALWAYS_INLINE struct neon_sums neon_add_products(struct neon_sums sums, struct neon_codes codes,
						 int8x8_t q);
/* A lane for each row. */
ALWAYS_INLINE int32x4_t neon_total(struct neon_sums sums);

/* ---- one tile ---- */

/* The norms of 4 rows. */
ALWAYS_INLINE float32x4_t neon_load_norms(const uint8_t *norms, size_t quarter, enum norm_type type)
{
	const size_t row = quarter * LANES;

	return type == NORM_F16 ? lanes_load_f16((const uint16_t *)(const void *)norms + row, LANES)
				: vld1q_f32((const float *)(const void *)norms + row);
}

/* y[4] = fmaf((float)I, norm · a, y[4]) */
ALWAYS_INLINE void neon_finish_sums(float *y, struct neon_sums sums, float32x4_t norms, float a)
{
	const float32x4_t factor = vmulq_f32(norms, vdupq_n_f32(a));
	vst1q_f32(y, vfmaq_f32(vld1q_f32(y), vcvtq_f32_s32(neon_total(sums)), factor));
}

/* One token: codes are used as they are made. */
ALWAYS_INLINE void neon_multiply_one(float y[TILE_ROWS], const uint8_t *tile, const int8_t *q,
				     float a, enum norm_type norms, struct neon_maker *m,
				     uint32_t bits)
{
	struct neon_sums sums[QUARTERS] = {{{{0}}}};

	neon_begin_tile(m, tile, bits);
	for (size_t slab = 0; slab < SLABS; slab++) {
		const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
#pragma GCC unroll 4
		for (size_t pair = 0; pair < SLAB_PAIRS; pair++, q += TQ_UNIT) {
			const int8x8_t eight = vld1_s8(q);
			for (size_t i = 0; i < QUARTERS; i++)
				sums[i] = neon_add_products(
					sums[i], neon_make_codes(m, planes, i, pair, bits), eight);
		}
	}
	for (size_t i = 0; i < QUARTERS; i++)
		neon_finish_sums(y + i * LANES, sums[i],
				 neon_load_norms(tile + tq_slabs_bytes(bits), i, norms), a);
}

/* Codes of one tile. */
struct neon_unpacked {
	struct neon_codes codes[QUARTERS][PAIRS];
	float32x4_t norms[QUARTERS];
};

ALWAYS_INLINE void neon_unpack(struct neon_unpacked *to, const uint8_t *tile, enum norm_type norms,
			       struct neon_maker *m, uint32_t bits)
{
	neon_begin_tile(m, tile, bits);
	for (size_t slab = 0; slab < SLABS; slab++)
#pragma GCC unroll 4
		for (size_t pair = 0; pair < SLAB_PAIRS; pair++)
			for (size_t i = 0; i < QUARTERS; i++)
				to->codes[i][slab * SLAB_PAIRS + pair] = neon_make_codes(
					m, tile + slab * tq_slab_bytes(bits), i, pair, bits);
	for (size_t i = 0; i < QUARTERS; i++)
		to->norms[i] = neon_load_norms(tile + tq_slabs_bytes(bits), i, norms);
}

/* One group of a block of tokens. */
struct neon_token_block {
	const int8_t *q[BLOCK_TOKENS];
	float a[BLOCK_TOKENS]; /* scale · gain */
	float (*y)[TILE_ROWS];
};

/* BLOCK_QUARTERS quarters from the first; count is a constant where this is inlined, so that the
 * sums stay in registers. */
ALWAYS_INLINE void neon_multiply_quarters(const struct neon_token_block *b,
					  const struct neon_unpacked *w, size_t first, size_t count)
{
	struct neon_sums sums[BLOCK_TOKENS][BLOCK_QUARTERS];

	for (size_t t = 0; t < count; t++)
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			sums[t][i] = (struct neon_sums){{{0}}};
	for (size_t pair = 0; pair < PAIRS; pair++) {
		struct neon_codes codes[BLOCK_QUARTERS];
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			codes[i] = w->codes[first + i][pair];
		for (size_t t = 0; t < count; t++) {
			const int8x8_t eight = vld1_s8(b->q[t] + pair * TQ_UNIT);
			for (size_t i = 0; i < BLOCK_QUARTERS; i++)
				sums[t][i] = neon_add_products(sums[t][i], codes[i], eight);
		}
	}
	for (size_t t = 0; t < count; t++)
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			neon_finish_sums(b->y[t] + (first + i) * LANES, sums[t][i],
					 w->norms[first + i], b->a[t]);
}

static void neon_multiply_block(const struct neon_token_block *b, const struct neon_unpacked *w,
				size_t count)
{
	for (size_t first = 0; first < QUARTERS; first += BLOCK_QUARTERS) {
#define CASE(n)                                         \
	case n:                                         \
		neon_multiply_quarters(b, w, first, n); \
		break;
		switch (count) {
			CASES_TO_8(CASE)
		}
#undef CASE
	}
}

/* ---- products ---- */

/* Some tokens of one call, at most TILE_TOKENS. */
struct neon_tokens {
	const uint32_t *list; /* NULL: 0, 1 … */
	size_t first, count;
};

ALWAYS_INLINE size_t neon_input_group(const struct tq_product *p, const struct neon_tokens *tokens,
				      size_t t, size_t g)
{
	const size_t i = tokens->first + t;
	return (tokens->list ? tokens->list[i] : i) * p->groups + g;
}

/* One tile by all tokens at hand, in blocks of as equal a size as can be. */
ALWAYS_INLINE void neon_multiply_tile(float y[][TILE_ROWS], const uint8_t *tile,
				      const struct tq_product *p, const struct neon_tokens *tokens,
				      size_t g, struct neon_maker *m, uint32_t bits)
{
	struct neon_unpacked w;
	size_t t = 0;

	neon_unpack(&w, tile, p->norms, m, bits);
	for (size_t left = (tokens->count + BLOCK_TOKENS - 1) / BLOCK_TOKENS; left > 0; left--) {
		const size_t count = (tokens->count - t + left - 1) / left;
		struct neon_token_block b = {.y = y + t};
		for (size_t i = 0; i < count; i++, t++) {
			const size_t at = neon_input_group(p, tokens, t, g);
			b.q[i] = p->x->q + at * TQ_GROUP;
			b.a[i] = p->x->scale[at] * p->gain;
		}
		neon_multiply_block(&b, &w, count);
	}
}

/* 16 rows by all tokens at hand: y[t][16]. */
ALWAYS_INLINE void neon_multiply_rows(float y[][TILE_ROWS], const uint8_t *tile,
				      const struct tq_product *p, const struct neon_tokens *tokens,
				      struct neon_maker *m, uint32_t bits)
{
	for (size_t g = 0; g < p->groups; g++, tile += p->tile_bytes) {
		if (tokens->count > 1) {
			neon_multiply_tile(y, tile, p, tokens, g, m, bits);
			continue;
		}
		const size_t at = neon_input_group(p, tokens, 0, g);
		neon_multiply_one(y[0], tile, p->x->q + at * TQ_GROUP, p->x->scale[at] * p->gain,
				  p->norms, m, bits);
	}
}

ALWAYS_INLINE void neon_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				    uint32_t row1, const struct input *x, const uint32_t *list,
				    size_t n, struct neon_maker *m, uint32_t bits)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);
	struct neon_tokens tokens = {.list = list};

	for (; tokens.first < n; tokens.first += tokens.count) {
		const size_t left = n - tokens.first;
		tokens.count = left < TILE_TOKENS ? left : TILE_TOKENS;
		for (uint32_t r = 0; r < p.rows; r += TILE_ROWS) {
			const size_t rows = p.rows - r < TILE_ROWS ? p.rows - r : TILE_ROWS;
			float sums[TILE_TOKENS][TILE_ROWS];

			memset(sums, 0, tokens.count * sizeof sums[0]);
			neon_multiply_rows(sums, p.w + r / TILE_ROWS * p.block_bytes, &p, &tokens,
					   m, bits);
			for (size_t t = 0; t < tokens.count; t++)
				memcpy(p.y + (tokens.first + t) * ldy + r, sums[t],
				       rows * sizeof(float));
		}
	}
}

#endif
