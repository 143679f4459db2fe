/* A row of any format as floats. */
#include "kernels/block.h"
#include "kernels/tc.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

/* The levels of a packed group. */
static void tq_levels(float x[TQ_GROUP], const uint8_t *packed, enum format f)
{
	const struct tq_codebook *book = tq_codebook(format_tq_bits(f));
	uint8_t index[TQ_GROUP];

	tq_unpack(index, packed, book->bits);
	for (size_t i = 0; i < TQ_GROUP; i++)
		x[i] = book->level[index[i]];
}

static void tc_levels(float x[TQ_GROUP], const uint8_t *packed, enum format f)
{
	const struct tc_codebook *book = tc_codebook(format_tq_bits(f));
	int8_t code[TQ_GROUP];

	tc_codes(code, packed, book->bits);
	for (size_t i = 0; i < TQ_GROUP; i++)
		x[i] = code[i] * book->gain;
}

static void dequantise_tq(float *out, const struct shape *s, const uint8_t *packed,
			  const uint8_t *norms)
{
	const size_t bytes = tq_group_bytes(format_tq_bits(s->format));

	for (size_t g = 0; g < tq_groups(s->cols); g++, packed += bytes) {
		float x[TQ_GROUP];
		const size_t start = g * TQ_GROUP;
		const size_t width = s->cols - start < TQ_GROUP ? s->cols - start : TQ_GROUP;
		const float norm = norm_at(norms, g, s->norms);

		if (format_is_trellis(s->format))
			tc_levels(x, packed, s->format);
		else
			tq_levels(x, packed, s->format);
		tq_unrotate(x);
		for (size_t i = 0; i < width; i++)
			out[start + i] = x[i] * norm;
	}
}

static void dequantise_blocks(float *out, const struct shape *s, const struct pieces *row)
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
		dequantise_tq(out, s, row, from->scales);
	} else if (format_is_block(s->format)) {
		dequantise_blocks(out, s, from);
	} else if (s->format == FORMAT_F32) {
		memmove(out, row, s->cols * sizeof *out);
	} else if (s->format == FORMAT_F16) {
		f16_row_to_f32(out, row, s->cols);
	} else {
		bf16_row_to_f32(out, row, s->cols);
	}
}
