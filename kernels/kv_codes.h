/* Keys and values as codes of 8 or 4 bits: their layout in a block, how they are quantised, and how
 * queries are converted to meet them. Within kernels/; the engine only asks for sizes. kernels.h
 * (attend, "codes") defines the computation.
 *
 * A head's keys and its values each have columns: the head's elements, then zeros up to a multiple
 * of 16. Columns are divided into parts of an equal power of two, at most 128. Each part has a
 * scale at each position. A latent and the rotated part after it are divided separately.
 *
 * A block has, for one head's keys and then for its values:
 *
 *     codes    8 bits: keys [column / 4][position][column % 4], code + 128; values
 *              [column / 16][position / 4][column % 16][position % 4], signed. So 4 products
 *              of bytes that one instruction adds up are neighbours, and codes that are read
 *              one after the other lie one after the other.
 *              4 bits: half as much. For keys, a byte's lower half is the code of a column whose
 *              (column / 4) is even, the upper half that of the column 4 later; for values, of a
 *              column of the first 8 of 16, and of the column 8 later. A byte never belongs to
 *              two positions.
 *     scales   [part][position], F16
 *     factors  4 bits only: [column / 32, or part if it is smaller][position], bytes
 *
 * The functions here are plain loops over arrays, compiled for each instruction set. Their results
 * do not depend on it, since no sum of floats is reordered. */
#ifndef MOEFS_KERNELS_KV_CODES_H
#define MOEFS_KERNELS_KV_CODES_H

#include "kernels/kernels.h"
#include "kernels/scalar.h"

#include <string.h>

enum {
	KV_CODES_PAD = 16,
	KV_CODES_PART = 128,
	KV_CODES_FINE = 32, /* columns that share a factor */
	KV_CODES_PARTS = KV_CODES_WIDEST / KV_CODES_PAD,
	KV_CODES_QUAD = 4,	/* adjacent columns of a key, or positions of a value */
	KV_CODES_OFFSET = 128,	/* added to codes of keys */
	KV_CODES_TOP = 127,	/* the largest code of 8 bits */
	KV_CODES_FACTOR = 8,	/* the largest factor */
	KV_CODES_FOUR_TOP = 15, /* the largest code of 4 bits, before its factor */
	KV_CODES_NAN = 0x7e00,	/* F16 */
};

/* Weights of positions are rounded to 14 bits, two digits of 7. */
enum { KV_DIGIT = 7, KV_WEIGHT_TOP = (1 << 2 * KV_DIGIT) - 1 };
#define KV_WEIGHT_LEAST 0x1p-100F /* smaller weights count as zeros */

struct kv_codes_part {
	uint32_t column, columns; /* columns: a power of two */
	uint32_t from, elements;  /* of the head; the columns after them are zeros */
};
struct kv_codes {
	bool four, rotated;
	uint32_t columns, parts;
	struct kv_codes_part part[KV_CODES_PARTS];
};

/* ---- shapes ---- */

static inline uint32_t kv_codes_padded(uint32_t elements)
{
	return (elements + KV_CODES_PAD - 1) / KV_CODES_PAD * KV_CODES_PAD;
}

static inline void kv_codes_add(struct kv_codes *c, uint32_t from, uint32_t elements)
{
	const uint32_t padded = kv_codes_padded(elements), power = padded & -padded;
	const uint32_t columns = power < KV_CODES_PART ? power : KV_CODES_PART;

	for (uint32_t at = 0; at < padded; at += columns) {
		const uint32_t left = elements - at;
		c->part[c->parts++] = (struct kv_codes_part){c->columns, columns, from + at,
							     left < columns ? left : columns};
		c->columns += columns;
	}
}

/* latent_dim: as in struct attention. */
static inline struct kv_codes kv_codes_of_keys(enum kv_type type, uint32_t head_dim,
					       uint32_t latent_dim)
{
	struct kv_codes c = {.four = type == KV_Q4, .rotated = true};

	if (latent_dim)
		kv_codes_add(&c, 0, latent_dim);
	if (latent_dim < head_dim)
		kv_codes_add(&c, latent_dim, head_dim - latent_dim);
	return c;
}

