/* The body of the NEON products of TQ matrices, with and without dot product instructions.
 *
 * A unit holds 8 columns of 16 rows, and an input's 8 bytes for it the 4 even columns and then the
 * 4 odd ones. So 4 rows of a unit become two registers of codes, even and odd, whose 32-bit lanes
 * are rows, and each meets one 32-bit word of the input in all lanes at once. What the two
 * instruction sets do differently the file that includes this one defines: how codes meet an input,
 * and in how many registers the sums of 4 rows lie.
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
	UNITS = TQ_GROUP / TQ_UNIT,
	QUARTERS = TILE_ROWS / NEON_LANES, /* a unit's registers of rows */
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
/* Registers that hold constants while a matrix is multiplied. */
struct unpacker {
	int8x16_t even, odd;	 /* codebooks by even and by odd index; TQ2: by pairs of indices */
	uint8x16_t spread;	 /* TQ3: copies a row's bytes to where they are needed */
	int16x8_t first, second; /* TQ3: shifts of the 16-bit words that they make */
};

/* To be defined by whoever includes this.
 * sums += codes.even[4][4] · q[0 … 3] + codes.odd[4][4] · q[4 … 7] */
ALWAYS_INLINE struct sums add_products(struct sums sums, struct codes codes, int8x8_t q);
/* A lane for each row. */
ALWAYS_INLINE int32x4_t total(struct sums sums);

/* ---- making codes, of the 4 rows that begin at p ---- */

/* A row's 2 bytes: 4 bits with two indices each, spread to 4 bytes. Of the 16 bytes read 8 are
 * used; the rest of the last read of a tile falls on its norms. */
ALWAYS_INLINE struct codes codes_tq2(const uint8_t *p, const struct unpacker *u)
{
	const uint8x16_t rows = vld1q_u8(p);
	const uint8x16_t low = vandq_u8(rows, vdupq_n_u8(15)), high = vshrq_n_u8(rows, 4);
	const uint8x16_t pairs = vzip1q_u8(low, high);
	return (struct codes){vqtbl1q_s8(u->even, pairs), vqtbl1q_s8(u->odd, pairs)};
}

/* A row's 3 bytes b0 b1 b2 become the 16-bit words b0b1 and b1b2, in which the pairs of indices
 * begin at bits 0 and 6, 4 and 10. Of the 16 bytes read 12 are used; the rest of the last read of a
 * tile falls on its norms. */
ALWAYS_INLINE struct codes codes_tq3(const uint8_t *p, const struct unpacker *u)
{
	const uint16x8_t words = vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(p), u->spread));
	const uint8x16_t first = vreinterpretq_u8_u16(vshlq_u16(words, u->first));
	const uint8x16_t second = vreinterpretq_u8_u16(vshlq_u16(words, u->second));
	const uint8x16_t pairs = vtrn1q_u8(first, second); /* the low byte of each word */
	const uint8x16_t mask = vdupq_n_u8(7);
	return (struct codes){vqtbl1q_s8(u->even, vandq_u8(pairs, mask)),
			      vqtbl1q_s8(u->odd, vandq_u8(vshrq_n_u8(pairs, 3), mask))};
}

/* A row's 4 bytes, each an even and an odd index. */
ALWAYS_INLINE struct codes codes_tq4(const uint8_t *p, const struct unpacker *u)
{
	const uint8x16_t pairs = vld1q_u8(p);
	return (struct codes){vqtbl1q_s8(u->even, vandq_u8(pairs, vdupq_n_u8(15))),
			      vqtbl1q_s8(u->odd, vshrq_n_u8(pairs, 4))};
}

/* bits is a constant where this is inlined, here and below. */
ALWAYS_INLINE struct codes make_codes(const uint8_t *p, const struct unpacker *u, uint32_t bits)
{
	return bits == 2 ? codes_tq2(p, u) : bits == 3 ? codes_tq3(p, u) : codes_tq4(p, u);
}

static struct unpacker make_unpacker(uint32_t bits)
{
	static const uint8_t spread[16] = {0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11};
	static const int16_t shifts[8] = {0, -4, 0, -4, 0, -4, 0, -4};
	const struct tq_codebook *book = tq_codebook(bits);
	int8_t even[16], odd[16];

	for (size_t i = 0; i < 16; i++) {
		even[i] = book->integer[i % book->levels];
		odd[i] = bits == 2 ? book->integer[i / book->levels] : even[i];
	}
	const int16x8_t first = vld1q_s16(shifts);
	return (struct unpacker){
		.even = vld1q_s8(even),
		.odd = vld1q_s8(odd),
		.spread = vld1q_u8(spread),
		.first = first,
		.second = vsubq_s16(first, vdupq_n_s16(6)),
	};
}

