/* Granite 3's mixtures of experts: multipliers in the stream, stacked experts, and weights that are
 * a softmax over the chosen experts alone. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	struct config *c = r->config;
	const struct {
		const char *key;
		float *to;
	} factors[] = {
		{"attention_multiplier", &c->attention_scale},
		{"embedding_multiplier", &c->embedding_multiplier},
		{"residual_multiplier", &c->residual_multiplier},
		{"logits_scaling", &c->logits_scaling},
	};
	int failed = reader_only_full_attention(r);
	for (size_t i = 0; i < sizeof factors / sizeof *factors && !failed; i++)
		failed = reader_factor(r, factors[i].key, factors[i].to);
	c->router_order = TOP_K_THEN_SOFTMAX;
	return failed ? failed : reader_routed(r, "intermediate_size");
}

#define EXPERTS "model.layers.%u.block_sparse_moe."
static const struct tensor_name names[] = {
	{TENSOR_ROUTER, EXPERTS "router.layer.weight", NULL},
	{TENSOR_EXPERT_GATE, EXPERTS "input_linear.weight", view_stacked_gate},
	{TENSOR_EXPERT_UP, EXPERTS "input_linear.weight", view_stacked_up},
	{TENSOR_EXPERT_DOWN, EXPERTS "output_linear.weight", view_stacked_down},
	{TENSOR_EXPERT_GATE, EXPERTS "switch_mlp.gate_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_UP, EXPERTS "switch_mlp.up_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_DOWN, EXPERTS "switch_mlp.down_proj.weight", view_stacked_down},
	{0},
};

/* GGUF files have the pairs of rows that a rotation turns as neighbours, and gate and up apart. */
static const struct tensor_name gguf_names[] = {
	{TENSOR_Q, "blk.%u.attn_q.weight", view_paired_q},
	{TENSOR_K, "blk.%u.attn_k.weight", view_paired_k},
	{0},
};
static const struct gguf_key gguf_keys[] = {
	{"attention.scale", "attention_multiplier", GGUF_REAL, 0},
	{"embedding_scale", "embedding_multiplier", GGUF_REAL, 0},
	{"residual_scale", "residual_multiplier", GGUF_REAL, 0},
	{"logit_scale", "logits_scaling", GGUF_REAL, 0},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "granitemoe",
	.also = "\"attention_bias\": false", /* pairs of its rows would be neighbours, too */
	.keys = {gguf_keys_routed_only, gguf_keys},
	.names = gguf_names,
};

static const char *const types[] = {"granitemoe", NULL};
const struct family family_granitemoe = {
	.model_types = types, .read = read, .names = names, .gguf = &gguf};
