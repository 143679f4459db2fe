/* Blocks of weights as they lie in files: what their bytes mean, one block of 32 columns at a time.
 *
 * K-quants put 256 columns together, whose scales are small whole numbers of one or two floats.
 * Codes of fewer than 8 bits lie in planes, columns far apart in one byte, so that a shift and a
 * mask get many adjacent ones at once.
 */
#include "kernels/block.h"
#include "kernels/iq3s_grid.h"

#include <math.h>
#include <string.h>

/* The levels of IQ4_NL and IQ4_XS, and twice those of MXFP4 (OCP Microscaling Formats, E2M1). */
const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
			       1,    13,   25,	38,  53,  69,  89,  113};
const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/* Those of IQ3_S, with their signs. */
const int8_t iq3_values[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};

/* Half of 2^(e - 127), which is exact; 255 is NaN. */
float e8m0_half(uint8_t e)
{
	const uint32_t bits = e < 2 ? 0x00200000U << e : (uint32_t)(e - 1) << 23;
	float f;

	memcpy(&f, &bits, sizeof f);
	return e == 255 ? NAN : f;
}

/* ---- scales of 256 columns, whole numbers ---- */

/* Six bits for each of eight blocks, and six for its offset: of the first four in the lower bits of
 * the first and of the second four bytes; of the others in the two halves of the last four bytes,
 * their two upper bits above those of the first four. */
int k_scale(const uint8_t p[12], size_t b)
{
	return b < 4 ? p[b] & 63 : (p[b + 4] & 15) | p[b - 4] >> 6 << 4;
}

int k_offset(const uint8_t p[12], size_t b)
{
	return b < 4 ? p[b + 4] & 63 : p[b + 4] >> 4 | p[b] >> 6 << 4;
}

/* Six bits for each half of eight blocks, 32 too many: four in the halves of the first eight bytes,
 * two in the last four. */
int q3_k_scale(const uint8_t p[12], size_t h)
{
	const int low = p[h % 8] >> h / 8 * 4 & 15, high = p[8 + h % 4] >> h / 4 * 2 & 3;
	return (low | high << 4) - 32;
}

int iq4_xs_scale(const uint8_t *block, size_t b)
{
	const int low = block[4 + b / 2] >> b % 2 * 4 & 15,
		  high = block[2 + b / 4] >> b % 4 * 2 & 3;
	return (low | high << 4) - 32;
}

int iq3_s_scale(const uint8_t *block, size_t b)
{
	return 2 * (block[106 + b / 2] >> b % 2 * 4 & 15) + 1;
}

static float half_at(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, sizeof h);
	return f16_to_f32(h);
}

static void fill(float v[HALVES], float value)
{
	v[0] = v[1] = value;
}

/* ---- codes ---- */

/* 16 bytes with two codes each: columns 0 … 15 in the lower bits, 16 … 31 in the upper. */
static void read_nibbles(int16_t code[BLOCK], const uint8_t *from)
{
	for (size_t i = 0; i < HALF_BLOCK; i++) {
		code[i] = from[i] & 15;
		code[i + HALF_BLOCK] = from[i] >> 4;
	}
}

/* One column in each of 32 bytes, from bit `shift` on. */
static void read_plane(int16_t code[BLOCK], const uint8_t *from, size_t shift, uint32_t mask)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(from[i] >> shift & mask);
}

static void add_plane(int16_t code[BLOCK], const uint8_t *from, size_t shift, uint32_t mask,
		      size_t to)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(code[i] | (from[i] >> shift & mask) << to);
}

static void add_to_codes(int16_t code[BLOCK], int16_t v)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(code[i] + v);
}

static void look_up(int16_t code[BLOCK], const int8_t table[16])
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = table[code[i]];
}

/* Bit i of four bytes is the fifth of column i. */
static void add_fifth_bits(int16_t code[BLOCK], const uint8_t *from)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(code[i] | (from[i / 8] >> i % 8 & 1) << 4);
}

/* ---- 32 columns ---- */

static void read_q8_0(struct block *to, const uint8_t *p)
{
	for (size_t i = 0; i < BLOCK; i++)
		to->code[i] = (int8_t)p[2 + i];
	fill(to->scale, half_at(p));
	fill(to->offset, 0);
}

static void read_q4_0(struct block *to, const uint8_t *p)
{
	read_nibbles(to->code, p + 2);
	add_to_codes(to->code, -8);
	fill(to->scale, half_at(p));
	fill(to->offset, 0);
}

static void read_q4_1(struct block *to, const uint8_t *p)
{
	read_nibbles(to->code, p + 4);
	fill(to->scale, half_at(p));
	fill(to->offset, half_at(p + 2));
}

