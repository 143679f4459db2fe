/* Qwen's families: Qwen2 and Qwen3, dense and as mixtures of experts, and the hybrids of gated
 * delta nets and gated attention, Qwen3-Next and Qwen3.5 to 3.8. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

/* ---- dense: Qwen2 and 2.5 with biases on q, k and v; Qwen3 with a norm on each query and key head
 */

static const struct gguf_family gguf_qwen2 = {.architecture = "qwen2"};
static const char *const qwen2[] = {"qwen2", NULL};
const struct family family_qwen2 = {
	.model_types = qwen2,
	.qkv_bias = true,
	.parts = {reader_only_full_attention, reader_dense},
	.gguf = &gguf_qwen2,
};

static const struct gguf_family gguf_qwen3 = {.architecture = "qwen3"};
static const char *const qwen3[] = {"qwen3", NULL};
const struct family family_qwen3 = {
	.model_types = qwen3,
	.head_norms = HEAD_NORMS_EACH,
	.parts = {reader_only_full_attention, reader_dense},
	.gguf = &gguf_qwen3,
};

/* ---- mixtures: Qwen1.5-MoE and Qwen2's have a shared expert behind a gate; Qwen3's have none */

static void qwen_bias(struct reader *r)
{
	r->config->qkv_bias = true;
	reader_bool(r, "qkv_bias", &r->config->qkv_bias);
}

static const struct gguf_family gguf_qwen2_moe = {
	.architecture = "qwen2moe",
	.keys = {gguf_keys_routed, gguf_keys_shared},
};
static const char *const qwen2_moe[] = {"qwen2_moe", NULL};
const struct family family_qwen2_moe = {
	.model_types = qwen2_moe,
	.parts = {qwen_bias, reader_only_full_attention, reader_dense, reader_moe,
		  reader_sparse_layers, reader_shared, reader_normalisation},
	.gguf = &gguf_qwen2_moe,
};

static const struct gguf_family gguf_qwen3_moe = {
	.architecture = "qwen3moe",
	.also = "\"norm_topk_prob\": true",
	.keys = {gguf_keys_routed},
};
static const char *const qwen3_moe[] = {"qwen3_moe", NULL};
const struct family family_qwen3_moe = {
	.model_types = qwen3_moe,
	.head_norms = HEAD_NORMS_EACH,
	.parts = {reader_only_full_attention, reader_dense, reader_moe, reader_sparse_layers,
		  reader_normalisation},
	.gguf = &gguf_qwen3_moe,
};

/* ---- hybrids ---- */

/* What all hybrids share. */
static void qwen_hybrid(struct reader *r)
{
	struct config *c = r->config;
	c->norm_offset = 1;
	c->draft = c->query_gate = true;
	reader_bool(r, "attn_output_gate", &c->query_gate);
	const char *gate = reader_string_or(r, "output_gate_type", "swish");
	if (strcmp(gate, "swish") != 0)
		reader_unsupported(r, "output_gate_type", gate, "swish");
	reader_delta_nets(r);
}

#define DELTA_NET "model.layers.%u.linear_attn."
#define NAME_CONV                                                              \
	{                                                                      \
		TENSOR_DELTA_CONV, DELTA_NET "conv1d.weight", view_convolution \
	}
#define DRAFT_NAMES .draft = "mtp.", .draft_layer = "mtp.layers.%u."

/* Qwen3-Next: projections of delta nets are fused head by head. */
static const struct tensor_name names_next[] = {
	{TENSOR_DELTA_QKV, DELTA_NET "in_proj_qkvz.weight", view_qkvz_qkv},
	{TENSOR_DELTA_Z, DELTA_NET "in_proj_qkvz.weight", view_qkvz_z},
	{TENSOR_DELTA_B, DELTA_NET "in_proj_ba.weight", view_ba_b},
	{TENSOR_DELTA_A, DELTA_NET "in_proj_ba.weight", view_ba_a},
	NAME_CONV,
	{0},
};

/* GGUF files have 1 added to all norms except those of delta nets, -exp(A_log) instead of A_log,
 * and queries, keys and values separate from z (in the first files they are fused). b and a are
 * fused as published. */
