/* MXFP4: blocks of 32 numbers of 4 bits with one power of two in common (OCP Microscaling Formats
 * 1.0, MXFP4), as gpt-oss publishes its experts.
 *
 * NAME_blocks is U8 [..., rows, groups, 16]: a row's groups of 32 codes, two to a byte, the first
 * in the low bits. A code is E2M1: sign, 2 bits of exponent with bias 1, 1 of mantissa, so that the
 * magnitudes are 0, 0.5, 1, 1.5, 2, 3, 4, 6. NAME_scales is U8 [..., rows, groups], E8M0: a number
 * is code · 2^(scale - 127), and 255 is NaN.
 *
 * MLX has the same bytes as NAME.weight, U32 [..., rows, columns / 8], and NAME.scales, and no
 * biases, by which they are known from its affine codes.
 *
 * The tensor keeps the name NAME_blocks, because where a checkpoint has NAME itself, in 16 bits, it
 * lies otherwise ([..., columns, rows] in gpt-oss): by the name it is known which of them is there.
 */
#include "engine/source/package_part.h"

#include <errno.h>
#include <string.h>

enum { BLOCK = 32, BLOCK_BYTES = BLOCK / 2 };

static int describe(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	uint32_t d = codes->dims;
	if (d < 2 || codes->shape[d - 1] != BLOCK_BYTES || scales->dims != d - 1 ||
	    strcmp(scales->type, "U8") != 0 ||
	    memcmp(scales->shape, codes->shape, (d - 1) * sizeof *codes->shape) != 0)
		return package_misfit(scales, codes, e);
	t->dims = d - 1;
	memcpy(t->shape, codes->shape, t->dims * sizeof *t->shape);
	t->shape[t->dims - 1] *= BLOCK; /* 16 bytes each are in the file: far from overflow */
	t->format = FORMAT_MXFP4;
	t->bits = 4;
	t->group = BLOCK;
	t->parts = 2;
	t->part[0] = package_part_of(codes);
	t->part[0].row_bytes *= codes->shape[d - 2];
	t->part[1] = package_part_of(scales);
	return 0;
}

const struct encoding encoding_mxfp4 = {
	.name = "MXFP4",
	.type = "U8",
	.ending = "_blocks",
	.own = "_blocks",
	.companion = {"_scales"},
	.describe = describe,
};

/* ---- the same by MLX' names ---- */

enum { WORD_CODES = 8 };

static bool has_exponents(const struct encoded *in)
{
	return in->companion[0] && !strcmp(in->companion[0]->type, "U8");
}

static int describe_mlx(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	uint32_t d = codes->dims;
	int failed = package_mlx_codes(in, t, true, e);
	if (failed)
		return failed;
	if (d < 2 || scales->dims != d || codes->shape[d - 1] % (BLOCK / WORD_CODES) != 0 ||
	    memcmp(scales->shape, codes->shape, (d - 1) * sizeof *codes->shape) != 0 ||
	    scales->shape[d - 1] != codes->shape[d - 1] / (BLOCK / WORD_CODES))
		return package_misfit(scales, codes, e);
	t->dims = d;
	memcpy(t->shape, codes->shape, d * sizeof *t->shape);
	t->shape[d - 1] *= WORD_CODES; /* 4 bytes of each word are in the file */
	t->format = FORMAT_MXFP4;
	t->parts = 2;
	t->part[0] = package_part_of(codes);
	t->part[1] = package_part_of(scales);
	return 0;
}

const struct encoding encoding_mlx_mxfp4 = {
	.name = "MXFP4",
	.type = "U32",
	.ending = ".weight",
	.own = ".weight",
	.companion = {".scales"},
	.is = has_exponents,
	.describe = describe_mlx,
};
