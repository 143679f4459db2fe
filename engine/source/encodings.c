/* The encodings of published numbers: for each, which stored tensors belong together, the resulting
 * shape, and how to decode a row. Nothing here reads a file.
 */
#include "engine/source/package_inside.h"

#include "engine/source/quantization.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- parts ---- */

struct package_part encoding_part_of(const struct checkpoint_tensor *from)
{
	uint64_t rows = 1;
	for (uint32_t i = 0; i + 1 < from->dims; i++)
		rows *= from->shape[i];
	return (struct package_part){
		.file = from->file,
		.offset = from->place,
		.bytes = from->bytes,
		.row_bytes = rows ? from->bytes / rows : 0,
		.share = 1,
		.format = from->known_type ? from->format : FORMAT_COUNT,
	};
}

void encoding_take_as_is(struct package_tensor *t, const struct checkpoint_tensor *from)
{
	if (!from->known_type)
		return;
	t->format = from->format;
	t->parts = 1;
	t->part[0] = encoding_part_of(from);
}

int encoding_misfit(const struct checkpoint_tensor *companion,
		    const struct checkpoint_tensor *codes, struct err *e)
{
	char one[192], other[192];
	package_print_shape(one, sizeof one, companion->shape, companion->dims);
	package_print_shape(other, sizeof other, codes->shape, codes->dims);
	return err_set(e, EINVAL,
		       "tensor %s (type %s, shape %s) does not fit tensor %s (type %s, shape %s)",
		       companion->name, companion->type, one, codes->name, codes->type, other);
}

int encoding_mlx_codes(const struct encoded_tensor *in, struct package_tensor *t, bool mxfp4,
		       struct err *e)
{
	char module[1024];
	struct mlx_codes codes;
	(void)snprintf(module, sizeof module, "%.*s", (int)(strlen(t->name) - strlen(".weight")),
		       t->name);
	int failed = quantization_mlx(in->config, module, &codes, e);
	if (failed)
		return failed;
	if (codes.mxfp4 != mxfp4)
		return err_set(e, EINVAL,
			       "tensor %s: config.json says %s, but the scales are of %s", t->name,
			       codes.mxfp4 ? "MXFP4" : "affine codes",
			       mxfp4 ? "MXFP4" : "affine codes");
	t->bits = codes.bits;
	t->group = codes.group;
	return 0;
}

float encoding_float(const struct package_part *part, const uint8_t *bytes, size_t i)
{
	float f;
	const struct shape one = {.format = part->format, .rows = 1, .cols = 1};
	format_dequantise_row(
		&f, &one,
		&(struct pieces){.weights = bytes + i * (part->format == FORMAT_F32 ? 4 : 2)});
	return f;
}

/* ---- plain numbers ---- */

/* Plain numbers: F32, F16 and BF16; and integers of 32 or 64 bits, used for small tables. A tensor
 * of any other type gets no parts, so reading it is an error. */

static int encoding_plain_describe(struct package_tensor *t, const struct encoded_tensor *in,
				   struct err *e)
{
	const struct checkpoint_tensor *from = in->codes;
	(void)e;
	t->dims = from->dims;
	memcpy(t->shape, from->shape, sizeof t->shape);
	encoding_take_as_is(t, from);
	(void)encoding_take_whole(t, from);
	return 0;
}

bool encoding_take_whole(struct package_tensor *t, const struct checkpoint_tensor *from)
{
	if (strcmp(from->type, "I64") != 0 && strcmp(from->type, "I32") != 0)
		return false;
	t->format = FORMAT_COUNT;
	t->parts = 1;
	t->part[0] = encoding_part_of(from);
	return true;
}

static void encoding_whole_decode(const struct package_tensor *t, const uint8_t *const *part,
				  uint32_t cols, float *out)
{
	bool wide = !strcmp(t->type, "I64");
	for (uint32_t i = 0; i < cols; i++) {
		int64_t number;
		int32_t narrow;
		memcpy(&narrow, part[0] + i * sizeof narrow, sizeof narrow);
		if (wide)
			memcpy(&number, part[0] + i * sizeof number, sizeof number);
		out[i] = (float)(wide ? number : narrow);
	}
}