static inline struct kv_codes kv_codes_of_values(enum kv_type type, uint32_t head_dim)
{
	struct kv_codes c = {.four = type != KV_Q8};

	kv_codes_add(&c, 0, head_dim);
	return c;
}

/* The parts of a latent, which are the first parts of its keys. */
static inline struct kv_codes kv_codes_of_latents(enum kv_type type, uint32_t latent_dim)
{
	struct kv_codes c = {.four = type == KV_Q4, .rotated = true};

	kv_codes_add(&c, 0, latent_dim);
	return c;
}

/* Columns that share a factor: KV_CODES_FINE, or a smaller part. */
static inline uint32_t kv_codes_fine(const struct kv_codes *c)
{
	const uint32_t first = c->part[0].columns, last = c->part[c->parts - 1].columns;
	const uint32_t least = first < last ? first : last;

	return least < KV_CODES_FINE ? least : KV_CODES_FINE;
}

/* Offsets of the scales and of the factors, and the bytes of all of them in a block. */
static inline size_t kv_codes_scales(const struct kv_codes *c)
{
	return (size_t)c->columns * KV_BLOCK >> c->four;
}
static inline size_t kv_codes_factors(const struct kv_codes *c)
{
	return kv_codes_scales(c) + (size_t)c->parts * KV_BLOCK * sizeof(uint16_t);
}
static inline size_t kv_codes_bytes(const struct kv_codes *c)
{
	return kv_codes_factors(c) +
	       (c->four ? (size_t)c->columns / kv_codes_fine(c) * KV_BLOCK : 0);
}

/* ---- numbers ---- */

/* Rounds to nearest, ties to even; |x| < 2^22. */
static inline int32_t kv_codes_round(float x)
{
	const float shifted = x + EXP_ROUND;
	uint32_t bits;

	memcpy(&bits, &shifted, sizeof bits);
	return (int32_t)(bits - EXP_ROUND_BITS);
}

static inline int32_t kv_codes_clamp(int32_t x, int32_t low, int32_t high)
{
	x = x < low ? low : x;
	return x > high ? high : x;
}

/* Multiplies by the signs, then a Walsh-Hadamard transform without division. Each round adds and
 * subtracts elements n / 2 apart and makes each pair neighbours, so all rounds are alike. The last
 * round leaves all elements in natural order. */
static inline void kv_codes_transform(float *y, uint32_t n)
{
	float z[KV_CODES_PART];

	for (uint32_t round = 1; round < n; round *= 2) {
		for (uint32_t i = 0; i < n / 2; i++) {
			z[2 * i] = y[i] + y[i + n / 2];
			z[2 * i + 1] = y[i] - y[i + n / 2];
		}
		memcpy(y, z, n * sizeof *y);
	}
}

static inline void kv_codes_signs(float *y, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		y[i] *= tq_signs1[i];
}

/* Loads the elements of a part; rotates those of keys. */
static inline void kv_codes_take(float y[KV_CODES_PART], const struct kv_codes *c,
				 const struct kv_codes_part *p, const float *x)
{
	memset(y, 0, p->columns * sizeof *y);
	memcpy(y, x + p->from, p->elements * sizeof *y);
	if (c->rotated) {
		kv_codes_signs(y, p->columns);
		kv_codes_transform(y, p->columns);
	}
}

/* Rotates sums of latents back. A latent's parts have no padding. */
static inline void kv_codes_restore(float *y, const struct kv_codes *c)
{
	for (uint32_t g = 0; g < c->parts; g++, y += c->part[0].columns) {
		const uint32_t n = c->part[g].columns;
		kv_codes_transform(y, n);
		kv_codes_signs(y, n);
		for (uint32_t i = 0; i < n; i++)
			y[i] *= 1 / (float)n;
	}
}

/* ---- quantising ---- */

