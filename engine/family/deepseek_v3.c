/* DeepSeek V3 and R1: latent attention, the first layers dense, a router of sigmoids with a
 * correction and groups, and a shared expert. Its draft layer, which lies after the last one, is
 * left out. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <math.h>

static void deepseek_latent(struct reader *r)
{
	struct config *c = r->config;
	struct latent *l = &c->latent;
	const struct reader_number numbers[] = {
		{"kv_lora_rank", &l->rank, CONFIG_MAX_WIDTH},
		{"qk_nope_head_dim", &l->nope, 4096},
		{"qk_rope_head_dim", &l->rope, 4096},
		{"v_head_dim", &l->value, 4096},
	};
	l->interleaved = true;
	reader_u32_or(r, "q_lora_rank", 1, CONFIG_MAX_WIDTH, 0, &l->query_rank);
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	reader_bool(r, "rope_interleave", &l->interleaved);
	if (l->rope % 2)
		reader_refuse(r, EINVAL,
			      "\"qk_rope_head_dim\" is %u, which cannot be rotated in pairs",
			      l->rope);
	uint64_t widest = l->nope + l->rope;
	widest = l->rank > widest ? l->rank : widest;
	widest = l->value > widest ? l->value : widest;
	if (c->heads * widest > CONFIG_MAX_LATENT)
		reader_refuse(r, EINVAL,
			      "%u heads of a latent of %u are wider than the %d that is supported",
			      c->heads, l->rank, CONFIG_MAX_LATENT);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].mixer = MIXER_LATENT;
	rope_read_config(r, l->rope, &c->rope[0]);
	c->attention_scale = (float)(1 / sqrt(l->nope + l->rope)) * c->rope[0].score_scale;
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
