/* Blocks of 8 bits as this project's own stores have them: in place of NAME there is NAME.q8_0, U8
 * [rows, bytes of a row], a row being blocks of 32 numbers as GGUF's Q8_0 has them, a scale in F16
 * and 32 whole numbers. */
#include "engine/source/package_part.h"

#include <errno.h>

static int describe(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes;
	struct shape block = {.format = FORMAT_Q8_0, .rows = 1};
	uint64_t cols = format_block_cols(&block), bytes = format_block_bytes(FORMAT_Q8_0);
	bool whole = codes->dims == 2 && codes->shape[1] && codes->shape[1] % bytes == 0 &&
		     format_fits(codes->shape[0], codes->shape[1] / bytes);
	if (!whole || !format_fits(codes->shape[0], codes->shape[1] / bytes * cols))
		return err_set(e, EINVAL, "tensor %s has no rows of whole blocks of %llu bytes",
			       codes->name, (unsigned long long)bytes);
	t->dims = 2;
	t->shape[0] = codes->shape[0];
	t->shape[1] = codes->shape[1] / bytes * cols;
	t->format = FORMAT_Q8_0;
	t->bits = 8;
	t->parts = 1;
	t->part[0] = package_part_of(codes);
	return 0;
}

const struct encoding encoding_q8_0 = {
	.name = "Q8_0",
	.type = "U8",
	.ending = ".q8_0",
	.own = "",
	.describe = describe,
};