static const struct tensor_name gguf_names_next[] = {
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.post_attention_norm.weight", NULL},
	{TENSOR_DELTA_QKV, "blk.%u.ssm_in.weight", view_qkvz_qkv},
	{TENSOR_DELTA_Z, "blk.%u.ssm_in.weight", view_qkvz_z},
	{TENSOR_DELTA_B, "blk.%u.ssm_ba.weight", view_ba_b},
	{TENSOR_DELTA_A, "blk.%u.ssm_ba.weight", view_ba_a},
	{0},
};
static const struct gguf_family gguf_qwen3_next = {
	.architecture = "qwen3next",
	.also = "\"norm_topk_prob\": true",
	.keys = {gguf_keys_routed, gguf_keys_shared, gguf_keys_hybrid},
	.names = gguf_names_next,
	.norms_plus_one = true,
};

static const char *const qwen3_next[] = {"qwen3_next", NULL};
const struct family family_qwen3_next = {
	.model_types = qwen3_next,
	.partial_rotary = true,
	.head_norms = HEAD_NORMS_EACH,
	.normalise_top_k = true,
	.parts = {qwen_hybrid, reader_dense, reader_moe, reader_sparse_layers, reader_shared,
		  reader_normalisation},
	.names = names_next,
	DRAFT_NAMES,
	.gguf = &gguf_qwen3_next,
};

/* Qwen3.5 to 3.8: three gated delta nets to one gated attention, and a draft layer.
 *
 * GGUF files have 1 added to all norms except those of delta nets, -exp(A_log) instead of A_log,
 * and value heads of delta nets in another order: the first of every key head, then the second of
 * every key head, and so on. The rows of all projections and the columns of the last have this
 * order, and are used in it (tiled_heads). */
static const char *const skipped[] = {"model.visual.", "vision_tower.", NULL};
static const struct tensor_name gguf_names_qwen3_5[] = {
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.post_attention_norm.weight", NULL},
	{0},
};

static const struct tensor_name names_qwen3_5[] = {NAME_CONV, {0}};
static const struct gguf_family gguf_qwen3_5 = {
	.architecture = "qwen35",
	.keys = {gguf_keys_hybrid},
	.names = gguf_names_qwen3_5,
	.norms_plus_one = true,
	.tiled_heads = true,
};
static const char *const qwen3_5[] = {"qwen3_5", "qwen3_5_text", NULL};
const struct family family_qwen3_5 = {
	.model_types = qwen3_5,
	.nested = true,
	.partial_rotary = true,
	.head_norms = HEAD_NORMS_EACH,
	.parts = {qwen_hybrid, reader_dense},
	.names = names_qwen3_5,
	.skipped = skipped,
	DRAFT_NAMES,
	.gguf = &gguf_qwen3_5,
};

/* Mixtures of experts: routed experts, separate or stacked, and a shared expert. */
#define EXPERTS "model.layers.%u.mlp.experts."
static const struct tensor_name names_qwen3_5_moe[] = {
	NAME_CONV,
	{TENSOR_EXPERT_GATE, EXPERTS "gate_up_proj", view_stacked_gate},
	{TENSOR_EXPERT_UP, EXPERTS "gate_up_proj", view_stacked_up},
	{TENSOR_EXPERT_DOWN, EXPERTS "down_proj", view_stacked_down},
	{0},
};
static const struct gguf_family gguf_qwen3_5_moe = {
	.architecture = "qwen35moe",
	.keys = {gguf_keys_routed, gguf_keys_shared, gguf_keys_hybrid},
	.names = gguf_names_qwen3_5,
	.norms_plus_one = true,
	.tiled_heads = true,
};
static const char *const qwen3_5_moe[] = {"qwen3_5_moe", "qwen3_5_moe_text", NULL};
const struct family family_qwen3_5_moe = {
	.model_types = qwen3_5_moe,
	.nested = true,
	.partial_rotary = true,
	.head_norms = HEAD_NORMS_EACH,
	.normalise_top_k = true,
	.parts = {qwen_hybrid, reader_moe, reader_shared},
	.names = names_qwen3_5_moe,
	.skipped = skipped,
	DRAFT_NAMES,
	.gguf = &gguf_qwen3_5_moe,
};
