/* Qwen3.5's and 3.6's mixtures of experts: as the dense ones, with routed experts, one by one or
 * stacked, and a shared one. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	r->config->normalise_top_k = true;
	int failed = reader_hybrid(r);
	if (!failed)
		failed = reader_routed(r, "moe_intermediate_size");
	return failed ? failed : reader_shared(r);
}

#define EXPERTS "model.layers.%u.mlp.experts."
static const struct tensor_name names[] = {
	TENSOR_NAMES_HYBRID,
	{TENSOR_EXPERT_GATE, EXPERTS "gate_up_proj", view_stacked_gate},
	{TENSOR_EXPERT_UP, EXPERTS "gate_up_proj", view_stacked_up},
	{TENSOR_EXPERT_DOWN, EXPERTS "down_proj", view_stacked_down},
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
	.architecture = "qwen35moe",
	.keys = {gguf_keys_routed, gguf_keys_shared, gguf_keys_hybrid},
	.names = gguf_names,
	.norms_plus_one = true,
	.tiled_heads = true,
};

static const char *const types[] = {"qwen3_5_moe", "qwen3_5_moe_text", NULL};
static const char *const skipped[] = {"model.visual.", "vision_tower.", NULL};
const struct family family_qwen3_5_moe = {
	.model_types = types,
	.nested = true,
	.partial_rotary = true,
	.read = read,
	.names = names,
	.skipped = skipped,
	DRAFT_NAMES_HYBRID,
	.gguf = &gguf,
};