const struct encoding encoding_plain = {.name = "plain numbers",
					.describe = encoding_plain_describe,
					.decode = encoding_whole_decode};

/* ---- FP8 ---- */

/* FP8 with block scales, as DeepSeek-V3 publishes its weights (its technical report, 3.3.2; since
 * then Qwen3, GLM, MiniMax).
 *
 * NAME is F8_E4M3 [..., rows, cols]: sign, 4 bits of exponent with bias 7, 3 of mantissa (OCP 8-bit
 * floating point, E4M3: no infinities, 0x7f and 0xff are NaN). NAME_scale_inv is F32, BF16 or F16
 * [..., ceil(rows / R), ceil(cols / C)], R and C as config.json's weight_block_size says (128,
 * 128): one factor for each block of R x C codes, of which the last ones may be cut short. A number
 * is code · factor; the name says "inverse" because it is what the weights were divided by.
 *
 * DeepSeek-V4 has NAME.weight and NAME.scale, and its factors are F8_E8M0: 2^(byte - 127), of which 255
 * is NaN.
 *
 * Which modules were not converted (modules_to_not_convert) is seen by their types.
 */

static uint64_t encoding_fp8_blocks(uint64_t n, uint64_t block)
{
	return n / block + (n % block != 0);
}

static const char power_type[] = "F8_E8M0";

static bool encoding_has_powers(const struct encoded_tensor *in)
{
	return in->companion[0] && !strcmp(in->companion[0]->type, power_type);
}

static float encoding_power(uint8_t exponent)
{
	return exponent == 255 ? NAN : ldexpf(1, exponent - 127);
}

static bool encoding_fp8_fits(const struct checkpoint_tensor *codes,
			      const struct checkpoint_tensor *scales, const struct quantization *q)
{
	uint32_t d = codes->dims;
	bool numbers = scales->known_type || !strcmp(scales->type, power_type);
	return d >= 2 && scales->dims == d && numbers &&
	       !memcmp(scales->shape, codes->shape, (d - 2) * sizeof *codes->shape) &&
	       scales->shape[d - 2] == encoding_fp8_blocks(codes->shape[d - 2], q->block_rows) &&
	       scales->shape[d - 1] == encoding_fp8_blocks(codes->shape[d - 1], q->block_cols);
}

static int encoding_fp8_describe(struct package_tensor *t, const struct encoded_tensor *in,
				 struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	if (!in->config->block_rows)
		return err_set(e, EINVAL,
			       "tensor %s is in FP8, but config.json has no \"weight_block_size\" "
			       "in a \"quantization_config\" of the method fp8",
			       t->name);
	if (!encoding_fp8_fits(codes, scales, in->config))
		return encoding_misfit(scales, codes, e);
	t->dims = codes->dims;
	memcpy(t->shape, codes->shape, sizeof t->shape);
	t->bits = 8;
	t->group = in->config->block_cols;
	t->parts = 2;
	t->part[0] = encoding_part_of(codes);
	t->part[1] = encoding_part_of(scales);
	t->part[1].share = in->config->block_rows;
	return 0;
}

static float encoding_fp8_number(uint8_t code)
{
	int exponent = code >> 3 & 15, mantissa = code & 7;
	float magnitude = exponent ? ldexpf((float)(8 + mantissa), exponent - 10)
				   : ldexpf((float)mantissa, -9);
	if ((code & 0x7f) == 0x7f)
		return NAN;
	return code & 0x80 ? -magnitude : magnitude;
}

static void encoding_fp8_decode(const struct package_tensor *t, const uint8_t *const *part,
				uint32_t cols, float *out)
{
	float scale = 0;
	for (uint32_t i = 0; i < cols; i++) {
		if (i % t->group == 0)
			scale = t->part[1].format == FORMAT_COUNT
					? encoding_power(part[1][i / t->group])
					: encoding_float(&t->part[1], part[1], i / t->group);
		out[i] = encoding_fp8_number(part[0][i]) * scale;
	}
}