static void read_q5_0(struct block *to, const uint8_t *p)
{
	read_nibbles(to->code, p + 6);
	add_fifth_bits(to->code, p + 2);
	add_to_codes(to->code, -16);
	fill(to->scale, half_at(p));
	fill(to->offset, 0);
}

static void read_q5_1(struct block *to, const uint8_t *p)
{
	read_nibbles(to->code, p + 8);
	add_fifth_bits(to->code, p + 4);
	fill(to->scale, half_at(p));
	fill(to->offset, half_at(p + 2));
}

static void read_iq4_nl(struct block *to, const uint8_t *p)
{
	read_nibbles(to->code, p + 2);
	look_up(to->code, iq4_values);
	fill(to->scale, half_at(p));
	fill(to->offset, 0);
}

static void read_mxfp4_gguf(struct block *to, const uint8_t *p)
{
	read_nibbles(to->code, p + 1);
	look_up(to->code, fp4_values);
	fill(to->scale, e8m0_half(p[0]));
	fill(to->offset, 0);
}

/* ---- b-th of the eight blocks of 256 columns ---- */

/* Q2_K: 16 bytes of scale and offset, 64 of codes, two floats. */
static void read_q2_k(struct block *to, const uint8_t *p, size_t b)
{
	const float d = half_at(p + 80), least = half_at(p + 82);

	read_plane(to->code, p + 16 + b / 4 * BLOCK, 2 * (b % 4), 3);
	for (size_t h = 0; h < HALVES; h++) {
		const uint8_t both = p[HALVES * b + h];
		to->scale[h] = d * (float)(both & 15);
		to->offset[h] = -(least * (float)(both >> 4));
	}
}

/* Q3_K: 32 bytes of third bits, 64 of the others, 12 of scales, a float. */
static void read_q3_k(struct block *to, const uint8_t *p, size_t b)
{
	const float d = half_at(p + 108);

	read_plane(to->code, p + 32 + b / 4 * BLOCK, 2 * (b % 4), 3);
	add_plane(to->code, p, b, 1, 2);
	add_to_codes(to->code, -4);
	for (size_t h = 0; h < HALVES; h++)
		to->scale[h] = d * (float)q3_k_scale(p + 96, HALVES * b + h);
	fill(to->offset, 0);
}

static void read_k_scales(struct block *to, const uint8_t *p, size_t b)
{
	fill(to->scale, half_at(p) * (float)k_scale(p + 4, b));
	fill(to->offset, -(half_at(p + 2) * (float)k_offset(p + 4, b)));
}

/* Q4_K: two floats, 12 bytes of scales and offsets, 128 of codes. */
static void read_q4_k(struct block *to, const uint8_t *p, size_t b)
{
	read_plane(to->code, p + 16 + b / 2 * BLOCK, 4 * (b % 2), 15);
	read_k_scales(to, p, b);
}

/* Q5_K: 32 bytes of fifth bits before the others. */
static void read_q5_k(struct block *to, const uint8_t *p, size_t b)
{
	read_plane(to->code, p + 48 + b / 2 * BLOCK, 4 * (b % 2), 15);
	add_plane(to->code, p + 16, b, 1, 4);
	read_k_scales(to, p, b);
}

/* Q6_K: 128 bytes of lower bits, 64 of upper, 16 of scales, a float. */
static void read_q6_k(struct block *to, const uint8_t *p, size_t b)
{
	const size_t half = b / 4, in = b % 4;

	read_plane(to->code, p + half * 64 + in % 2 * BLOCK, 4 * (in / 2), 15);
	add_plane(to->code, p + 128 + half * BLOCK, 2 * in, 3, 4);
	add_to_codes(to->code, -32);
	for (size_t h = 0; h < HALVES; h++)
		to->scale[h] = half_at(p + 208) * (float)(int8_t)p[192 + HALVES * b + h];
	fill(to->offset, 0);
}

/* IQ4_XS: a float, 2 bytes of upper bits of scales, 4 of lower, 128 of codes. */
static void read_iq4_xs(struct block *to, const uint8_t *p, size_t b)
{
	read_nibbles(to->code, p + 8 + b * HALF_BLOCK);
	look_up(to->code, iq4_values);
	fill(to->scale, half_at(p) * (float)iq4_xs_scale(p, b));
	fill(to->offset, 0);
}

/* IQ3_S: a float, 64 bytes of points of the grid, 8 of their ninth bits, 32 of signs, 4 of scales.
 */
