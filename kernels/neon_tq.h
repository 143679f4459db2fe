/* The NEON products of TQ and TC matrices, with dot product instructions (NEON_DOT) and without;
 * included once by neon_tq.c and by neondot_tq.c.
 *
 * A slab's planes are registers of 4 rows whose 32-bit lanes are rows. They become registers of
 * codes, for four columns each, and each of these meets one 32-bit word of the input in all lanes
 * at once. Codes are made in pairs, of the indices 2j and 2j + 1 of each unit, for 8 bytes of the
 * input: TQ with one table lookup each, TC with two.
 *
 * One token is multiplied as the codes are made. For several tokens, the codes of a tile (one group
 * of 16 rows) are made once and kept in the first-level cache, and blocks of at most 8 tokens are
 * multiplied by them; 16 registers of sums, the codes and an input stay in registers.
 *
 * Inlining makes `bits`, `trellis` (whether the format is TC) and the numbers of units and pairs
 * constants.
 */
#ifndef MOEFS_KERNELS_NEON_TQ_H
#define MOEFS_KERNELS_NEON_TQ_H

#include "kernels/neon_lanes.h"
#include "kernels/tq_product.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* pairs of registers of codes, for 4 rows */
	PAIRS = SLABS * SLAB_PAIRS,
	QUARTERS = TILE_ROWS / LANES, /* a plane's registers of rows */
	BLOCK_TOKENS = 8,	      /* tokens multiplied together */
	TILE_TOKENS = 64,	      /* most tokens that share codes */
/* Registers of sums per quarter, and quarters that a block of tokens meets at once. */
#ifdef NEON_DOT
	SUM_PARTS = 1,
#else
	SUM_PARTS = 2, /* rows 0 and 1, rows 2 and 3 */
#endif
	BLOCK_QUARTERS = 2 / SUM_PARTS,
};

/* ---- codes times an input ---- */

/* Codes of 4 rows and a pair. */
struct neon_codes {
	int8x16_t even, odd;
};
/* Sums of 4 rows. */
struct neon_sums {
	int32x4_t part[SUM_PARTS];
};

/* neon_add_products: sums += codes.even[4][4] · q[0 … 3] + codes.odd[4][4] · q[4 … 7]. */
#ifdef NEON_DOT
/* Adds four products of bytes to each 32-bit lane. */
ALWAYS_INLINE struct neon_sums neon_add_products(struct neon_sums sums, struct neon_codes codes,
						 int8x8_t q)
{
	const int32x4_t even = vdotq_lane_s32(sums.part[0], codes.even, q, 0);
	return (struct neon_sums){{vdotq_lane_s32(even, codes.odd, q, 1)}};
}

/* Returns a lane for each row. */
ALWAYS_INLINE int32x4_t neon_total(struct neon_sums sums)
{
	return sums.part[0];
}
#else
/* Products of an even and of an odd column are summed in 16 bits, at most 2 · 127 · 114 in
 * magnitude. Pairs of such sums are then added to the 32-bit sums. So a row has two lanes, which
 * are added at the end of the group. */
ALWAYS_INLINE struct neon_sums neon_add_products(struct neon_sums sums, struct neon_codes codes,
						 int8x8_t q)
{
	const int32x2_t two = vreinterpret_s32_s8(q);
	const int8x16_t even = vreinterpretq_s8_s32(vdupq_lane_s32(two, 0));
	const int8x16_t odd = vreinterpretq_s8_s32(vdupq_lane_s32(two, 1));
	int16x8_t low = vmull_s8(vget_low_s8(codes.even), vget_low_s8(even));
	int16x8_t high = vmull_high_s8(codes.even, even);

	low = vmlal_s8(low, vget_low_s8(codes.odd), vget_low_s8(odd));
	high = vmlal_high_s8(high, codes.odd, odd);
	return (struct neon_sums){
		{vpadalq_s16(sums.part[0], low), vpadalq_s16(sums.part[1], high)},
	};
}

ALWAYS_INLINE int32x4_t neon_total(struct neon_sums sums)
{
	return vpaddq_s32(sums.part[0], sums.part[1]);
}
#endif

/* ---- codes of indices ---- */

struct neon_maker {
	int8x16_t codebook;			      /* TQ: the levels, then undefined bytes */
	int8x16_t newest[TC_TURNS], before[TC_TURNS]; /* TC: tables for rotated nibbles */
	/* TC: nibbles of the two previous positions, in the 4 rows of each quarter. */
	uint8x16_t nibbles[QUARTERS][TC_MOST_BACK];
};

/* Index i (0 … 7) of each unit in the lower bits of each byte; `planes` is a slab's first plane, at
 * the given rows. Shifts work on bytes, not on words as on x86, so no bits of a neighbour get in;
 * but there are no shifts by 0 or 8. Inlining makes i and bits constants. */