/* ---- one tile ---- */

ALWAYS_INLINE size_t quarter_bytes(uint32_t bits)
{
	return (size_t)NEON_LANES * bits;
}

ALWAYS_INLINE size_t units_bytes(uint32_t bits)
{
	return (size_t)UNITS * TILE_ROWS * bits;
}

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
				enum norm_type norms, const struct unpacker *u, uint32_t bits)
{
	struct sums sums[QUARTERS] = {{{{0}}}};

	for (size_t unit = 0; unit < UNITS; unit++) {
		const int8x8_t eight = vld1_s8(q + unit * TQ_UNIT);
		for (size_t i = 0; i < QUARTERS; i++) {
			const uint8_t *p = tile + (unit * QUARTERS + i) * quarter_bytes(bits);
			sums[i] = add_products(sums[i], make_codes(p, u, bits), eight);
		}
	}
	for (size_t i = 0; i < QUARTERS; i++)
		finish_sums(y + i * NEON_LANES, sums[i],
			    load_norms(tile + units_bytes(bits), i, norms), a);
}

/* Codes of one tile. */
struct unpacked {
	struct codes codes[QUARTERS][UNITS];
	float32x4_t norms[QUARTERS];
};

ALWAYS_INLINE void unpack(struct unpacked *to, const uint8_t *tile, enum norm_type norms,
			  const struct unpacker *u, uint32_t bits)
{
	for (size_t unit = 0; unit < UNITS; unit++)
		for (size_t i = 0; i < QUARTERS; i++)
			to->codes[i][unit] = make_codes(
				tile + (unit * QUARTERS + i) * quarter_bytes(bits), u, bits);
	for (size_t i = 0; i < QUARTERS; i++)
		to->norms[i] = load_norms(tile + units_bytes(bits), i, norms);
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
	for (size_t unit = 0; unit < UNITS; unit++) {
		struct codes codes[BLOCK_QUARTERS];
		for (size_t i = 0; i < BLOCK_QUARTERS; i++)
			codes[i] = w->codes[first + i][unit];
		for (size_t t = 0; t < count; t++) {
			const int8x8_t eight = vld1_s8(b->q[t] + unit * TQ_UNIT);
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
			CASE(1)
			CASE(2)
			CASE(3)
			CASE(4)
			CASE(5)
			CASE(6)
			CASE(7)
			CASE(8)
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
				 size_t g, const struct unpacker *u, uint32_t bits)
{
	struct unpacked w;
	size_t t = 0;

	unpack(&w, tile, p->norms, u, bits);
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
				 const struct product *p, const struct unpacker *u, uint32_t bits)
{
	for (size_t g = 0; g < p->groups; g++, tile += tile_bytes) {
		if (p->count > 1) {
			multiply_tile(y, tile, p, g, u, bits);
			continue;
		}
		const size_t at = input_group(p, 0, g);
		multiply_one(y[0], tile, p->x->q + at * TQ_GROUP, p->x->scale[at] * p->gain,
			     p->norms, u, bits);
	}
}

ALWAYS_INLINE void multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			       uint32_t row1, const struct input *x, const uint32_t *tokens,
			       size_t n, uint32_t bits)
{
	const struct unpacker u = make_unpacker(bits);
	struct product p = {
		.x = x,
		.tokens = tokens,
		.groups = tq_groups(x->k),
		.norms = w->shape.norms,
		.gain = tq_codebook(bits)->gain,
	};
	const size_t norm_bytes = p.norms == NORM_F16 ? 2 : 4;
	const size_t tile_bytes = units_bytes(bits) + TILE_ROWS * norm_bytes;

	for (; p.first < n; p.first += p.count) {
		p.count = n - p.first < TILE_TOKENS ? n - p.first : TILE_TOKENS;
		for (uint32_t r = row0; r < row1; r += TILE_ROWS) {
			const uint8_t *tile = w->data;
			const size_t rows = row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS;
			float sums[TILE_TOKENS][TILE_ROWS];

			memset(sums, 0, p.count * sizeof sums[0]);
			tile += r / TILE_ROWS * p.groups * tile_bytes;
			multiply_rows(sums, tile, tile_bytes, &p, &u, bits);
			for (size_t t = 0; t < p.count; t++)
				memcpy(y + (p.first + t) * ldy + r, sums[t], rows * sizeof(float));
		}
	}
}

#endif