static void read_iq3_s(struct block *to, const uint8_t *p, size_t b)
{
	for (size_t i = 0; i < BLOCK; i++) {
		const uint32_t ninth = p[66 + b] >> i / 4 & 1,
			       point = p[2 + b * 8 + i / 4] | ninth << 8;
		const int magnitude = 2 * (iq3s_grid[point] >> 4 * (i % 4) & 15) + 1;
		const bool negative = p[74 + b * 4 + i / 8] >> i % 8 & 1;
		to->code[i] = (int16_t)(negative ? -magnitude : magnitude);
	}
	fill(to->scale, half_at(p) * (float)iq3_s_scale(p, b));
	fill(to->offset, 0);
}

/* ---- in several pieces ---- */

/* 16 bytes, columns 2i and 2i + 1 in the lower and upper bits of byte i; a power of two apart. */
static void read_mxfp4(struct block *to, const struct pieces *row, size_t b)
{
	const uint8_t *p = (const uint8_t *)row->weights + b * HALF_BLOCK;

	for (size_t i = 0; i < BLOCK; i++)
		to->code[i] = p[i / 2] >> 4 * (i % 2) & 15;
	look_up(to->code, fp4_values);
	fill(to->scale, e8m0_half(((const uint8_t *)row->scales)[b]));
	fill(to->offset, 0);
}

/* A little-endian stream of codes, the first in the lowest bits. */
static void read_affine(struct block *to, const struct shape *s, const struct pieces *row, size_t b)
{
	const size_t bits = format_affine_bits(s->format), group = b * BLOCK / s->group;
	const uint8_t *p = (const uint8_t *)row->weights + b * BLOCK / 8 * bits;

	for (size_t i = 0; i < BLOCK; i++) {
		const size_t at = i * bits / 8, shift = i * bits % 8;
		const uint32_t two = p[at] | (shift + bits > 8 ? p[at + 1] << 8 : 0);
		to->code[i] = (int16_t)(two >> shift & ((1U << bits) - 1));
	}
	fill(to->scale, norm_at(row->scales, group, s->norms));
	fill(to->offset, norm_at(row->biases, group, s->norms));
}

/* ---- which is which ---- */

static const struct {
	void (*one)(struct block *to, const uint8_t *block);
	void (*eight)(struct block *to, const uint8_t *blocks, size_t b);
} readers[FORMAT_COUNT] = {
	[FORMAT_Q8_0] = {.one = read_q8_0},
	[FORMAT_Q4_0] = {.one = read_q4_0},
	[FORMAT_Q4_1] = {.one = read_q4_1},
	[FORMAT_Q5_0] = {.one = read_q5_0},
	[FORMAT_Q5_1] = {.one = read_q5_1},
	[FORMAT_IQ4_NL] = {.one = read_iq4_nl},
	[FORMAT_MXFP4_GGUF] = {.one = read_mxfp4_gguf},
	[FORMAT_Q2_K] = {.eight = read_q2_k},
	[FORMAT_Q3_K] = {.eight = read_q3_k},
	[FORMAT_Q4_K] = {.eight = read_q4_k},
	[FORMAT_Q5_K] = {.eight = read_q5_k},
	[FORMAT_Q6_K] = {.eight = read_q6_k},
	[FORMAT_IQ4_XS] = {.eight = read_iq4_xs},
	[FORMAT_IQ3_S] = {.eight = read_iq3_s},
};

void block_read(struct block *to, const struct shape *s, const struct pieces *row, size_t b)
{
	const uint8_t *p = row->weights;
	const size_t bytes = format_block_bytes(s->format);

	if (readers[s->format].one)
		readers[s->format].one(to, p + b * bytes);
	else if (readers[s->format].eight)
		readers[s->format].eight(to, p + b / 8 * bytes, b % 8);
	else if (s->format == FORMAT_MXFP4)
		read_mxfp4(to, row, b);
	else
		read_affine(to, s, row, b);
}

/* ---- made here ---- */

bool q8_0_quantise_row(uint8_t *packed, const float *row, uint32_t cols)
{
	for (uint32_t at = 0; at < cols; at += BLOCK, row += BLOCK) {
		float most = 0;
		for (int i = 0; i < BLOCK; i++)
			most = fmaxf(most, fabsf(row[i]));
		const uint16_t half = f32_to_f16(most / 127);
		const float scale = f16_to_f32(half);
		if (!isfinite(scale))
			return false;
		memcpy(packed, &half, sizeof half);
		packed += sizeof half;
		for (int i = 0; i < BLOCK; i++) {
			const float code = scale > 0 ? roundf(row[i] / scale) : 0;
			*packed++ = (uint8_t)(int8_t)fminf(fmaxf(code, -127), 127);
		}
	}
	return true;
}
