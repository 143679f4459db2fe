/* The meaning of the bytes of blocks of weights in files, one block of 32 columns at a time.
 *
 * K-quants put 256 columns together, whose scales are small whole numbers of one or two floats.
 * Codes of fewer than 8 bits lie in planes: a byte holds columns that are far apart, so a shift and
 * a mask extract many adjacent ones at once. */
#include "kernels/block.h"

#include <math.h>
#include <string.h>

/* The levels of IQ4_NL and IQ4_XS, and twice those of MXFP4 (OCP Microscaling Formats, E2M1). */
const int8_t block_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
				     1,	   13,	 25,  38,  53,	69,  89,  113};
const int8_t block_fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/* Those of IQ3_S, with their signs. */
const int8_t block_iq3_values[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};

/* Half of 2^(e - 127), which is exact; 255 is NaN. */
float block_e8m0_half(uint8_t e)
{
	const uint32_t bits = e < 2 ? 0x00200000U << e : (uint32_t)(e - 1) << 23;
	float f;

	memcpy(&f, &bits, sizeof f);
	return e == 255 ? NAN : f;
}

/* The grid of IQ3_S, which belongs to the format: 512 points of four magnitudes. Magnitude i of a
 * point is 2 · n + 1, n in bits 4 · i. */
const uint16_t block_iq3_s_grid[512] = {
	0x0000, 0x0001, 0x0002, 0x0005, 0x0007, 0x0010, 0x0011, 0x0012, 0x0014, 0x0016, 0x0020,
	0x0021, 0x0025, 0x0033, 0x0040, 0x0042, 0x0045, 0x0047, 0x0051, 0x0053, 0x0060, 0x0062,
	0x0071, 0x0074, 0x0077, 0x0100, 0x0101, 0x0102, 0x0104, 0x0110, 0x0111, 0x0115, 0x0120,
	0x0123, 0x0127, 0x0131, 0x0135, 0x0144, 0x0161, 0x0165, 0x0172, 0x0200, 0x0201, 0x0205,
	0x0207, 0x0210, 0x0213, 0x0216, 0x0221, 0x0225, 0x0230, 0x0234, 0x0242, 0x0245, 0x0247,
	0x0251, 0x0253, 0x0270, 0x0273, 0x0303, 0x0311, 0x0315, 0x0320, 0x0322, 0x0331, 0x0333,
	0x0336, 0x0344, 0x0350, 0x0352, 0x0367, 0x0371, 0x0375, 0x0400, 0x0413, 0x0417, 0x0421,
	0x0424, 0x0432, 0x0440, 0x0443, 0x0451, 0x0470, 0x0502, 0x0504, 0x0520, 0x0522, 0x0526,
	0x0533, 0x0541, 0x0545, 0x0547, 0x0566, 0x0573, 0x0606, 0x0611, 0x0613, 0x0631, 0x0652,
	0x0671, 0x0700, 0x0702, 0x0704, 0x0720, 0x0722, 0x0726, 0x0733, 0x0750, 0x0754, 0x1000,
	0x1001, 0x1002, 0x1004, 0x1010, 0x1011, 0x1013, 0x1015, 0x1017, 0x1020, 0x1022, 0x1031,
	0x1034, 0x1036, 0x1054, 0x1056, 0x1061, 0x1072, 0x1100, 0x1101, 0x1103, 0x1106, 0x1110,
	0x1114, 0x1121, 0x1130, 0x1133, 0x1141, 0x1150, 0x1152, 0x1170, 0x1176, 0x1200, 0x1212,
	0x1215, 0x1217, 0x1220, 0x1224, 0x1232, 0x1240, 0x1243, 0x1255, 0x1260, 0x1272, 0x1301,
	0x1304, 0x1307, 0x1310, 0x1313, 0x1321, 0x1327, 0x1330, 0x1334, 0x1341, 0x1362, 0x1370,
	0x1403, 0x1405, 0x1412, 0x1414, 0x1431, 0x1433, 0x1442, 0x1446, 0x1450, 0x1454, 0x1501,
	0x1510, 0x1513, 0x1521, 0x1530, 0x1532, 0x1551, 0x1620, 0x1624, 0x1627, 0x1644, 0x1646,
	0x1701, 0x1703, 0x1710, 0x1712, 0x1721, 0x1735, 0x1741, 0x1762, 0x1770, 0x2000, 0x2001,
	0x2003, 0x2005, 0x2007, 0x2010, 0x2012, 0x2014, 0x2016, 0x2021, 0x2023, 0x2027, 0x2030,
	0x2032, 0x2041, 0x2043, 0x2045, 0x2050, 0x2052, 0x2067, 0x2070, 0x2073, 0x2075, 0x2100,
	0x2102, 0x2110, 0x2113, 0x2117, 0x2122, 0x2125, 0x2131, 0x2134, 0x2142, 0x2151, 0x2201,
	0x2204, 0x2207, 0x2221, 0x2223, 0x2230, 0x2237, 0x2241, 0x2253, 0x2257, 0x2271, 0x2274,
	0x2300, 0x2302, 0x2305, 0x2311, 0x2322, 0x2324, 0x2331, 0x2333, 0x2342, 0x2350, 0x2366,
	0x2401, 0x2407, 0x2420, 0x2423, 0x2432, 0x2435, 0x2441, 0x2472, 0x2475, 0x2504, 0x2511,
	0x2522, 0x2537, 0x2540, 0x2553, 0x2570, 0x2600, 0x2602, 0x2607, 0x2621, 0x2655, 0x2661,
	0x2705, 0x2711, 0x2726, 0x2730, 0x2743, 0x2750, 0x3002, 0x3011, 0x3013, 0x3015, 0x3017,
	0x3022, 0x3031, 0x3033, 0x3035, 0x3042, 0x3044, 0x3047, 0x3051, 0x3063, 0x3071, 0x3101,
	0x3103, 0x3105, 0x3114, 0x3121, 0x3123, 0x3140, 0x3160, 0x3172, 0x3176, 0x3200, 0x3212,
	0x3220, 0x3232, 0x3234, 0x3250, 0x3301, 0x3310, 0x3314, 0x3321, 0x3323, 0x3327, 0x3330,
	0x3341, 0x3343, 0x3347, 0x3355, 0x3373, 0x3403, 0x3411, 0x3416, 0x3422, 0x3431, 0x3452,
	0x3460, 0x3464, 0x3501, 0x3510, 0x3512, 0x3525, 0x3532, 0x3544, 0x3556, 0x3573, 0x3616,
	0x3641, 0x3701, 0x3703, 0x3720, 0x3722, 0x3735, 0x4000, 0x4004, 0x4012, 0x4020, 0x4024,
	0x4027, 0x4032, 0x4041, 0x4050, 0x4070, 0x4102, 0x4107, 0x4111, 0x4113, 0x4122, 0x4130,
	0x4135, 0x4143, 0x4151, 0x4155, 0x4201, 0x4203, 0x4210, 0x4215, 0x4221, 0x4233, 0x4240,
	0x4257, 0x4262, 0x4270, 0x4304, 0x4311, 0x4313, 0x4320, 0x4322, 0x4331, 0x4335, 0x4400,
	0x4402, 0x4424, 0x4437, 0x4440, 0x4471, 0x4505, 0x4507, 0x4521, 0x4562, 0x4613, 0x4634,
	0x4660, 0x4710, 0x4715, 0x4730, 0x4743, 0x4751, 0x5002, 0x5010, 0x5014, 0x5022, 0x5040,
	0x5044, 0x5047, 0x5052, 0x5066, 0x5074, 0x5101, 0x5103, 0x5105, 0x5112, 0x5121, 0x5132,
	0x5172, 0x5200, 0x5211, 0x5223, 0x5230, 0x5236, 0x5253, 0x5302, 0x5307, 0x5310, 0x5327,
	0x5344, 0x5351, 0x5365, 0x5373, 0x5401, 0x5404, 0x5420, 0x5432, 0x5446, 0x5512, 0x5526,
	0x5551, 0x5553, 0x5642, 0x5702, 0x5704, 0x5722, 0x6011, 0x6013, 0x6015, 0x6031, 0x6033,
	0x6060, 0x6100, 0x6120, 0x6127, 0x6164, 0x6212, 0x6234, 0x6242, 0x6255, 0x6262, 0x6270,
	0x6300, 0x6314, 0x6321, 0x6340, 0x6425, 0x6443, 0x6462, 0x6500, 0x6503, 0x6534, 0x6560,
	0x6605, 0x6640, 0x6711, 0x6713, 0x7000, 0x7004, 0x7007, 0x7020, 0x7022, 0x7036, 0x7040,
	0x7054, 0x7062, 0x7102, 0x7111, 0x7124, 0x7143, 0x7145, 0x7201, 0x7204, 0x7210, 0x7216,
	0x7221, 0x7230, 0x7251, 0x7302, 0x7332, 0x7335, 0x7353, 0x7401, 0x7405, 0x7413, 0x7420,
	0x7450, 0x7522, 0x7542, 0x7602, 0x7631, 0x7700,
};

