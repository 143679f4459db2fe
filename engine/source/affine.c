/* MLX's affine codes: groups of 32, 64 or 128 numbers of a row, each 2, 3, 4, 5, 6 or 8 bits, with
 * a scale and an offset for each group (mlx.core.quantize).
 *
 * NAME.weight is U32 [..., rows, cols · bits / 32]: a row is one stream of bits, the first code in
 * the lowest bits of the first byte. NAME.scales and NAME.biases are F16, BF16 or F32
 * [..., rows, cols / group]; a number is code · scale + bias, here rounded once. Bits and group
 * size are config.json's "quantization", which may have others under the name of a module. Experts
 * are stacked in "switch_mlp". A matrix whose rows are not whole groups stays as it is.
 */
#include "engine/source/package_part.h"
#include "engine/source/quantization.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* By the bits of a code. */
static enum format format_of(uint32_t bits)
{
	for (enum format f = FORMAT_AFFINE2; f <= FORMAT_AFFINE8; f++)
		if (format_affine_bits(f) == bits)
			return f;
	return FORMAT_COUNT;
}

static enum norm_type norms_of(enum format f)
{
	return f == FORMAT_F32 ? NORM_F32 : f == FORMAT_F16 ? NORM_F16 : NORM_BF16;
}

static bool is_companion(const struct checkpoint_tensor *codes,
			 const struct checkpoint_tensor *companion, uint64_t groups)
{
	uint32_t d = codes->dims;
	return companion->dims == d && companion->known_type &&
	       !memcmp(companion->shape, codes->shape, (d - 1) * sizeof *codes->shape) &&
	       companion->shape[d - 1] == groups;
}

/* Codes of a row, from the bytes that it takes; 0: they are not whole groups of such codes. */
static uint64_t columns(const struct checkpoint_tensor *codes, uint32_t bits, uint32_t group)
{
	uint64_t words = codes->dims ? codes->shape[codes->dims - 1] : 0;
	uint64_t cols = words > UINT32_MAX ? 0 : words * 32 / bits;
	return words * 32 % bits == 0 && cols % group == 0 ? cols : 0;
}

static int describe(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	int failed = package_mlx_codes(in, t, false, e);
	if (failed)
		return failed;
	uint64_t cols = columns(in->codes, t->bits, t->group);
	if (!cols)
		return err_set(e, EINVAL,
			       "tensor %s: its rows are not whole groups of %u codes of %u bits, "
			       "which is what config.json says",
			       t->name, t->group, t->bits);
	for (int i = 0; i < ENCODING_COMPANIONS; i++)
		if (!is_companion(in->codes, in->companion[i], cols / t->group) ||
		    in->companion[i]->format != in->companion[0]->format)
			return package_misfit(in->companion[i], in->codes, e);
	t->dims = in->codes->dims;
	memcpy(t->shape, in->codes->shape, sizeof t->shape);
	t->shape[t->dims - 1] = cols;
	t->format = format_of(t->bits);
	t->norms = norms_of(in->companion[0]->format);
	t->parts = 3;
	t->part[0] = package_part_of(in->codes);
	t->part[1] = package_part_of(in->companion[0]);
	t->part[2] = package_part_of(in->companion[1]);
	return 0;
}

const struct encoding encoding_affine = {
	.name = "MLX affine codes",
	.type = "U32",
	.ending = ".weight",
	.own = ".weight",
	.companion = {".scales", ".biases"},
	.describe = describe,
};
