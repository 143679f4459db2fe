/* The table of weight formats, and the sizes that matrices have in files. format_arrange.c brings
 * them into memory, format_floats.c makes floats of them. */
#include "kernels/format.h"
#include "kernels/block.h"
#include "kernels/tq.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "weights on disk are little-endian and are read in place");

static const struct {
	const char *name;
	uint8_t element_bytes; /* of a float */
	uint8_t tq_bits, affine_bits;
	bool trellis;
	/* A block: columns, bytes of its weights, and bytes of scales in a piece of their own. */
	uint16_t cols, bytes, scale_bytes;
} formats[FORMAT_COUNT] = {
	[FORMAT_F32] = {"f32", .element_bytes = 4},
	[FORMAT_F16] = {"f16", .element_bytes = 2},
	[FORMAT_BF16] = {"bf16", .element_bytes = 2},
	[FORMAT_TQ2] = {"tq2", .tq_bits = 2},
	[FORMAT_TQ3] = {"tq3", .tq_bits = 3},
	[FORMAT_TQ4] = {"tq4", .tq_bits = 4},
	[FORMAT_TC2] = {"tc2", .tq_bits = 2, .trellis = true},
	[FORMAT_TC3] = {"tc3", .tq_bits = 3, .trellis = true},
	[FORMAT_TC4] = {"tc4", .tq_bits = 4, .trellis = true},
	[FORMAT_Q8_0] = {"q8_0", .cols = 32, .bytes = 34},
	[FORMAT_Q4_0] = {"q4_0", .cols = 32, .bytes = 18},
	[FORMAT_Q4_1] = {"q4_1", .cols = 32, .bytes = 20},
	[FORMAT_Q5_0] = {"q5_0", .cols = 32, .bytes = 22},
	[FORMAT_Q5_1] = {"q5_1", .cols = 32, .bytes = 24},
	[FORMAT_Q2_K] = {"q2_k", .cols = 256, .bytes = 84},
	[FORMAT_Q3_K] = {"q3_k", .cols = 256, .bytes = 110},
	[FORMAT_Q4_K] = {"q4_k", .cols = 256, .bytes = 144},
	[FORMAT_Q5_K] = {"q5_k", .cols = 256, .bytes = 176},
	[FORMAT_Q6_K] = {"q6_k", .cols = 256, .bytes = 210},
	[FORMAT_IQ4_NL] = {"iq4_nl", .cols = 32, .bytes = 18},
	[FORMAT_IQ4_XS] = {"iq4_xs", .cols = 256, .bytes = 136},
	[FORMAT_IQ3_S] = {"iq3_s", .cols = 256, .bytes = 110},
	[FORMAT_MXFP4_GGUF] = {"mxfp4_gguf", .cols = 32, .bytes = 17},
	[FORMAT_MXFP4] = {"mxfp4", .cols = 32, .bytes = 16, .scale_bytes = 1},
	[FORMAT_AFFINE2] = {"affine2", .affine_bits = 2, .cols = 32, .bytes = 8},
	[FORMAT_AFFINE3] = {"affine3", .affine_bits = 3, .cols = 32, .bytes = 12},
	[FORMAT_AFFINE4] = {"affine4", .affine_bits = 4, .cols = 32, .bytes = 16},
	[FORMAT_AFFINE5] = {"affine5", .affine_bits = 5, .cols = 32, .bytes = 20},
	[FORMAT_AFFINE6] = {"affine6", .affine_bits = 6, .cols = 32, .bytes = 24},
	[FORMAT_AFFINE8] = {"affine8", .affine_bits = 8, .cols = 32, .bytes = 32},
};

const char *format_name(enum format f)
{
	return formats[f].name;
}

enum format format_named(const char *name)
{
	int f = 0;
	while (f < FORMAT_COUNT && strcmp(name, formats[f].name) != 0)
		f++;
	return (enum format)f;
}

uint32_t format_tq_bits(enum format f)
{
	return formats[f].tq_bits;
}

bool format_is_trellis(enum format f)
{
	return formats[f].trellis;
}

bool format_is_block(enum format f)
{
	return formats[f].cols != 0;
}

enum input_form format_input(enum format f)
{
	return format_is_tq(f) ? INPUT_TQ : format_is_block(f) ? INPUT_BLOCKS : INPUT_FLOATS;
}

uint32_t format_affine_bits(enum format f)
{
	return formats[f].affine_bits;
}

uint32_t format_block_bytes(enum format f)
{
	return formats[f].bytes;
}

uint32_t format_block_cols(const struct shape *s)
{
	if (formats[s->format].affine_bits)
		return s->group;
	return formats[s->format].cols ? formats[s->format].cols : 1;
}

/* Sixteen million rows suffice for any vocabulary and for the flattened experts of a layer, a
 * million columns for any hidden size; the largest matrix is then 2^46 bytes, far from overflow. */
bool format_fits(uint64_t rows, uint64_t cols)
{
	return rows >= 1 && rows <= UINT64_C(1) << 24 && cols >= 1 && cols <= UINT64_C(1) << 20;
}

bool format_shape_fits(const struct shape *s)
{
	if ((unsigned)s->format >= FORMAT_COUNT || !format_fits(s->rows, s->cols))
		return false;
	if (format_is_tq(s->format))
		return s->norms == NORM_F16 || s->norms == NORM_F32;
	if (formats[s->format].affine_bits &&
	    ((s->group != 32 && s->group != 64 && s->group != 128) ||
	     (unsigned)s->norms > NORM_BF16))
		return false;
	return s->cols % format_block_cols(s) == 0;
}

size_t format_packed_bytes(const struct shape *s)
{
	if (format_is_tq(s->format))
		return s->rows * tq_groups(s->cols) * tq_group_bytes(format_tq_bits(s->format));
	if (format_is_block(s->format))
		return (size_t)s->rows * (s->cols / formats[s->format].cols) *
		       formats[s->format].bytes;
	return (size_t)s->rows * s->cols * formats[s->format].element_bytes;
}

/* Canonical bytes of the scales, or of the biases. */
static size_t format_affine_norm_bytes(const struct shape *s)
{
	return (size_t)s->rows * (s->cols / s->group) * format_norm_type_bytes(s->norms);
}

size_t format_norm_bytes(const struct shape *s)
{
	if (format_is_tq(s->format))
		return s->rows * tq_groups(s->cols) * format_norm_type_bytes(s->norms);
	if (formats[s->format].affine_bits)
		return format_affine_norm_bytes(s);
	return (size_t)s->rows * (s->cols / BLOCK) * formats[s->format].scale_bytes;
}

size_t format_bias_bytes(const struct shape *s)
{
	return formats[s->format].affine_bits ? format_affine_norm_bytes(s) : 0;
}

float format_norm_at(const void *norms, size_t i, enum norm_type type)
{
	uint16_t half;
	float f;

	if (type == NORM_F32) {
		memcpy(&f, (const uint8_t *)norms + sizeof f * i, sizeof f);
		return f;
	}
	memcpy(&half, (const uint8_t *)norms + sizeof half * i, sizeof half);
	return type == NORM_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}