/* ---- scales of 256 columns, whole numbers ---- */

/* Six bits for each of eight blocks, and six for its offset: of the first four in the lower bits of
 * the first and of the second four bytes; of the others in the two halves of the last four bytes,
 * their two upper bits above those of the first four. */
int block_k_scale(const uint8_t p[12], size_t b)
{
	return b < 4 ? p[b] & 63 : (p[b + 4] & 15) | p[b - 4] >> 6 << 4;
}

int block_k_offset(const uint8_t p[12], size_t b)
{
	return b < 4 ? p[b + 4] & 63 : p[b + 4] >> 4 | p[b] >> 6 << 4;
}

/* Six bits for each half of eight blocks, stored plus 32: four bits in the halves of the first
 * eight bytes, two in the last four bytes. */
int block_q3_k_scale(const uint8_t p[12], size_t h)
{
	const int low = p[h % 8] >> h / 8 * 4 & 15, high = p[8 + h % 4] >> h / 4 * 2 & 3;
	return (low | high << 4) - 32;
}

int block_iq4_xs_scale(const uint8_t *block, size_t b)
{
	const int low = block[4 + b / 2] >> b % 2 * 4 & 15,
		  high = block[2 + b / 4] >> b % 4 * 2 & 3;
	return (low | high << 4) - 32;
}

