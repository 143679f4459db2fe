/* Native TQ and TC: this project's own weight formats as checkpoints have them (kernels/README.md
 * says what the bits mean).
 *
 * In place of NAME there are NAME.tq_packed, U8 [rows · groups, bytes of a group], and
 * NAME.tq_norms, F32 or F16 [rows, groups]; a group is 128 numbers, and 32, 48 or 64 bytes of it
 * say that they are of 2, 3 or 4 bits, each tensor for itself, whatever tq_config.json says. Older
 * files keep ".weight" in NAME, newer ones drop it (package_find knows both). Stacked experts are
 * flattened to rows, and rows are padded to whole groups, so that the shape is known only so far.
 *
 * TC has the same in NAME.tc_packed and NAME.tc_norms: names of its own, since who knows TQ alone
 * would take the codes of a trellis for indices.
 */
#include "engine/source/package_part.h"

#include <errno.h>
#include <string.h>

/* By the bytes of a group; the formats of 2, 3 and 4 bits follow each other. */
static enum format format_of(uint64_t bytes, enum format first)
{
	for (enum format f = first; f <= first + 2; f++)
		if (bytes == (uint64_t)format_tq_bits(f) * TQ_GROUP / 8)
			return f;
	return FORMAT_COUNT;
}

static int describe(struct package_tensor *t, const struct encoded *in, enum format first,
		    struct err *e)
{
	const struct checkpoint_tensor *codes = in->codes, *norms = in->companion[0];
	uint64_t rows = norms->shape[0], groups = norms->shape[1], all;
	enum format format = codes->dims == 2 ? format_of(codes->shape[1], first) : FORMAT_COUNT;
	if (format == FORMAT_COUNT)
		return err_set(e, EINVAL,
			       "tensor %s is no list of groups of 32, 48 or 64 bytes, which are "
			       "those of 2, 3 and 4 bits",
			       codes->name);
	bool typed = norms->known_type && norms->format != FORMAT_BF16;
	if (!typed || norms->dims != 2 || __builtin_mul_overflow(rows, groups, &all) ||
	    all != codes->shape[0] || !format_fits(rows, groups) ||
	    !format_fits(rows, groups * TQ_GROUP))
		return package_misfit(norms, codes, e);
	t->dims = 2;
	t->shape[0] = rows;
	t->shape[1] = groups * TQ_GROUP;
	t->padded = TQ_GROUP;
	t->format = format;
	t->norms = norms->format == FORMAT_F16 ? NORM_F16 : NORM_F32;
	t->bits = format_tq_bits(format);
	t->group = TQ_GROUP;
	t->parts = 2;
	t->part[0] = package_part_of(codes);
	t->part[0].row_bytes *= groups;
	t->part[1] = package_part_of(norms);
	return 0;
}

static int describe_tq(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	return describe(t, in, FORMAT_TQ2, e);
}

static int describe_tc(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	return describe(t, in, FORMAT_TC2, e);
}

const struct encoding encoding_tq = {
	.name = "native TQ",
	.type = "U8",
	.ending = ".tq_packed",
	.own = "",
	.companion = {".tq_norms"},
	.describe = describe_tq,
};

const struct encoding encoding_tc = {
	.name = "native TC",
	.type = "U8",
	.ending = ".tc_packed",
	.own = "",
	.companion = {".tc_norms"},
	.describe = describe_tc,
};