/* Returns scale = largest / top as F16, and 1 / scale in *inverse. *inverse is 0 if all codes must
 * be zeros, also for a part without a finite scale. */
static inline uint16_t kv_codes_scale(float largest, float top, float *inverse)
{
	const uint16_t half = f16_from_f32(largest / top);
	const float scale = f16_to_f32(half);
	const bool finite = isfinite(scale);

	*inverse = finite && scale > 0 ? 1 / scale : 0;
	return finite ? half : KV_CODES_NAN;
}

static inline void kv_codes_eight(int8_t *codes, const float *y, uint32_t n, float inverse)
{
	memset(codes, 0, n);
	for (uint32_t i = 0; i < n && inverse > 0; i++)
		codes[i] = (int8_t)kv_codes_clamp(kv_codes_round(y[i] * inverse), -KV_CODES_TOP,
						  KV_CODES_TOP);
}

/* The factor of some columns: the smallest one with which none is clipped. */
static inline uint8_t kv_codes_factor(float largest, float inverse)
{
	const float need = largest * inverse / KV_CODES_FOUR_TOP;
	const int32_t below = need < KV_CODES_FACTOR ? (int32_t)need : KV_CODES_FACTOR;

	return (uint8_t)(below + (need > (float)below && below < KV_CODES_FACTOR));
}

/* A code c of 4 bits means (2 c - 15) · factor · scale. */
static inline void kv_codes_four(int8_t *codes, uint8_t *factors, const float *y, uint32_t n,
				 uint32_t fine, float inverse)
{
	memset(codes, 0, n);
	for (uint32_t at = 0; at < n; at += fine, factors += KV_BLOCK) {
		const float largest = scalar_largest_magnitude(y + at, fine);
		*factors = inverse > 0 ? kv_codes_factor(largest, inverse) : 0;
		const float half = *factors ? inverse / (float)(2 * *factors) : 0;
		for (uint32_t i = at; i < at + fine && *factors; i++)
			codes[i] = (int8_t)kv_codes_clamp(
				kv_codes_round(fmaf(y[i], half, KV_CODES_FOUR_TOP / 2.0F)), 0,
				KV_CODES_FOUR_TOP);
	}
}

/* Quantises all columns of one position; puts its scales and factors into a block. */
static inline void kv_codes_quantise(int8_t *codes, uint8_t *block, const struct kv_codes *c,
				     uint32_t slot, const float *x)
{
	const uint32_t fine = kv_codes_fine(c);
	uint8_t *scales = block + kv_codes_scales(c) + slot * sizeof(uint16_t);
	uint8_t *factors = block + kv_codes_factors(c) + slot;

	for (uint32_t g = 0; g < c->parts; g++) {
		const struct kv_codes_part *p = &c->part[g];
		float y[KV_CODES_PART], inverse;
		kv_codes_take(y, c, p, x);
		const float top = c->four ? KV_CODES_FOUR_TOP * KV_CODES_FACTOR : KV_CODES_TOP;
		const uint16_t scale =
			kv_codes_scale(scalar_largest_magnitude(y, p->columns), top, &inverse);
		memcpy(scales + (size_t)g * KV_BLOCK * sizeof scale, &scale, sizeof scale);
		if (c->four)
			kv_codes_four(codes + p->column,
				      factors + (size_t)p->column / fine * KV_BLOCK, y, p->columns,
				      fine, inverse);
		else
			kv_codes_eight(codes + p->column, y, p->columns, inverse);
	}
}

/* Puts four adjacent codes of a key into a block. */
static inline void kv_codes_put_key(uint8_t *block, const struct kv_codes *c, uint32_t slot,
				    const float *key)
{
	int8_t codes[KV_CODES_WIDEST];
	uint8_t *to = block + (size_t)slot * KV_CODES_QUAD;
	const uint32_t step = c->four ? 2 * KV_CODES_QUAD : KV_CODES_QUAD;

	kv_codes_quantise(codes, block, c, slot, key);
	for (uint32_t d = 0; d < c->columns; d += step, to += KV_CODES_QUAD * KV_BLOCK)
		for (uint32_t i = 0; i < KV_CODES_QUAD; i++)
			to[i] = c->four ? (uint8_t)(codes[d + i] | codes[d + KV_CODES_QUAD + i]
									   << 4)
					: (uint8_t)(codes[d + i] + KV_CODES_OFFSET);
}