const struct encoding encoding_fp8 = {
	.name = "FP8",
	.type = "F8_E4M3",
	.ending = "",
	.own = "",
	.companion = {"_scale_inv"},
	.describe = encoding_fp8_describe,
	.decode = encoding_fp8_decode,
};

const struct encoding encoding_fp8_powers = {
	.name = "FP8",
	.type = "F8_E4M3",
	.ending = ".weight",
	.own = ".weight",
	.companion = {".scale"},
	.is = encoding_has_powers,
	.describe = encoding_fp8_describe,
	.decode = encoding_fp8_decode,
};

/* ---- MLX's affine codes ---- */

/* MLX's affine codes: groups of 32, 64 or 128 numbers of a row, each 2, 3, 4, 5, 6 or 8 bits, with
 * a scale and an offset for each group (mlx.core.quantize).
 *
 * NAME.weight is U32 [..., rows, cols · bits / 32]: a row is one stream of bits, the first code in
 * the lowest bits of the first byte. NAME.scales and NAME.biases are F16, BF16 or F32
 * [..., rows, cols / group]; a number is code · scale + bias, here rounded once. Bits and group
 * size are config.json's "quantization", which may have others under the name of a module. Experts
 * are stacked in "switch_mlp". A matrix whose rows are not whole groups stays as it is.
 */

/* The kernel format for codes of this many bits. */
static enum format encoding_affine_format(uint32_t bits)
{
	for (enum format f = FORMAT_AFFINE2; f <= FORMAT_AFFINE8; f++)
		if (format_affine_bits(f) == bits)
			return f;
	return FORMAT_COUNT;
}

static enum norm_type encoding_affine_norms(enum format f)
{
	return f == FORMAT_F32 ? NORM_F32 : f == FORMAT_F16 ? NORM_F16 : NORM_BF16;
}

static bool encoding_affine_is_companion(const struct checkpoint_tensor *codes,
					 const struct checkpoint_tensor *companion, uint64_t groups)
{
	uint32_t d = codes->dims;
	return companion->dims == d && companion->known_type &&
	       !memcmp(companion->shape, codes->shape, (d - 1) * sizeof *codes->shape) &&
	       companion->shape[d - 1] == groups;
}

/* The number of codes in a row of this many bytes; 0: not whole groups of codes. */
static uint64_t encoding_affine_columns(const struct checkpoint_tensor *codes, uint32_t bits,
					uint32_t group)
{
	uint64_t words = codes->dims ? codes->shape[codes->dims - 1] : 0;
	uint64_t cols = words > UINT32_MAX ? 0 : words * 32 / bits;
	return words * 32 % bits == 0 && cols % group == 0 ? cols : 0;
}

static int encoding_affine_describe(struct package_tensor *t, const struct encoded_tensor *in,
				    struct err *e)
{
	int failed = encoding_mlx_codes(in, t, false, e);
	if (failed)
		return failed;
	uint64_t cols = encoding_affine_columns(in->codes, t->bits, t->group);
	if (!cols)
		return err_set(e, EINVAL,
			       "tensor %s: the rows are not whole groups of %u codes of %u bits, "
			       "as config.json says",
			       t->name, t->group, t->bits);
	for (int i = 0; i < ENCODING_COMPANIONS; i++)
		if (!encoding_affine_is_companion(in->codes, in->companion[i], cols / t->group) ||
		    in->companion[i]->format != in->companion[0]->format)
			return encoding_misfit(in->companion[i], in->codes, e);
	t->dims = in->codes->dims;
	memcpy(t->shape, in->codes->shape, sizeof t->shape);
	t->shape[t->dims - 1] = cols;
	t->format = encoding_affine_format(t->bits);
	t->norms = encoding_affine_norms(in->companion[0]->format);
	t->parts = 3;
	t->part[0] = encoding_part_of(in->codes);
	t->part[1] = encoding_part_of(in->companion[0]);
	t->part[2] = encoding_part_of(in->companion[1]);
	return 0;
}

