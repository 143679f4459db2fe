/* Whether weights are numbers, without taking codes out of their bytes: codes always are, and what
 * they are multiplied with is a hundredth of the bytes. */
#include "kernels/watch.h"

#include <string.h>

/* Largest magnitudes, as bits: numbers; and scales, of which a code's multiples are numbers. */
enum { F16_MOST = 0x7bff, F32_MOST = 0x7f7fffff, BF16_MOST = F32_MOST >> 16 };
enum { SCALE_MOST = 0x7149f2ca /* 1e30 */, SCALE_BF16_MOST = SCALE_MOST >> 16 };
enum { EXPONENT_MOST = 226 /* 2^99 */ };

/* Of n elements that lie `stride` bytes apart, those of so many bytes each. */
static uint32_t most_of_2(const uint8_t *at, size_t n, size_t stride)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++, at += stride) {
		uint16_t x;
		memcpy(&x, at, sizeof x);
		x &= 0x7fff;
		most = x > most ? x : most;
	}
	return most;
}

/* Whether n magnitudes of four bytes are at most so large: a difference below zero says no, in a
 * chain of one instruction where the largest takes four. */
static bool within_4(const uint8_t *at, size_t n, int32_t most)
{
	int32_t left = 0;
	for (size_t i = 0; i < n; i++) {
		int32_t x;
		memcpy(&x, at + i * sizeof x, sizeof x);
		left |= most - (x & INT32_MAX);
	}
	return left >= 0;
}

static uint32_t most_of_1(const uint8_t *at, size_t n, size_t stride)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++, at += stride)
		most = *at > most ? *at : most;
	return most;
}

static bool floats_are_finite(const struct shape *s, const uint8_t *at)
{
	size_t n = (size_t)s->rows * s->cols;
	if (s->format == FORMAT_F32)
		return within_4(at, n, F32_MOST);
	return most_of_2(at, n, 2) <= (s->format == FORMAT_F16 ? F16_MOST : BF16_MOST);
}

static bool norms_are_finite(const struct shape *s, const uint8_t *at, size_t bytes)
{
	if (s->norms == NORM_F32)
		return within_4(at, bytes / 4, SCALE_MOST);
	return most_of_2(at, bytes / 2, 2) <= (s->norms == NORM_F16 ? F16_MOST : SCALE_BF16_MOST);
}

/* Where a block has its F16 scale, and a second one or an offset; NONE: it is not there. */
enum { NONE = 0xff };
static const struct {
	uint8_t first, second;
} halves[FORMAT_COUNT] = {
	[FORMAT_Q8_0] = {0, NONE},   [FORMAT_Q4_0] = {0, NONE},	  [FORMAT_Q4_1] = {0, 2},
	[FORMAT_Q5_0] = {0, NONE},   [FORMAT_Q5_1] = {0, 2},	  [FORMAT_Q2_K] = {80, 82},
	[FORMAT_Q3_K] = {108, NONE}, [FORMAT_Q4_K] = {0, 2},	  [FORMAT_Q5_K] = {0, 2},
	[FORMAT_Q6_K] = {208, NONE}, [FORMAT_IQ4_NL] = {0, NONE}, [FORMAT_IQ4_XS] = {0, NONE},
	[FORMAT_IQ3_S] = {0, NONE},
};

static bool blocks_are_finite(const struct shape *s, const uint8_t *at)
{
	size_t stride = format_block_bytes(s->format), n = format_packed_bytes(s) / stride;
	uint8_t second = halves[s->format].second;
	if (s->format == FORMAT_MXFP4_GGUF)
		return most_of_1(at, n, stride) <= EXPONENT_MOST;
	return most_of_2(at + halves[s->format].first, n, stride) <= F16_MOST &&
	       (second == NONE || most_of_2(at + second, n, stride) <= F16_MOST);
}

bool format_is_finite(const struct shape *s, const struct pieces *from)
{
	watch_pieces(s, from);
	if (format_is_float(s->format))
		return floats_are_finite(s, from->weights);
	if (s->format == FORMAT_MXFP4)
		return most_of_1(from->scales, format_norm_bytes(s), 1) <= EXPONENT_MOST;
	if (format_is_tq(s->format))
		return norms_are_finite(s, from->scales, format_norm_bytes(s));
	if (format_affine_bits(s->format))
		return norms_are_finite(s, from->scales, format_norm_bytes(s)) &&
		       norms_are_finite(s, from->biases, format_bias_bytes(s));
	return blocks_are_finite(s, from->weights);
}
