/* FP8 with block scales, as DeepSeek-V3 publishes its weights (its technical report, 3.3.2; since
 * then Qwen3, GLM, MiniMax).
 *
 * NAME is F8_E4M3 [..., rows, cols]: sign, 4 bits of exponent with bias 7, 3 of mantissa (OCP 8-bit
 * floating point, E4M3: no infinities, 0x7f and 0xff are NaN). NAME_scale_inv is F32, BF16 or F16
 * [..., ceil(rows / R), ceil(cols / C)], R and C as config.json's weight_block_size says (128,
 * 128): one factor for each block of R x C codes, of which the last ones may be cut short. A number
 * is code · factor; the name says "inverse" because it is what the weights were divided by.
 *
 * Which modules were not converted (modules_to_not_convert) is seen by their types.
 */
#include "engine/source/package_part.h"
#include "engine/source/quantization.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static uint64_t blocks(uint64_t n, uint64_t block)
{
	return n / block + (n % block != 0);
}

static bool fits(const struct checkpoint_tensor *codes, const struct checkpoint_tensor *scales,
		 const struct quantization *q)
{
	uint32_t d = codes->dims;
	return d >= 2 && scales->dims == d && scales->known_type &&
	       !memcmp(scales->shape, codes->shape, (d - 2) * sizeof *codes->shape) &&
	       scales->shape[d - 2] == blocks(codes->shape[d - 2], q->block_rows) &&
	       scales->shape[d - 1] == blocks(codes->shape[d - 1], q->block_cols);
}

static int describe(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *scales = in->companion[0];
	if (!in->config->block_rows)
		return err_set(e, EINVAL,
			       "tensor %s is in FP8, but config.json says no \"weight_block_size\" "
			       "in a \"quantization_config\" of the method fp8",
			       t->name);
	if (!fits(codes, scales, in->config))
		return package_misfit(scales, codes, e);
	t->dims = codes->dims;
	memcpy(t->shape, codes->shape, sizeof t->shape);
	t->bits = 8;
	t->group = in->config->block_cols;
	t->parts = 2;
	t->part[0] = package_part_of(codes);
	t->part[1] = package_part_of(scales);
	t->part[1].share = in->config->block_rows;
	return 0;
}

static float e4m3(uint8_t code)
{
	int exponent = code >> 3 & 15, mantissa = code & 7;
	float magnitude = exponent ? ldexpf((float)(8 + mantissa), exponent - 10)
				   : ldexpf((float)mantissa, -9);
	if ((code & 0x7f) == 0x7f)
		return NAN;
	return code & 0x80 ? -magnitude : magnitude;
}

static void decode(const struct package_tensor *t, const uint8_t *const *part, uint32_t cols,
		   float *out)
{
	float scale = 0;
	for (uint32_t i = 0; i < cols; i++) {
		if (i % t->group == 0)
			scale = package_float(&t->part[1], part[1], i / t->group);
		out[i] = e4m3(part[0][i]) * scale;
	}
}

const struct encoding encoding_fp8 = {
	.name = "FP8",
	.type = "F8_E4M3",
	.ending = "",
	.own = "",
	.companion = {"_scale_inv"},
	.describe = describe,
	.decode = decode,
};