static inline void kv_codes_put_value(uint8_t *block, const struct kv_codes *c, uint32_t slot,
				      const float *value)
{
	int8_t codes[KV_CODES_WIDEST];
	const uint32_t columns = KV_CODES_PAD >> c->four; /* of a row */
	uint8_t *to = block + (size_t)slot / KV_CODES_QUAD * columns * KV_CODES_QUAD +
		      slot % KV_CODES_QUAD;

	kv_codes_quantise(codes, block, c, slot, value);
	for (uint32_t d = 0; d < c->columns; d += KV_CODES_PAD, to += (size_t)columns * KV_BLOCK)
		for (uint32_t i = 0; i < columns; i++)
			to[(size_t)i * KV_CODES_QUAD] =
				c->four ? (uint8_t)(codes[d + i] | codes[d + i + columns] << 4)
					: (uint8_t)codes[d + i];
}

/* kv_put of all tables, for codes. */
static inline void kv_codes_put(void *block, enum kv_type type, size_t key_offset,
				size_t value_offset, uint32_t slot, const float *key,
				const float *value, uint32_t head_dim, uint32_t latent_dim)
{
	const struct kv_codes keys = kv_codes_of_keys(type, head_dim, latent_dim);

	kv_codes_put_key((uint8_t *)block + key_offset, &keys, slot, key);
	if (value) {
		const struct kv_codes values = kv_codes_of_values(type, head_dim);
		kv_codes_put_value((uint8_t *)block + value_offset, &values, slot, value);
	}
}

/* ---- codes of 4 bits, codes of latents ---- */

/* Expands n codes, each with its factor, from the lower or upper halves of bytes. */
static inline void kv_codes_expand(uint8_t *to, const uint8_t *from, const uint8_t *factors,
				   size_t n, bool upper, uint8_t offset)
{
	for (size_t i = 0; i < n; i++) {
		const int code = upper ? from[i] >> 4 : from[i] & 15;
		to[i] = (uint8_t)(offset + (2 * code - KV_CODES_FOUR_TOP) * factors[i]);
	}
}

enum { KV_CODES_ROW = KV_CODES_QUAD * KV_BLOCK }; /* bytes of a row of keys */

/* Expands keys of 4 bits to the layout of 8 bits: to[columns / 4][64][4]. */
static inline void kv_codes_expand_keys(uint8_t *to, const struct kv_codes *c, const uint8_t *block)
{
	const uint8_t *factors = block + kv_codes_factors(c);
	const uint32_t fine = kv_codes_fine(c);

	for (uint32_t d = 0; d < c->columns; d += fine, factors += KV_BLOCK) {
		uint8_t each[KV_CODES_ROW];
		for (uint32_t i = 0; i < KV_BLOCK; i++)
			memset(each + (size_t)i * KV_CODES_QUAD, factors[i], KV_CODES_QUAD);
		for (uint32_t row = 0; row < fine; row += KV_CODES_QUAD, to += KV_CODES_ROW) {
			const uint32_t place = (d + row) / (2 * KV_CODES_QUAD);
			kv_codes_expand(to, block + (size_t)place * KV_CODES_ROW, each,
					KV_CODES_ROW, row / KV_CODES_QUAD % 2, KV_CODES_OFFSET);
		}
	}
}