ALWAYS_INLINE uint8x16_t neon_indices(const uint8_t *planes, size_t i, size_t bits)
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

/* Shifts right by 0 … 7; the intrinsic for constants does not accept 0. */
ALWAYS_INLINE uint8x16_t neon_shifted(uint8x16_t v, size_t by)
{
	return by ? vshlq_u8(v, vdupq_n_s8(-(int8_t)by)) : v;
}

ALWAYS_INLINE uint8x16_t neon_bare_nibbles(uint8x16_t v, size_t shift)
{
	return vandq_u8(neon_shifted(v, shift), vdupq_n_u8(15));
}

/* The plane before a tile's first is its last, with each row's four bytes rotated by one. */
ALWAYS_INLINE void neon_begin_ring(struct neon_maker *m, const uint8_t *tile, uint32_t bits)
{
	const uint8_t *last = tile + tq_slabs_bytes(bits) - PLANE_BYTES;

	for (size_t i = 0; i < QUARTERS; i++) {
		const uint32x4_t rows =
			vreinterpretq_u32_u8(vld1q_u8(last + i * (PLANE_BYTES / QUARTERS)));
		const uint8x16_t before =
			vreinterpretq_u8_u32(vsliq_n_u32(vshrq_n_u32(rows, 24), rows, 8));
		for (size_t j = 0; j < tc_back(bits); j++)
			m->nibbles[i][j] = neon_bare_nibbles(before, 4 - j * bits);
	}
}

/* The nibble of position i of each unit of 4 rows, whose first plane begins at `planes`; `before`
 * is the previous position's. */
ALWAYS_INLINE uint8x16_t neon_nibbles_at(const uint8_t *planes, size_t i, uint8x16_t before,
					 size_t bits)
{
	const uint8_t *plane = planes + ((i + 1) * bits - 1) / 8 * PLANE_BYTES;
	const size_t turn = tc_turn(i, bits);
	const uint8x16_t v = vld1q_u8(plane);

	if (!turn)
		return neon_bare_nibbles(v, tc_bits_here(i, bits) - 4);
	const uint8x16_t older =
		tc_follows_byte(i, bits) ? before : neon_shifted(vld1q_u8(plane - PLANE_BYTES), 4);
	return vbslq_u8(vdupq_n_u8((uint8_t)((1 << turn) - 1)), v, older);
}

ALWAYS_INLINE int8x16_t neon_make_code(struct neon_maker *m, const uint8_t *planes, size_t quarter,
				       size_t i, uint32_t bits)
{
	uint8x16_t *before = m->nibbles[quarter];
	const uint8x16_t nibbles = neon_nibbles_at(planes, i, before[0], bits);
	const int8x16_t codes =
		vaddq_s8(vqtbl1q_s8(m->newest[tc_turn(i, bits)], nibbles),
			 vqtbl1q_s8(m->before[tc_turn_back(i, bits)], before[tc_back(bits) - 1]));

	before[1] = before[0];
	before[0] = nibbles;
	return codes;
}

/* Call before the first pair of a tile. */
ALWAYS_INLINE void neon_begin_tile(struct neon_maker *m, const uint8_t *tile, uint32_t bits,
				   bool trellis)
{
	if (trellis)
		neon_begin_ring(m, tile, bits);
}

/* Makes a pair of a slab, for the 4 rows of a quarter. Make all pairs of a tile in order. */
ALWAYS_INLINE struct neon_codes neon_make_codes(struct neon_maker *m, const uint8_t *slab,
						size_t quarter, size_t pair, uint32_t bits,
						bool trellis)
{
	const uint8_t *planes = slab + quarter * (PLANE_BYTES / QUARTERS);

	if (trellis) {
		const int8x16_t even = neon_make_code(m, planes, quarter, 2 * pair, bits);
		return (struct neon_codes){even,
					   neon_make_code(m, planes, quarter, 2 * pair + 1, bits)};
	}
	return (struct neon_codes){
		vqtbl1q_s8(m->codebook, neon_indices(planes, 2 * pair, bits)),
		vqtbl1q_s8(m->codebook, neon_indices(planes, 2 * pair + 1, bits))};
}

ALWAYS_INLINE int8x16_t neon_load_table(const int8_t table[16], size_t turn)
{
	int8_t turned[16];

	tc_turn_table(turned, table, turn, 0);
	return vld1q_s8(turned);
}

ALWAYS_INLINE void neon_make_maker(struct neon_maker *m, uint32_t bits, bool trellis)
{
	if (!trellis) {
		m->codebook = vld1q_s8(tq_codebook(bits)->integer);
		return;
	}
	const struct tc_codebook *book = tc_codebook(bits);
	for (size_t i = 0; i < TC_TURNS; i++) {
		m->newest[i] = neon_load_table(book->newest, i);
		m->before[i] = neon_load_table(book->before, i);
	}
}