const struct encoding encoding_affine = {
	.name = "MLX affine codes",
	.type = "U32",
	.ending = ".weight",
	.own = ".weight",
	.companion = {".scales", ".biases"},
	.describe = encoding_affine_describe,
};

/* ---- MXFP4 ---- */

/* MXFP4: blocks of 32 numbers of 4 bits with one power of two in common (OCP Microscaling Formats
 * 1.0, MXFP4), as gpt-oss publishes its experts.
 *
 * NAME_blocks is U8 [..., rows, groups, 16]: a row's groups of 32 codes, two to a byte, the first
 * in the low bits. A code is E2M1: sign, 2 bits of exponent with bias 1, 1 of mantissa, so that the
 * magnitudes are 0, 0.5, 1, 1.5, 2, 3, 4, 6. NAME_scales is U8 [..., rows, groups], E8M0: a number
 * is code · 2^(scale - 127), and 255 is NaN.
 *
 * MLX has the same bytes as NAME.weight, U32 [..., rows, columns / 8], and NAME.scales, and no
 * biases, which distinguishes them from its affine codes. DeepSeek-V4 has them as NAME.weight, I8
 * [..., rows, columns / 2], and NAME.scale, F8_E8M0 [..., rows, groups].
 *
 * The tensor keeps the name NAME_blocks. A checkpoint in 16 bits has NAME instead, with another
 * layout ([..., columns, rows] in gpt-oss), so the name tells which layout it is.
 */

enum { BLOCK = 32, BLOCK_BYTES = BLOCK / 2 };

static int encoding_mxfp4_describe(struct package_tensor *t, const struct encoded_tensor *in,
				   struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	uint32_t d = codes->dims;
	if (d < 2 || codes->shape[d - 1] != BLOCK_BYTES || scales->dims != d - 1 ||
	    strcmp(scales->type, "U8") != 0 ||
	    memcmp(scales->shape, codes->shape, (d - 1) * sizeof *codes->shape) != 0)
		return encoding_misfit(scales, codes, e);
	t->dims = d - 1;
	memcpy(t->shape, codes->shape, t->dims * sizeof *t->shape);
	t->shape[t->dims - 1] *= BLOCK; /* 16 bytes each are in the file: far from overflow */
	t->format = FORMAT_MXFP4;
	t->bits = 4;
	t->group = BLOCK;
	t->parts = 2;
	t->part[0] = encoding_part_of(codes);
	t->part[0].row_bytes *= codes->shape[d - 2];
	t->part[1] = encoding_part_of(scales);
	return 0;
}

const struct encoding encoding_mxfp4 = {
	.name = "MXFP4",
	.type = "U8",
	.ending = "_blocks",
	.own = "_blocks",
	.companion = {"_scales"},
	.describe = encoding_mxfp4_describe,
};

/* ---- the same by MLX' names ---- */

enum { WORD_CODES = 8 };

static bool encoding_mlx_mxfp4_is(const struct encoded_tensor *in)
{
	return in->companion[0] && !strcmp(in->companion[0]->type, "U8");
}

static int encoding_mlx_mxfp4_describe(struct package_tensor *t, const struct encoded_tensor *in,
				       struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	uint32_t d = codes->dims;
	int failed = encoding_mlx_codes(in, t, true, e);
	if (failed)
		return failed;
	if (d < 2 || scales->dims != d || codes->shape[d - 1] % (BLOCK / WORD_CODES) != 0 ||
	    memcmp(scales->shape, codes->shape, (d - 1) * sizeof *codes->shape) != 0 ||
	    scales->shape[d - 1] != codes->shape[d - 1] / (BLOCK / WORD_CODES))
		return encoding_misfit(scales, codes, e);
	t->dims = d;
	memcpy(t->shape, codes->shape, d * sizeof *t->shape);
	t->shape[d - 1] *= WORD_CODES; /* 4 bytes of each word are in the file */
	t->format = FORMAT_MXFP4;
	t->parts = 2;
	t->part[0] = encoding_part_of(codes);
	t->part[1] = encoding_part_of(scales);
	return 0;
}