int block_iq3_s_scale(const uint8_t *block, size_t b)
{
	return 2 * (block[106 + b / 2] >> b % 2 * 4 & 15) + 1;
}

static float block_f16_at(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, sizeof h);
	return f16_to_f32(h);
}

static void block_fill(float v[HALVES], float value)
{
	v[0] = v[1] = value;
}

/* ---- codes ---- */

/* 16 bytes with two codes each: columns 0 … 15 in the lower bits, 16 … 31 in the upper. */
static void block_read_nibbles(int16_t code[BLOCK], const uint8_t *from)
{
	for (size_t i = 0; i < HALF_BLOCK; i++) {
		code[i] = from[i] & 15;
		code[i + HALF_BLOCK] = from[i] >> 4;
	}
}

/* One column in each of 32 bytes, from bit `shift` on. */
static void block_read_plane(int16_t code[BLOCK], const uint8_t *from, size_t shift, uint32_t mask)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(from[i] >> shift & mask);
}

static void block_add_plane(int16_t code[BLOCK], const uint8_t *from, size_t shift, uint32_t mask,
			    size_t to)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(code[i] | (from[i] >> shift & mask) << to);
}

static void block_add_to_codes(int16_t code[BLOCK], int16_t v)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(code[i] + v);
}

static void block_look_up(int16_t code[BLOCK], const int8_t table[16])
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = table[code[i]];
}

/* Bit i of four bytes is the fifth of column i. */
static void block_add_fifth_bits(int16_t code[BLOCK], const uint8_t *from)
{
	for (size_t i = 0; i < BLOCK; i++)
		code[i] = (int16_t)(code[i] | (from[i / 8] >> i % 8 & 1) << 4);
}

/* ---- 32 columns ---- */

static void block_read_q8_0(struct block *to, const uint8_t *p)
{
	for (size_t i = 0; i < BLOCK; i++)
		to->code[i] = (int8_t)p[2 + i];
	block_fill(to->scale, block_f16_at(p));
	block_fill(to->offset, 0);
}

static void block_read_q4_0(struct block *to, const uint8_t *p)
{
	block_read_nibbles(to->code, p + 2);
	block_add_to_codes(to->code, -8);
	block_fill(to->scale, block_f16_at(p));
	block_fill(to->offset, 0);
}

static void block_read_q4_1(struct block *to, const uint8_t *p)
{
	block_read_nibbles(to->code, p + 4);
	block_fill(to->scale, block_f16_at(p));
	block_fill(to->offset, block_f16_at(p + 2));
}

static void block_read_q5_0(struct block *to, const uint8_t *p)
{
	block_read_nibbles(to->code, p + 6);
	block_add_fifth_bits(to->code, p + 2);
	block_add_to_codes(to->code, -16);
	block_fill(to->scale, block_f16_at(p));
	block_fill(to->offset, 0);
}

static void block_read_q5_1(struct block *to, const uint8_t *p)
{
	block_read_nibbles(to->code, p + 8);
	block_add_fifth_bits(to->code, p + 4);
	block_fill(to->scale, block_f16_at(p));
	block_fill(to->offset, block_f16_at(p + 2));
}