/* ---- one tile ---- */

/* Loads the norms of 4 rows. */
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

/* Multiplies a tile by one token; codes are used as they are made. */
ALWAYS_INLINE void neon_multiply_one(float y[TILE_ROWS], const uint8_t *tile, const int8_t *q,
				     float a, enum norm_type norms, struct neon_maker *m,
				     uint32_t bits, bool trellis)
{
	struct neon_sums sums[QUARTERS] = {{{{0}}}};

	neon_begin_tile(m, tile, bits, trellis);
	for (size_t slab = 0; slab < SLABS; slab++) {
		const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
#pragma GCC unroll 4
		for (size_t pair = 0; pair < SLAB_PAIRS; pair++, q += TQ_UNIT) {
			const int8x8_t eight = vld1_s8(q);
			for (size_t i = 0; i < QUARTERS; i++)
				sums[i] = neon_add_products(
					sums[i], neon_make_codes(m, planes, i, pair, bits, trellis),
					eight);
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
			       struct neon_maker *m, uint32_t bits, bool trellis)
{
	neon_begin_tile(m, tile, bits, trellis);
	for (size_t slab = 0; slab < SLABS; slab++)
#pragma GCC unroll 4
		for (size_t pair = 0; pair < SLAB_PAIRS; pair++)
			for (size_t i = 0; i < QUARTERS; i++)
				to->codes[i][slab * SLAB_PAIRS + pair] =
					neon_make_codes(m, tile + slab * tq_slab_bytes(bits), i,
							pair, bits, trellis);
	for (size_t i = 0; i < QUARTERS; i++)
		to->norms[i] = neon_load_norms(tile + tq_slabs_bytes(bits), i, norms);
}

/* One group of a block of tokens. */
struct neon_token_block {
	const int8_t *q[BLOCK_TOKENS];
	float a[BLOCK_TOKENS]; /* scale · gain */
	float (*y)[TILE_ROWS];
};

/* Multiplies BLOCK_QUARTERS quarters from the first on. Inlining makes count a constant, so that
 * the sums stay in registers. */
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

/* Multiplies one tile by all tokens of the block, in parts of similar size. */
ALWAYS_INLINE void neon_multiply_tile(float y[][TILE_ROWS], const uint8_t *tile,
				      const struct tq_product *p, const struct neon_tokens *tokens,
				      size_t g, struct neon_maker *m, uint32_t bits, bool trellis)
{
	struct neon_unpacked w;
	size_t t = 0;

	neon_unpack(&w, tile, p->norms, m, bits, trellis);
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

/* Multiplies 16 rows by all tokens of the block: y[t][16]. */
ALWAYS_INLINE void neon_multiply_rows(float y[][TILE_ROWS], const uint8_t *tile,
				      const struct tq_product *p, const struct neon_tokens *tokens,
				      struct neon_maker *m, uint32_t bits, bool trellis)
{
	for (size_t g = 0; g < p->groups; g++, tile += p->tile_bytes) {
		if (tokens->count > 1) {
			neon_multiply_tile(y, tile, p, tokens, g, m, bits, trellis);
			continue;
		}
		const size_t at = neon_input_group(p, tokens, 0, g);
		neon_multiply_one(y[0], tile, p->x->q + at * TQ_GROUP, p->x->scale[at] * p->gain,
				  p->norms, m, bits, trellis);
	}
}

ALWAYS_INLINE void neon_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				    uint32_t row1, const struct input *x, const uint32_t *list,
				    size_t n, struct neon_maker *m, uint32_t bits, bool trellis)
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
					   m, bits, trellis);
			for (size_t t = 0; t < tokens.count; t++)
				memcpy(p.y + (tokens.first + t) * ldy + r, sums[t],
				       rows * sizeof(float));
		}
	}
}

#define MULTIPLY(name, bits, trellis)                                                             \
	void TABLE(multiply_##name)(float *y, size_t ldy, const struct matrix *w, uint32_t row0,  \
				    uint32_t row1, const struct input *x, const uint32_t *tokens, \
				    size_t n)                                                     \
	{                                                                                         \
		struct neon_maker m;                                                              \
		neon_make_maker(&m, bits, trellis);                                               \
		neon_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, bits, trellis);         \
	}
MULTIPLY(tq2, 2, false)
MULTIPLY(tq3, 3, false)
MULTIPLY(tq4, 4, false)
MULTIPLY(tc2, 2, true)
MULTIPLY(tc3, 3, true)
MULTIPLY(tc4, 4, true)
#undef MULTIPLY

#endif
