/* gpt-oss: attention with sinks, a window in every other layer; biases on all projections, the
 * router's and the experts' among them; a clamped gated linear unit; YaRN. Rows of gate and up
 * alternate. Experts in 16 bits are transposed, [in, out]. MLX has separate tensors for gate and
 * up.
 */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static void gpt_switches(struct reader *r)
{
	struct config *c = r->config;
	c->sinks = c->expert_bias = c->router_bias = true;
	c->glu = GLU_CLAMPED;
	c->glu_alpha = 1.702F;
	c->glu_limit = 7;
	if (json_has(r->json, "swiglu_limit"))
		reader_factor(r, "swiglu_limit", &c->glu_limit);
}

#define L "model.layers.%u.mlp."
static const struct tensor_name names[] = {
	{TENSOR_ROUTER, L "router.weight", NULL},
	{TENSOR_EXPERT_GATE, L "experts.gate_up_proj", view_across_gate},
	{TENSOR_EXPERT_UP, L "experts.gate_up_proj", view_across_up},
	{TENSOR_EXPERT_DOWN, L "experts.down_proj", view_across_down},
	{TENSOR_EXPERT_GATE, L "experts.gate_up_proj_blocks", view_turn_gate},
	{TENSOR_EXPERT_UP, L "experts.gate_up_proj_blocks", view_turn_up},
	{TENSOR_EXPERT_DOWN, L "experts.down_proj_blocks", view_stacked_down},
	{TENSOR_EXPERT_GATE, L "experts.gate_proj.weight", view_stacked_one}, /* MLX */
	{TENSOR_EXPERT_UP, L "experts.up_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_DOWN, L "experts.down_proj.weight", view_stacked_down},
	{TENSOR_EXPERT_GATE_BIAS, L "experts.gate_up_proj_bias", view_turn_gate_bias},
	{TENSOR_EXPERT_UP_BIAS, L "experts.gate_up_proj_bias", view_turn_up_bias},
	{TENSOR_EXPERT_GATE_BIAS, L "experts.gate_proj.bias", NULL},
	{TENSOR_EXPERT_UP_BIAS, L "experts.up_proj.bias", NULL},
	{TENSOR_EXPERT_DOWN_BIAS, L "experts.down_proj.bias", NULL},
	{0},
};

/* GGUF files have separate gate and up, not transposed, and MXFP4 blocks that include their scales,
 * as for other families. No key says which layers have a window, or that the bounds of YaRN's ramp
 * are not rounded. */
static const struct gguf_key gguf_keys[] = {
	{"feed_forward_length", NULL, GGUF_KNOWN, 0},
	{"attention.sliding_window", "sliding_window", GGUF_COPIED, 0},
	{0},
};
static const struct tensor_name gguf_names[] = {
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.post_attention_norm.weight", NULL},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "gpt-oss",
	.rope_also = "\"truncate\": false",
	.whole_every = 2,
	.keys = {gguf_keys, gguf_keys_routed_only},
	.names = gguf_names,
};

static const char *const types[] = {"gpt_oss", NULL};
const struct family family_gpt_oss = {
	.model_types = types,
	.ropes = 1U << ROPE_YARN,
	.rms_eps = 1e-5,
	.router_order = TOP_K_THEN_SOFTMAX,
	.parts = {gpt_switches, reader_windows, reader_experts},
	.names = names,
	.gguf = &gguf,
};