const struct encoding encoding_mlx_mxfp4 = {
	.name = "MXFP4",
	.type = "U32",
	.ending = ".weight",
	.own = ".weight",
	.companion = {".scales"},
	.is = encoding_mlx_mxfp4_is,
	.describe = encoding_mlx_mxfp4_describe,
};

/* ---- the same by DeepSeek's names ---- */

static int encoding_pairs_describe(struct package_tensor *t, const struct encoded_tensor *in,
				   struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	uint32_t d = codes->dims;
	if (d < 2 || scales->dims != d || codes->shape[d - 1] % BLOCK_BYTES != 0 ||
	    memcmp(scales->shape, codes->shape, (d - 1) * sizeof *codes->shape) != 0 ||
	    scales->shape[d - 1] != codes->shape[d - 1] / BLOCK_BYTES)
		return encoding_misfit(scales, codes, e);
	t->dims = d;
	memcpy(t->shape, codes->shape, d * sizeof *t->shape);
	t->shape[d - 1] *= 2; /* a byte of each two is in the file: far from overflow */
	t->format = FORMAT_MXFP4;
	t->bits = 4;
	t->group = BLOCK;
	t->parts = 2;
	t->part[0] = encoding_part_of(codes);
	t->part[1] = encoding_part_of(scales);
	return 0;
}

const struct encoding encoding_mxfp4_pairs = {
	.name = "MXFP4",
	.type = "I8",
	.ending = ".weight",
	.own = ".weight",
	.companion = {".scale"},
	.is = encoding_has_powers,
	.describe = encoding_pairs_describe,
};

/* ---- TQ and TC ---- */

/* Native TQ and TC: this project's own weight formats as checkpoints have them (kernels/README.md
 * says what the bits mean).
 *
 * In place of NAME there are NAME.tq_packed, U8 [rows · groups, bytes of a group], and
 * NAME.tq_norms, F32 or F16 [rows, groups]; a group is 128 numbers, and 32, 48 or 64 bytes of it
 * say that they are of 2, 3 or 4 bits, for each tensor by itself, whatever tq_config.json says.
 * Older files keep ".weight" in NAME, newer ones drop it (package_find knows both). Stacked experts
 * are flattened to rows, and rows are padded to whole groups, so the exact shape is not known.
 *
 * TC has the same in NAME.tc_packed and NAME.tc_norms. The names differ, since a program that knows
 * only TQ would read trellis codes as indices.
 */

/* The format for this many bytes per group; the formats of 2, 3 and 4 bits are consecutive. */
static enum format encoding_tq_format(uint64_t bytes, enum format first)
{
	for (enum format f = first; f <= first + 2; f++)
		if (bytes == (uint64_t)format_tq_bits(f) * TQ_GROUP / 8)
			return f;
	return FORMAT_COUNT;
}

static int encoding_tq_or_tc_describe(struct package_tensor *t, const struct encoded_tensor *in,
				      enum format first, struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *norms = in->companion[0];
	uint64_t rows = norms->shape[0], groups = norms->shape[1], all;
	enum format format =
		codes->dims == 2 ? encoding_tq_format(codes->shape[1], first) : FORMAT_COUNT;
	if (format == FORMAT_COUNT)
		return err_set(e, EINVAL,
			       "tensor %s does not consist of groups of 32, 48 or 64 bytes (2, 3 "
			       "or 4 bits)",
			       codes->name);
	bool typed = norms->known_type && norms->format != FORMAT_BF16;
	if (!typed || norms->dims != 2 || __builtin_mul_overflow(rows, groups, &all) ||
	    all != codes->shape[0] || !format_fits(rows, groups) ||
	    !format_fits(rows, groups * TQ_GROUP))
		return encoding_misfit(norms, codes, e);
	t->dims = 2;
	t->shape[0] = rows;
	t->shape[1] = groups * TQ_GROUP;
	t->padded = TQ_GROUP;
	t->format = format;
	t->norms = norms->format == FORMAT_F16 ? NORM_F16 : NORM_F32;
	t->bits = format_tq_bits(format);
	t->group = TQ_GROUP;
	t->parts = 2;
	t->part[0] = encoding_part_of(codes);
	t->part[0].row_bytes *= groups;
	t->part[1] = encoding_part_of(norms);
	return 0;
}

