/* Qwen3.5 to 3.8, dense: three gated delta nets to one gated attention, and a draft layer. */
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	int failed = reader_hybrid(r);
	return failed ? failed : reader_dense(r);
}

static const struct tensor_name names[] = {
	TENSOR_NAMES_HYBRID,
	{0},
};

static const char *const types[] = {"qwen3_5", "qwen3_5_text", NULL};
static const char *const skipped[] = {"model.visual.", NULL};
const struct family family_qwen3_5 = {
	.model_types = types,
	.nested = true,
	.partial_rotary = true,
	.read = read,
	.names = names,
	.skipped = skipped,
	DRAFT_NAMES_HYBRID,
};
