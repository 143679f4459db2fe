/* The definition of TQ: tables, rotation, quantisation, packing (tq.h, and TQ's tables in the
 * design).
 *
 * The order of operations is part of the format, because a coefficient on a boundary or one more
 * rounding changes a byte. It was found by reproducing the reference vectors bit for bit, all in
 * f32:
 *   - a sum of 128 squares has 8 accumulators, element i going to accumulator i mod 8,
 * multiplication and addition rounded separately; the accumulators are then added in ascending
 * order;
 *   - the group is divided by its norm before the rotation, not after;
 *   - butterflies h = 1, 2, 4 … 64, then a division by √128 (not a multiplication by its inverse);
 *   - the norm of a native checkpoint divides by the norm of the levels rotated back.
 * Rotations are exact only in exact arithmetic, so the last point changes the last bit. */
#include "kernels/tq.h"

#include <math.h>
#include <string.h>

/* ---- tables ---- */

/* Eight signs from one byte of the masks, lowest bit first, 1 means +1. */
#define SIGN(byte, bit) ((byte) >> (bit)&1 ? 1.0F : -1.0F)
#define SIGNS(byte)                                                                               \
	SIGN(byte, 0), SIGN(byte, 1), SIGN(byte, 2), SIGN(byte, 3), SIGN(byte, 4), SIGN(byte, 5), \
		SIGN(byte, 6), SIGN(byte, 7)

/* The first 256 outputs of MT19937 seeded with 42, mod 2. */
const float tq_signs1[TQ_GROUP] = {
	SIGNS(0x22), SIGNS(0x42), SIGNS(0xd7), SIGNS(0x3f), SIGNS(0x17), SIGNS(0x7c),
	SIGNS(0xab), SIGNS(0x01), SIGNS(0xf6), SIGNS(0xba), SIGNS(0x4a), SIGNS(0xff),
	SIGNS(0xe7), SIGNS(0x5f), SIGNS(0x6b), SIGNS(0x65),
};
const float tq_signs2[TQ_GROUP] = {
	SIGNS(0x07), SIGNS(0xd0), SIGNS(0x21), SIGNS(0xa8), SIGNS(0x5c), SIGNS(0xe6),
	SIGNS(0x40), SIGNS(0x24), SIGNS(0x38), SIGNS(0xd2), SIGNS(0x01), SIGNS(0xc5),
	SIGNS(0xcb), SIGNS(0xbf), SIGNS(0x25), SIGNS(0x14),
};

/* Levels and boundaries are the Lloyd-Max tables for N(0, 1/128), as exact f32 values.
 *
 * The integers minimise Σ p (level - integer · gain)² / Σ p level² over a Gaussian's probabilities
 * p of the levels, the gain being the least-squares one: relative error 1.1e-5 for TQ4, 1.2e-6 for
 * TQ3. The levels of TQ2 have the ratio 3 : 10 to within 5e-17; of the multiples that fit in 8
 * bits the smallest is taken, since its products leave room in 16 bits. */
static const struct tq_codebook codebooks[] = {
	{
		.bits = 2,
		.levels = 4,
		.level = {-0x1.1156d6p-3F, -0x1.4801cep-5F, 0x1.4801cep-5F, 0x1.1156d6p-3F},
		.boundary = {-0x1.63574ap-4F, 0, 0x1.63574ap-4F},
		.integer = {-10, -3, 3, 10},
		.gain = 0x1.b557bcp-7F, /* 1 / (6.6225164 · √128) */
	},
	{
		.bits = 3,
		.levels = 8,
		.level = {-0x1.858b2cp-3F, -0x1.e68bfep-4F, -0x1.11b3f4p-4F, -0x1.62ef18p-6F,
			  0x1.62ef18p-6F, 0x1.11b3f4p-4F, 0x1.e68bfep-4F, 0x1.858b2cp-3F},
		.boundary = {-0x1.3c6896p-3F, -0x1.7c1ff8p-4F, -0x1.6a6fbap-5F, 0, 0x1.6a6fbap-5F,
			     0x1.7c1ff8p-4F, 0x1.3c6896p-3F},
		.integer = {-88, -55, -31, -10, 10, 31, 55, 88},
		.gain = 0x1.1b1526p-9F, /* 1 / (40.925288 · √128) */
	},
	{
		.bits = 4,
		.levels = 16,
		.level = {-0x1.ebdab4p-3F, -0x1.735e34p-3F, -0x1.21aa4p-3F, -0x1.c0b3f8p-4F,
			  -0x1.4fe0d4p-4F, -0x1.d361c8p-5F, -0x1.13d316p-5F, -0x1.6cd3d8p-7F,
			  0x1.6cd3d8p-7F, 0x1.13d316p-5F, 0x1.d361c8p-5F, 0x1.4fe0d4p-4F,
			  0x1.c0b3f8p-4F, 0x1.21aa4p-3F, 0x1.735e34p-3F, 0x1.ebdab4p-3F},
		.boundary = {-0x1.af9c74p-3F, -0x1.4a843ap-3F, -0x1.01021ep-3F, -0x1.884a66p-4F,
			     -0x1.1cc8dcp-4F, -0x1.739a7p-5F, -0x1.6f080cp-6F, 0, 0x1.6f080cp-6F,
			     0x1.739a7p-5F, 0x1.1cc8dcp-4F, 0x1.884a66p-4F, 0x1.01021ep-3F,
			     0x1.4a843ap-3F, 0x1.af9c74p-3F},
		.integer = {-114, -86, -67, -52, -39, -27, -16, -5, 5, 16, 27, 39, 52, 67, 86, 114},
		.gain = 0x1.1455a4p-9F, /* 1 / (41.924680 · √128) */
	},
};