static int encoding_tq_describe(struct package_tensor *t, const struct encoded_tensor *in,
				struct err *e)
{
	return encoding_tq_or_tc_describe(t, in, FORMAT_TQ2, e);
}

static int encoding_tc_describe(struct package_tensor *t, const struct encoded_tensor *in,
				struct err *e)
{
	return encoding_tq_or_tc_describe(t, in, FORMAT_TC2, e);
}

const struct encoding encoding_tq = {
	.name = "native TQ",
	.type = "U8",
	.ending = ".tq_packed",
	.own = "",
	.companion = {".tq_norms"},
	.describe = encoding_tq_describe,
};

const struct encoding encoding_tc = {
	.name = "native TC",
	.type = "U8",
	.ending = ".tc_packed",
	.own = "",
	.companion = {".tc_norms"},
	.describe = encoding_tc_describe,
};

/* ---- blocks ---- */

/* GGUF's blocks as this project's own stores have them: in place of NAME there is NAME.q8_0 (q6_k,
 * q5_0), U8 [rows, bytes of a row], a row being whole blocks. */
static int encoding_blocks_describe(struct package_tensor *t, const struct encoded_tensor *in,
				    enum format format, uint32_t bits, struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes;
	struct shape block = {.format = format, .rows = 1};
	uint64_t cols = format_block_cols(&block), bytes = format_block_bytes(format);
	bool whole = codes->dims == 2 && codes->shape[1] && codes->shape[1] % bytes == 0 &&
		     format_fits(codes->shape[0], codes->shape[1] / bytes);
	if (!whole || !format_fits(codes->shape[0], codes->shape[1] / bytes * cols))
		return err_set(e, EINVAL, "tensor %s: the rows are not whole blocks of %llu bytes",
			       codes->name, (unsigned long long)bytes);
	t->dims = 2;
	t->shape[0] = codes->shape[0];
	t->shape[1] = codes->shape[1] / bytes * cols;
	t->format = format;
	t->bits = bits;
	t->parts = 1;
	t->part[0] = encoding_part_of(codes);
	return 0;
}

static int encoding_q8_0_describe(struct package_tensor *t, const struct encoded_tensor *in,
				  struct err *e)
{
	return encoding_blocks_describe(t, in, FORMAT_Q8_0, 8, e);
}

static int encoding_q6_k_describe(struct package_tensor *t, const struct encoded_tensor *in,
				  struct err *e)
{
	return encoding_blocks_describe(t, in, FORMAT_Q6_K, 6, e);
}

static int encoding_q5_0_describe(struct package_tensor *t, const struct encoded_tensor *in,
				  struct err *e)
{
	return encoding_blocks_describe(t, in, FORMAT_Q5_0, 5, e);
}

const struct encoding encoding_q8_0 = {
	.name = "Q8_0",
	.type = "U8",
	.ending = ".q8_0",
	.own = "",
	.describe = encoding_q8_0_describe,
};

const struct encoding encoding_q6_k = {
	.name = "Q6_K",
	.type = "U8",
	.ending = ".q6_k",
	.own = "",
	.describe = encoding_q6_k_describe,
};

const struct encoding encoding_q5_0 = {
	.name = "Q5_0",
	.type = "U8",
	.ending = ".q5_0",
	.own = "",
	.describe = encoding_q5_0_describe,
};