static void block_read_iq4_nl(struct block *to, const uint8_t *p)
{
	block_read_nibbles(to->code, p + 2);
	block_look_up(to->code, block_iq4_values);
	block_fill(to->scale, block_f16_at(p));
	block_fill(to->offset, 0);
}

static void block_read_mxfp4_gguf(struct block *to, const uint8_t *p)
{
	block_read_nibbles(to->code, p + 1);
	block_look_up(to->code, block_fp4_values);
	block_fill(to->scale, block_e8m0_half(p[0]));
	block_fill(to->offset, 0);
}

/* ---- b-th of the eight blocks of 256 columns ---- */

/* Q2_K: 16 bytes of scale and offset, 64 of codes, two floats. */
static void block_read_q2_k(struct block *to, const uint8_t *p, size_t b)
{
	const float d = block_f16_at(p + 80), least = block_f16_at(p + 82);

	block_read_plane(to->code, p + 16 + b / 4 * BLOCK, 2 * (b % 4), 3);
	for (size_t h = 0; h < HALVES; h++) {
		const uint8_t both = p[HALVES * b + h];
		to->scale[h] = d * (float)(both & 15);
		to->offset[h] = -(least * (float)(both >> 4));
	}
}

/* Q3_K: 32 bytes of third bits, 64 of the others, 12 of scales, a float. */
static void block_read_q3_k(struct block *to, const uint8_t *p, size_t b)
{
	const float d = block_f16_at(p + 108);

	block_read_plane(to->code, p + 32 + b / 4 * BLOCK, 2 * (b % 4), 3);
	block_add_plane(to->code, p, b, 1, 2);
	block_add_to_codes(to->code, -4);
	for (size_t h = 0; h < HALVES; h++)
		to->scale[h] = d * (float)block_q3_k_scale(p + 96, HALVES * b + h);
	block_fill(to->offset, 0);
}

static void block_read_k_scales(struct block *to, const uint8_t *p, size_t b)
{
	block_fill(to->scale, block_f16_at(p) * (float)block_k_scale(p + 4, b));
	block_fill(to->offset, -(block_f16_at(p + 2) * (float)block_k_offset(p + 4, b)));
}

/* Q4_K: two floats, 12 bytes of scales and offsets, 128 of codes. */
static void block_read_q4_k(struct block *to, const uint8_t *p, size_t b)
{
	block_read_plane(to->code, p + 16 + b / 2 * BLOCK, 4 * (b % 2), 15);
	block_read_k_scales(to, p, b);
}

/* Q5_K: 32 bytes of fifth bits before the others. */
static void block_read_q5_k(struct block *to, const uint8_t *p, size_t b)
{
	block_read_plane(to->code, p + 48 + b / 2 * BLOCK, 4 * (b % 2), 15);
	block_add_plane(to->code, p + 16, b, 1, 4);
	block_read_k_scales(to, p, b);
}

/* Q6_K: 128 bytes of lower bits, 64 of upper, 16 of scales, a float. */
static void block_read_q6_k(struct block *to, const uint8_t *p, size_t b)
{
	const size_t half = b / 4, in = b % 4;

	block_read_plane(to->code, p + half * 64 + in % 2 * BLOCK, 4 * (in / 2), 15);
	block_add_plane(to->code, p + 128 + half * BLOCK, 2 * in, 3, 4);
	block_add_to_codes(to->code, -32);
	for (size_t h = 0; h < HALVES; h++)
		to->scale[h] = block_f16_at(p + 208) * (float)(int8_t)p[192 + HALVES * b + h];
	block_fill(to->offset, 0);
}

/* IQ4_XS: a float, 2 bytes of upper bits of scales, 4 of lower, 128 of codes. */
static void block_read_iq4_xs(struct block *to, const uint8_t *p, size_t b)
{
	block_read_nibbles(to->code, p + 8 + b * HALF_BLOCK);
	block_look_up(to->code, block_iq4_values);
	block_fill(to->scale, block_f16_at(p) * (float)block_iq4_xs_scale(p, b));
	block_fill(to->offset, 0);
}

/* IQ3_S: a float, 64 bytes of points of the grid, 8 of their ninth bits, 32 of signs, 4 of scales.
 */
static void block_read_iq3_s(struct block *to, const uint8_t *p, size_t b)
{
	for (size_t i = 0; i < BLOCK; i++) {
		const uint32_t ninth = p[66 + b] >> i / 4 & 1,
			       point = p[2 + b * 8 + i / 4] | ninth << 8;
		const int magnitude = 2 * (block_iq3_s_grid[point] >> 4 * (i % 4) & 15) + 1;
		const bool negative = p[74 + b * 4 + i / 8] >> i % 8 & 1;
		to->code[i] = (int16_t)(negative ? -magnitude : magnitude);
	}
	block_fill(to->scale, block_f16_at(p) * (float)block_iq3_s_scale(p, b));
	block_fill(to->offset, 0);
}