/* Expands values of 4 bits to the layout of 8 bits: to[columns / 16][16][16][4]. */
static inline void kv_codes_expand_values(uint8_t *to, const struct kv_codes *c,
					  const uint8_t *block)
{
	enum { HALF = KV_CODES_PAD / 2 * KV_CODES_QUAD }; /* bytes of 8 columns */
	const uint8_t *factors = block + kv_codes_factors(c);
	const uint32_t fine = kv_codes_fine(c);

	for (uint32_t d = 0; d < c->columns; d += KV_CODES_PAD) {
		const uint8_t *four = factors + (size_t)d / fine * KV_BLOCK;
		for (uint32_t j = 0; j < KV_BLOCK; j += KV_CODES_QUAD, block += HALF) {
			uint8_t each[HALF];
			for (uint32_t i = 0; i < HALF; i += KV_CODES_QUAD)
				memcpy(each + i, four + j, KV_CODES_QUAD);
			kv_codes_expand(to, block, each, HALF, false, 0);
			kv_codes_expand(to + HALF, block, each, HALF, true, 0);
			to += (size_t)2 * HALF;
		}
	}
}

typedef uint8_t kv_codes_square __attribute__((vector_size(16)));

/* Converts codes of a latent's keys [columns / 4][64][4] to the layout of values. */
static inline void kv_codes_turn(uint8_t *to, const uint8_t *keys, uint32_t columns)
{
	for (uint32_t d = 0; d < columns; d += KV_CODES_QUAD, keys += KV_CODES_ROW)
		for (uint32_t j = 0; j < KV_BLOCK; j += KV_CODES_QUAD) {
			const size_t at = (size_t)d / KV_CODES_PAD * KV_CODES_PAD * KV_BLOCK +
					  (size_t)j * KV_CODES_PAD +
					  (size_t)d % KV_CODES_PAD * KV_CODES_QUAD;
			kv_codes_square s;
			memcpy(&s, keys + (size_t)j * KV_CODES_QUAD, sizeof s);
			s = __builtin_shufflevector(s, s, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3,
						    7, 11, 15) ^
			    KV_CODES_OFFSET;
			memcpy(to + at, &s, sizeof s);
		}
}

/* ---- queries ---- */

/* Converts one query: its codes q[columns], each part's scale times `scale`, and the sum of each
 * part's codes. */
static inline void kv_codes_ask(int8_t *q, float *scales, int32_t *sums, const struct kv_codes *c,
				const float *query, float scale)
{
	for (uint32_t g = 0; g < c->parts; g++) {
		const struct kv_codes_part *p = &c->part[g];
		float y[KV_CODES_PART];
		kv_codes_take(y, c, p, query);
		const float largest = scalar_largest_magnitude(y, p->columns);
		const bool codes = largest >= KV_WEIGHT_LEAST && isfinite(largest);
		kv_codes_eight(q + p->column, y, p->columns, codes ? KV_CODES_TOP / largest : 0);
		scales[g] = largest * (scale / (float)(KV_CODES_TOP * p->columns));
		sums[g] = 0;
		for (uint32_t i = 0; i < p->columns; i++)
			sums[g] += q[p->column + i];
	}
}

/* ---- weights of positions ---- */

/* Converts the weights of a span's positions to two digits, high and low. Returns the value of a
 * unit, which is NaN if a weight is NaN or too large. */
static inline float kv_codes_weigh(uint8_t *high, uint8_t *low, const float *e, const float *scales)
{
	float w[ATTENTION_SPAN];

	for (size_t j = 0; j < ATTENTION_SPAN; j++)
		w[j] = e[j] > 0 ? e[j] * scales[j] : 0;
	const float largest = scalar_largest_magnitude(w, ATTENTION_SPAN);
	if (!isfinite(largest) || largest < KV_WEIGHT_LEAST) {
		memset(high, 0, ATTENTION_SPAN);
		memset(low, 0, ATTENTION_SPAN);
		return isfinite(largest) ? 0 : NAN;
	}
	const float inverse = KV_WEIGHT_TOP / largest;
	for (size_t j = 0; j < ATTENTION_SPAN; j++) {
		const int32_t u = kv_codes_round(w[j] * inverse);
		high[j] = (uint8_t)(u >> KV_DIGIT);
		low[j] = (uint8_t)(u & ((1 << KV_DIGIT) - 1));
	}
	return largest / KV_WEIGHT_TOP;
}

#endif
