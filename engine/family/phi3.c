/* Phi-3 and 4, dense: queries, keys and values in one tensor, gate above up in another, and
 * different factors of the rotation for short and long texts (LongRoPE, Ding et al. 2024).
 *
 * The published program keeps cached keys that were rotated with the short factors. moefs computes
 * a text that passes the limit again with the long factors, so that the result depends only on its
 * ids. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static void phi3_rotation(struct reader *r)
{
	struct config *c = r->config;
	reader_u32_or(r, "original_max_position_embeddings", 2, CONFIG_MAX_POSITIONS, 4096,
		      &c->rope_limit);
	rope_read_config(r, c->head_dim, &c->rope[0]);
	if (!c->rope[CONFIG_LONG_ROPE].dim)
		c->rope_limit = 0;
}

/* In GGUF files 0 means no window. */
static void phi3_window(struct reader *r)
{
	struct config *c = r->config;
	uint32_t window;
	reader_u32_or(r, "sliding_window", 0, CONFIG_MAX_POSITIONS, 0, &window);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].window = window;
}

#define L "model.layers.%u."
static const struct tensor_name names[] = {
	{TENSOR_Q, L "self_attn.qkv_proj.weight", view_fused_q},
	{TENSOR_K, L "self_attn.qkv_proj.weight", view_fused_k},
	{TENSOR_V, L "self_attn.qkv_proj.weight", view_fused_v},
	{TENSOR_GATE, L "mlp.gate_up_proj.weight", view_fused_gate},
	{TENSOR_UP, L "mlp.gate_up_proj.weight", view_fused_up},
	{0},
};

static const struct gguf_key gguf_keys[] = {
	{"attention.sliding_window", "sliding_window", GGUF_COPIED, 0},
	{0},
};
#define B "blk.%u."
static const struct tensor_name gguf_names[] = {
	{TENSOR_Q, B "attn_qkv.weight", view_fused_q},
	{TENSOR_K, B "attn_qkv.weight", view_fused_k},
	{TENSOR_V, B "attn_qkv.weight", view_fused_v},
	{TENSOR_GATE, B "ffn_up.weight", view_fused_gate},
	{TENSOR_UP, B "ffn_up.weight", view_fused_up},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "phi3",
	.keys = {gguf_keys},
	.names = gguf_names,
};

static const char *const types[] = {"phi3", NULL};
const struct family family_phi3 = {
	.model_types = types,
	.partial_rotary = true,
	.ropes = 1U << ROPE_LONG,
	.own_positions = true,
	.rms_eps = 1e-5,
	.parts = {reader_only_full_attention, reader_dense, phi3_window, phi3_rotation},
	.names = names,
	.gguf = &gguf,
};
