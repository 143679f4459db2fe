/* Rows of floats into blocks of GGUF files.
 *
 * A scale is found as follows. The number of largest magnitude is mapped to the code of largest
 * magnitude, which is negative, or a little beyond or within it. For the codes that this gives the
 * best scale is known (least squares), and so is the error that is left; the best of all is taken.
 * On normally distributed numbers the relative squared error is 2.8e-5 in Q8_0, 1.65e-3 in Q5_0 and
 * 2.9e-4 in Q6_K. Every sum has one order, so a store's bytes do not depend on the machine. */
#include "kernels/block.h"

#include <math.h>
#include <string.h>

enum { K_BLOCK = 256, K_PARTS = K_BLOCK / HALF_BLOCK };

/* Where the largest number is mapped to, as a share of the largest code. */
static const float block_stretches[] = {1.04F, 1, .96F, .92F};
enum { STRETCHES = sizeof block_stretches / sizeof *block_stretches };

static uint8_t *block_put_half(uint8_t *to, float f)
{
	const uint16_t half = f16_from_f32(f);
	memcpy(to, &half, sizeof half);
	return to + sizeof half;
}

static float block_as_half(float f)
{
	return f16_to_f32(f16_from_f32(f));
}

/* The code of a number in steps of a scale: -least … least - 1, and never NaN. */
static float block_code(float x, float inverse, float least)
{
	const float to_whole = 0x1.8p23F; /* adding rounds to whole numbers, halves to even */
	const float code = x * inverse, most = least - 1;
	const float within = code > -least ? (code < most ? code : most) : -least;
	return (within + to_whole) - to_whole;
}

static float block_inverse(float scale)
{
	return scale != 0 ? 1 / scale : 0;
}

/* The number of largest magnitude, with its sign. */
static float block_most(const float *x, int n)
{
	float most = 0;
	for (int i = 0; i < n; i++)
		if (fabsf(x[i]) > fabsf(most))
			most = x[i];
	return most;
}

/* The scale of n numbers with codes from -least on. */
static float block_best_scale(const float *x, int n, float least)
{
	const float most = block_most(x, n);
	float best = 0, best_gain = 0;
	for (int t = 0; t < STRETCHES; t++) {
		const float inverse = block_inverse(most / (-least * block_stretches[t]));
		float products = 0, squares = 0;
		for (int i = 0; i < n; i++) {
			const float code = block_code(x[i], inverse, least);
			products += code * x[i];
			squares += code * code;
		}
		/* The squared error is that of zeros less this. */
		const float gain = squares > 0 ? products * products / squares : 0;
		if (gain > best_gain) {
			best_gain = gain;
			best = products / squares;
		}
	}
	return best;
}

static bool block_quantise_q8_0(uint8_t *to, const float *x)
{
	const float scale = block_as_half(fabsf(block_most(x, BLOCK)) / 127);
	if (!isfinite(scale))
		return false;
	to = block_put_half(to, scale);
	for (int i = 0; i < BLOCK; i++) {
		const float code = scale > 0 ? roundf(x[i] / scale) : 0;
		to[i] = (uint8_t)(int8_t)fminf(fmaxf(code, -127), 127);
	}
	return true;
}

/* A float, 4 bytes of fifth bits, 16 of the others. */
static bool block_quantise_q5_0(uint8_t *to, const float *x)
{
	const float scale = block_as_half(block_best_scale(x, BLOCK, 16));
	const float inverse = block_inverse(scale);
	uint32_t fifth = 0;
	uint8_t codes[BLOCK];
	if (!isfinite(scale))
		return false;
	for (int i = 0; i < BLOCK; i++) {
		codes[i] = (uint8_t)(block_code(x[i], inverse, 16) + 16);
		fifth |= (uint32_t)(codes[i] >> 4) << i;
	}
	to = block_put_half(to, scale);
	memcpy(to, &fifth, sizeof fifth);
	to += sizeof fifth;
	for (int i = 0; i < HALF_BLOCK; i++)
		to[i] = (uint8_t)((codes[i] & 15) | codes[i + HALF_BLOCK] << 4);
	return true;
}

/* The float of Q6_K's integer scales: the largest of these becomes -128. Small ones need a float
 * that is not 0. */
static float block_scale_of_scales(const float scales[K_PARTS])
{
	const float least_half = 0x1p-24F, most = block_most(scales, K_PARTS) / -128;
	return most != 0 && fabsf(most) < least_half ? copysignf(least_half, most)
						     : block_as_half(most);
}

/* 256 codes of 6 bits: four bits of two in each of 128 bytes, two bits of four in each of 64. */
static void block_put_q6_k_codes(uint8_t *to, const uint8_t codes[K_BLOCK])
{
	memset(to, 0, K_BLOCK / 2 + K_BLOCK / 4);
	for (int i = 0; i < K_BLOCK; i++) {
		const int half = i / 128, in = i % 128 / BLOCK, at = i % BLOCK;
		to[half * 64 + in % 2 * BLOCK + at] |= (uint8_t)((codes[i] & 15) << 4 * (in / 2));
		to[128 + half * BLOCK + at] |= (uint8_t)(codes[i] >> 4 << 2 * in);
	}
}

/* Codes, 16 integer scales, a float. */
static bool block_quantise_q6_k(uint8_t *to, const float *x)
{
	float scales[K_PARTS];
	uint8_t codes[K_BLOCK], *integers = to + K_BLOCK / 2 + K_BLOCK / 4;
	for (int i = 0; i < K_PARTS; i++)
		scales[i] = block_best_scale(x + i * HALF_BLOCK, HALF_BLOCK, 32);
	const float d = block_scale_of_scales(scales), inverse = block_inverse(d);
	if (!isfinite(d))
		return false;
	for (int i = 0; i < K_PARTS; i++) {
		const float integer = block_code(scales[i], inverse, 128);
		const float step = block_inverse(d * integer);
		integers[i] = (uint8_t)(int8_t)integer;
		for (int k = i * HALF_BLOCK; k < (i + 1) * HALF_BLOCK; k++)
			codes[k] = (uint8_t)(block_code(x[k], step, 32) + 32);
	}
	block_put_q6_k_codes(to, codes);
	(void)block_put_half(integers + K_PARTS, d);
	return true;
}

static const struct {
	bool (*one)(uint8_t *block, const float *x);
	uint32_t cols;
} quantisers[FORMAT_COUNT] = {
	[FORMAT_Q8_0] = {block_quantise_q8_0, BLOCK},
	[FORMAT_Q5_0] = {block_quantise_q5_0, BLOCK},
	[FORMAT_Q6_K] = {block_quantise_q6_k, K_BLOCK},
};

bool block_can_quantise(enum format f)
{
	return quantisers[f].one != NULL;
}

bool block_quantise(enum format f, uint8_t *packed, const float *row, uint32_t cols)
{
	const uint32_t bytes = format_block_bytes(f), of = quantisers[f].cols;
	for (uint32_t at = 0; at < cols; at += of, packed += bytes)
		if (!quantisers[f].one(packed, row + at))
			return false;
	return true;
}
