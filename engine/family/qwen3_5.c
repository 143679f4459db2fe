/* Qwen3.5 to 3.8, dense: three gated delta nets to one gated attention, and a draft layer. */
#include "engine/family/gguf_family.h"
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

/* GGUF files have 1 added to all norms but the delta nets' own, -exp(A_log) in place of A_log, and
 * the delta nets' value heads in another order: the first of every key head, then the second of
 * every key head, and so on. Rows of every projection and columns of the last are so, which is
 * computed as it is. */
static const struct tensor_name gguf_names[] = {
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.post_attention_norm.weight", NULL},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "qwen35",
	.keys = {gguf_keys_hybrid},
	.names = gguf_names,
	.norms_plus_one = true,
	.tiled_heads = true,
};

static const char *const types[] = {"qwen3_5", "qwen3_5_text", NULL};
static const char *const skipped[] = {"model.visual.", "vision_tower.", NULL};
const struct family family_qwen3_5 = {
	.model_types = types,
	.nested = true,
	.partial_rotary = true,
	.read = read,
	.names = names,
	.skipped = skipped,
	DRAFT_NAMES_HYBRID,
	.gguf = &gguf,
};
