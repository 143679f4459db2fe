#include "engine/source/package_part.h"
#include "engine/source/quantization.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct package_part package_part_of(const struct checkpoint_tensor *from)
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

void package_as_is(struct package_tensor *t, const struct checkpoint_tensor *from)
{
	if (!from->known_type)
		return;
	t->format = from->format;
	t->parts = 1;
	t->part[0] = package_part_of(from);
}

int package_misfit(const struct checkpoint_tensor *companion, const struct checkpoint_tensor *codes,
		   struct err *e)
{
	char one[192], other[192];
	package_print_shape(one, sizeof one, companion->shape, companion->dims);
	package_print_shape(other, sizeof other, codes->shape, codes->dims);
	return err_set(e, EINVAL,
		       "tensor %s, of type %s and shape %s, does not fit %s, of type %s and shape "
		       "%s, which it belongs to",
		       companion->name, companion->type, one, codes->name, codes->type, other);
}

int package_mlx_codes(const struct encoded *in, struct package_tensor *t, bool mxfp4, struct err *e)
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
			       "tensor %s: config.json says %s, and its scales are those of %s",
			       t->name, codes.mxfp4 ? "MXFP4" : "affine codes",
			       mxfp4 ? "MXFP4" : "affine codes");
	t->bits = codes.bits;
	t->group = codes.group;
	return 0;
}

float package_float(const struct package_part *part, const uint8_t *bytes, size_t i)
{
	float f;
	const struct shape one = {.format = part->format, .rows = 1, .cols = 1};
	format_dequantise_row(
		&f, &one,
		&(struct pieces){.weights = bytes + i * (part->format == FORMAT_F32 ? 4 : 2)});
	return f;
}
