/* A row of any format as floats, and whether a matrix holds numbers only. */
#include "kernels/block.h"
#include "kernels/tc.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

static void format_tq_levels(float x[TQ_GROUP], const uint8_t *packed, enum format f)
{
	const struct tq_codebook *book = tq_codebook(format_tq_bits(f));
	uint8_t index[TQ_GROUP];

	tq_unpack(index, packed, book->bits);
	for (size_t i = 0; i < TQ_GROUP; i++)
		x[i] = book->level[index[i]];
}

static void format_tc_levels(float x[TQ_GROUP], const uint8_t *packed, enum format f)
{
	const struct tc_codebook *book = tc_codebook(format_tq_bits(f));
	int8_t code[TQ_GROUP];

	tc_codes(code, packed, book->bits);
	for (size_t i = 0; i < TQ_GROUP; i++)
		x[i] = code[i] * book->gain;
}

static void format_dequantise_tq(float *out, const struct shape *s, const uint8_t *packed,
				 const uint8_t *norms)
{
	const size_t bytes = tq_group_bytes(format_tq_bits(s->format));

	for (size_t g = 0; g < tq_groups(s->cols); g++, packed += bytes) {
		float x[TQ_GROUP];
		const size_t start = g * TQ_GROUP;
		const size_t width = s->cols - start < TQ_GROUP ? s->cols - start : TQ_GROUP;
		const float norm = format_norm_at(norms, g, s->norms);

		if (format_is_trellis(s->format))
			format_tc_levels(x, packed, s->format);
		else
			format_tq_levels(x, packed, s->format);
		tq_unrotate(x);
		for (size_t i = 0; i < width; i++)
			out[start + i] = x[i] * norm;
	}
}

static void format_dequantise_blocks(float *out, const struct shape *s, const struct pieces *row)
{
	for (size_t b = 0; b < s->cols / BLOCK; b++) {
		struct block block;
		block_read(&block, s, row, b);
		for (size_t i = 0; i < BLOCK; i++)
			out[b * BLOCK + i] = fmaf(block.code[i], block.scale[i / HALF_BLOCK],
						  block.offset[i / HALF_BLOCK]);
	}
}

void format_dequantise_row(float *out, const struct shape *s, const struct pieces *from)
{
	const uint8_t *row = from->weights;
	struct shape one = *s;

	one.rows = 1;
	watch_pieces(&one, from);
	watch_write(out, s->cols * sizeof *out);
	if (format_is_tq(s->format)) {
		format_dequantise_tq(out, s, row, from->scales);
	} else if (format_is_block(s->format)) {
		format_dequantise_blocks(out, s, from);
	} else if (s->format == FORMAT_F32) {
		memmove(out, row, s->cols * sizeof *out);
	} else if (s->format == FORMAT_F16) {
		f16_row_to_f32(out, row, s->cols);
	} else {
		bf16_row_to_f32(out, row, s->cols);
	}
}

/* ---- whether all weights are finite ----
 *
 * Codes always are. Scales are a hundredth of the bytes, so only scales are read. */

/* Largest magnitudes, as bits: of numbers, and of scales whose products with codes are finite. */
enum { F16_MOST = 0x7bff, F32_MOST = 0x7f7fffff, BF16_MOST = F32_MOST >> 16 };
enum { SCALE_MOST = 0x7149f2ca /* 1e30 */, SCALE_BF16_MOST = SCALE_MOST >> 16 };
enum { EXPONENT_MOST = 226 /* 2^99 */ };

/* The largest magnitude of n 16-bit floats, as bits. Each lies `stride` bytes after the one before.
 */
static uint32_t format_largest_u16(const uint8_t *at, size_t n, size_t stride)
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

/* Whether the magnitudes of n 32-bit floats, as bits, are at most `most`. A negative difference
 * means no: this takes one instruction per element; finding the largest takes four. */
static bool format_f32_within(const uint8_t *at, size_t n, int32_t most)
{
	int32_t left = 0;
	for (size_t i = 0; i < n; i++) {
		int32_t x;
		memcpy(&x, at + i * sizeof x, sizeof x);
		left |= most - (x & INT32_MAX);
	}
	return left >= 0;
}

/* The largest of n bytes, each `stride` bytes after the one before. */
static uint32_t format_largest_u8(const uint8_t *at, size_t n, size_t stride)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++, at += stride)
		most = *at > most ? *at : most;
	return most;
}

static bool format_floats_are_finite(const struct shape *s, const uint8_t *at)
{
	size_t n = (size_t)s->rows * s->cols;
	if (s->format == FORMAT_F32)
		return format_f32_within(at, n, F32_MOST);
	return format_largest_u16(at, n, 2) <= (s->format == FORMAT_F16 ? F16_MOST : BF16_MOST);
}

static bool format_norms_are_finite(const struct shape *s, const uint8_t *at, size_t bytes)
{
	if (s->norms == NORM_F32)
		return format_f32_within(at, bytes / 4, SCALE_MOST);
	return format_largest_u16(at, bytes / 2, 2) <=
	       (s->norms == NORM_F16 ? F16_MOST : SCALE_BF16_MOST);
}

static bool format_blocks_are_finite(const struct shape *s, const uint8_t *blocks)
{
	size_t stride = format_block_bytes(s->format), n = format_packed_bytes(s) / stride;
	const uint8_t *at;
	size_t halves = block_halves(s->format, &at);
	if (s->format == FORMAT_MXFP4_GGUF)
		return format_largest_u8(blocks, n, stride) <= EXPONENT_MOST;
	for (size_t h = 0; h < halves; h++)
		if (format_largest_u16(blocks + at[h], n, stride) > F16_MOST)
			return false;
	return true;
}

bool format_is_finite(const struct shape *s, const struct pieces *from)
{
	watch_pieces(s, from);
	if (format_is_float(s->format))
		return format_floats_are_finite(s, from->weights);
	if (s->format == FORMAT_MXFP4)
		return format_largest_u8(from->scales, format_norm_bytes(s), 1) <= EXPONENT_MOST;
	if (format_is_tq(s->format))
		return format_norms_are_finite(s, from->scales, format_norm_bytes(s));
	if (format_affine_bits(s->format))
		return format_norms_are_finite(s, from->scales, format_norm_bytes(s)) &&
		       format_norms_are_finite(s, from->biases, format_bias_bytes(s));
	return format_blocks_are_finite(s, from->weights);
}
