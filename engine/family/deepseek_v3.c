/* DeepSeek V3 and R1: latent attention, the first layers dense, a router of sigmoids with a
 * correction and groups, and a shared expert. Its draft layer, which lies after the last one, is
 * left out. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"


static void deepseek_latent(struct reader *r)
{
	struct config *c = r->config;
	c->latent.interleaved = true;
	reader_latent(r);
	reader_bool(r, "rope_interleave", &c->latent.interleaved);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].mixer = MIXER_LATENT;
	rope_read_config(r, c->latent.rope, &c->rope[0]);
	c->attention_scale *= c->rope[0].score_scale;
}

static const struct only deepseek_only[] = {
	{"attention_bias", "false"}, {"moe_layer_freq", "1"}, {0}};

#define A "model.layers.%u.self_attn."
#define SHARED "model.layers.%u.mlp.shared_experts."
static const struct tensor_name names[] = {
	{TENSOR_LATENT_Q, A "q_b_proj.weight", NULL},
	{TENSOR_LATENT_Q, A "q_proj.weight", NULL},
	{TENSOR_LATENT_KEYS, A "kv_b_proj.weight", view_latent_keys},
	{TENSOR_LATENT_VALUES, A "kv_b_proj.weight", view_latent_values},
	{TENSOR_LATENT_KEYS, A "embed_q.weight", view_latent_keys_apart}, /* MLX */
	{TENSOR_LATENT_VALUES, A "unembed_out.weight", view_latent_values_apart},
	{TENSOR_SHARED_GATE, SHARED "gate_proj.weight", NULL},
	{TENSOR_SHARED_UP, SHARED "up_proj.weight", NULL},
	{TENSOR_SHARED_DOWN, SHARED "down_proj.weight", NULL},
	{0},
};

/* GGUF files have the keys' projection across, head by head, apart from the values', or, before
 * 2025-04, both as published. Files before 2025-09 have no keys for groups and are computed without
 * groups, as llama.cpp of that time did. They lack the draft layer. */
static const struct gguf_key gguf_keys[] = {
	{"attention.head_count_kv", NULL, GGUF_KNOWN, 0},
	{"attention.key_length", NULL, GGUF_KNOWN, 0},
	{"attention.key_length_mla", NULL, GGUF_KNOWN, 0},
	{"attention.value_length_mla", NULL, GGUF_KNOWN, 0},
	{"attention.q_lora_rank", "q_lora_rank", GGUF_COPIED, 0},
	{"attention.kv_lora_rank", "kv_lora_rank", GGUF_COPIED, 0},
	{"rope.scaling.yarn_log_multiplier", NULL, GGUF_KNOWN, 0},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "deepseek2",
	.keys = {gguf_keys, gguf_keys_routed, gguf_keys_sigmoid},
};

static const char *const types[] = {"deepseek_v3", NULL};
const struct family family_deepseek_v3 = {
	.model_types = types,
	.ropes = 1U << ROPE_YARN,
	.own_positions = true,
	.only = deepseek_only,
	.parts = {reader_only_full_attention, deepseek_latent, reader_dense, reader_moe,
		  reader_first_dense, reader_sigmoid_router, reader_shared_experts,
		  reader_left_out},
	.names = names,
	.gguf = &gguf,
};