/* ---- in several pieces ---- */

/* 16 bytes, columns 2i and 2i + 1 in the lower and upper bits of byte i; a power of two apart. */
static void block_read_mxfp4(struct block *to, const struct pieces *row, size_t b)
{
	const uint8_t *p = (const uint8_t *)row->weights + b * HALF_BLOCK;

	for (size_t i = 0; i < BLOCK; i++)
		to->code[i] = p[i / 2] >> 4 * (i % 2) & 15;
	block_look_up(to->code, block_fp4_values);
	block_fill(to->scale, block_e8m0_half(((const uint8_t *)row->scales)[b]));
	block_fill(to->offset, 0);
}

/* A little-endian stream of codes, the first in the lowest bits. */
static void block_read_affine(struct block *to, const struct shape *s, const struct pieces *row,
			      size_t b)
{
	const size_t bits = format_affine_bits(s->format), group = b * BLOCK / s->group;
	const uint8_t *p = (const uint8_t *)row->weights + b * BLOCK / 8 * bits;

	for (size_t i = 0; i < BLOCK; i++) {
		const size_t at = i * bits / 8, shift = i * bits % 8;
		const uint32_t two = p[at] | (shift + bits > 8 ? p[at + 1] << 8 : 0);
		to->code[i] = (int16_t)(two >> shift & ((1U << bits) - 1));
	}
	block_fill(to->scale, format_norm_at(row->scales, group, s->norms));
	block_fill(to->offset, format_norm_at(row->biases, group, s->norms));
}

/* ---- which is which ---- */

/* Readers of blocks of a GGUF file. one: the file's block has 32 columns. eight: it has 256, and b
 * is the index of the 32 columns to read. halves: the number of F16 scales and offsets of a block,
 * and their bytes. */
static const struct {
	void (*one)(struct block *to, const uint8_t *block);
	void (*eight)(struct block *to, const uint8_t *blocks, size_t b);
	uint8_t halves, half_at[BLOCK_MOST_HALVES];
} readers[FORMAT_COUNT] = {
	[FORMAT_Q8_0] = {.one = block_read_q8_0, .halves = 1, .half_at = {0}},
	[FORMAT_Q4_0] = {.one = block_read_q4_0, .halves = 1, .half_at = {0}},
	[FORMAT_Q4_1] = {.one = block_read_q4_1, .halves = 2, .half_at = {0, 2}},
	[FORMAT_Q5_0] = {.one = block_read_q5_0, .halves = 1, .half_at = {0}},
	[FORMAT_Q5_1] = {.one = block_read_q5_1, .halves = 2, .half_at = {0, 2}},
	[FORMAT_IQ4_NL] = {.one = block_read_iq4_nl, .halves = 1, .half_at = {0}},
	[FORMAT_MXFP4_GGUF] = {.one = block_read_mxfp4_gguf}, /* its scale is a power of two */
	[FORMAT_Q2_K] = {.eight = block_read_q2_k, .halves = 2, .half_at = {80, 82}},
	[FORMAT_Q3_K] = {.eight = block_read_q3_k, .halves = 1, .half_at = {108}},
	[FORMAT_Q4_K] = {.eight = block_read_q4_k, .halves = 2, .half_at = {0, 2}},
	[FORMAT_Q5_K] = {.eight = block_read_q5_k, .halves = 2, .half_at = {0, 2}},
	[FORMAT_Q6_K] = {.eight = block_read_q6_k, .halves = 1, .half_at = {208}},
	[FORMAT_IQ4_XS] = {.eight = block_read_iq4_xs, .halves = 1, .half_at = {0}},
	[FORMAT_IQ3_S] = {.eight = block_read_iq3_s, .halves = 1, .half_at = {0}},
};

size_t block_halves(enum format f, const uint8_t **at)
{
	*at = readers[f].half_at;
	return readers[f].halves;
}

void block_read(struct block *to, const struct shape *s, const struct pieces *row, size_t b)
{
	const uint8_t *p = row->weights;
	const size_t bytes = format_block_bytes(s->format);

	if (readers[s->format].one)
		readers[s->format].one(to, p + b * bytes);
	else if (readers[s->format].eight)
		readers[s->format].eight(to, p + b / 8 * bytes, b % 8);
	else if (s->format == FORMAT_MXFP4)
		block_read_mxfp4(to, row, b);
	else
		block_read_affine(to, s, row, b);
}