const struct tq_codebook *tq_codebook(uint32_t bits)
{
	return &codebooks[bits - 2];
}

/* ---- rotation ---- */

static void tq_walsh_hadamard(float y[TQ_GROUP])
{
	for (size_t h = 1; h < TQ_GROUP; h *= 2) {
		for (size_t start = 0; start < TQ_GROUP; start += 2 * h) {
			for (size_t i = start; i < start + h; i++) {
				const float a = y[i], b = y[i + h];
				y[i] = a + b;
				y[i + h] = a - b;
			}
		}
	}
	for (size_t i = 0; i < TQ_GROUP; i++)
		y[i] /= TQ_SQRT_GROUP;
}

static void tq_multiply_signs(float y[TQ_GROUP], const float signs[TQ_GROUP])
{
	for (size_t i = 0; i < TQ_GROUP; i++)
		y[i] *= signs[i];
}

void tq_rotate(float y[TQ_GROUP])
{
	tq_multiply_signs(y, tq_signs1);
	tq_walsh_hadamard(y);
	tq_multiply_signs(y, tq_signs2);
}

void tq_unrotate(float y[TQ_GROUP])
{
	tq_multiply_signs(y, tq_signs2);
	tq_walsh_hadamard(y);
	tq_multiply_signs(y, tq_signs1);
}

/* ---- quantisation ---- */

float tq_dot(const float a[TQ_GROUP], const float b[TQ_GROUP])
{
	float lane[8] = {0}, sum = 0;

	for (size_t i = 0; i < TQ_GROUP; i++)
		lane[i % 8] += a[i] * b[i];
	for (size_t l = 0; l < 8; l++)
		sum += lane[l];
	return sum;
}

/* The number of boundaries strictly below y: a coefficient of exactly 0 takes the lower half. */
static uint8_t tq_nearest_level(const struct tq_codebook *book, float y)
{
	uint32_t index = 0;

	for (uint32_t i = 0; i + 1 < book->levels; i++)
		index += book->boundary[i] < y;
	return (uint8_t)index;
}

/* The norm to store for a group of norm ‖x‖ > 0 with unit rotated coefficients y and levels c. */
static float tq_stored_norm(float norm, const float y[TQ_GROUP], float c[TQ_GROUP],
			    enum tq_gain gain)
{
	if (gain == TQ_GAIN_LEAST_SQUARES)
		return norm * (tq_dot(y, c) / tq_dot(c, c));
	tq_unrotate(c);
	return norm / sqrtf(tq_dot(c, c));
}

static bool tq_quantise_group(uint8_t *packed, float *stored, const float x[TQ_GROUP],
			      const struct tq_codebook *book, enum tq_gain gain)
{
	uint8_t index[TQ_GROUP];
	float y[TQ_GROUP], c[TQ_GROUP];
	const float norm = sqrtf(tq_dot(x, x)), divisor = norm == 0 ? 1 : norm;

	if (!isfinite(
		    norm)) /* NaN, infinity, or squares that overflow: no real weight is so large */
		return false;
	for (size_t i = 0; i < TQ_GROUP; i++)
		y[i] = x[i] / divisor;
	tq_rotate(y);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		index[i] = tq_nearest_level(book, y[i]);
		c[i] = book->level[index[i]];
	}
	tq_pack(packed, index, book->bits);
	*stored = norm == 0 ? 0 : tq_stored_norm(norm, y, c, gain);
	return true;
}

bool tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits,
		     enum tq_gain gain)
{
	const struct tq_codebook *book = tq_codebook(bits);
	const size_t bytes = (size_t)TQ_GROUP / 8 * bits;

	for (size_t g = 0; g < tq_groups(cols); g++) {
		float x[TQ_GROUP];
		tq_load_group(x, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		if (!tq_quantise_group(packed + g * bytes, &norms[g], x, book, gain))
			return false;
	}
	return true;
}

/* ---- packing: a little-endian bit stream; eight indices fill `bits` whole bytes ---- */

void tq_pack(uint8_t *packed, const uint8_t index[TQ_GROUP], uint32_t bits)
{
	for (size_t unit = 0; unit < TQ_GROUP / TQ_UNIT; unit++) {
		uint32_t word = 0;
		for (uint32_t i = 0; i < TQ_UNIT; i++)
			word |= (uint32_t)index[unit * TQ_UNIT + i] << i * bits;
		memcpy(packed + unit * bits, &word, bits);
	}
}

void tq_unpack(uint8_t index[TQ_GROUP], const uint8_t *packed, uint32_t bits)
{
	const uint32_t mask = (1U << bits) - 1;

	for (size_t unit = 0; unit < TQ_GROUP / TQ_UNIT; unit++) {
		uint32_t word = 0;
		memcpy(&word, packed + unit * bits, bits);
		for (uint32_t i = 0; i < TQ_UNIT; i++)
			index[unit * TQ_UNIT + i] = (uint8_t)(word >> i * bits & mask);
	}
}
