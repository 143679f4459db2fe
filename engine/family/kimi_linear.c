/* Moonshot AI's Kimi Linear: Kimi's delta attention in most layers, latent attention without
 * rotation in the others; the first layers dense, a router of sigmoids with a correction and
 * groups, and a shared expert. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

enum { KIMI_DELTA, KIMI_ATTENTION, KIMI_KINDS };

/* linear_attn_config lists the layers of each kind, counted from 1. */
static void kimi_list_layers(struct reader *r, const char *key, uint32_t as,
			     uint32_t kind[CONFIG_MAX_LAYERS])
{
	const struct json *list = reader_list_or_null(r, key), *v = NULL;
	while (!r->failed && (v = json_next(list, v))) {
		uint64_t layer = 0;
		r->failed = json_as_uint(v, key, r->name, 1, r->config->layers, &layer, r->e);
		if (!r->failed && kind[layer - 1] != KIMI_KINDS)
			reader_refuse(r, EINVAL, "linear_attn_config names layer %u twice",
				      (unsigned)layer);
		if (!r->failed)
			kind[layer - 1] = as;
	}
}

static void kimi_read_kinds(struct reader *r, const struct json *linear,
			    uint32_t kind[CONFIG_MAX_LAYERS])
{
	static const struct reader_kind kinds[] = {
		{"linear_attention", KIMI_DELTA}, {"full_attention", KIMI_ATTENTION}, {0}};
	const struct json *whole = r->json;
	if (reader_layer_kinds(r, "layer_types", kinds, kind))
		return;
	for (uint32_t layer = 0; layer < r->config->layers; layer++)
		kind[layer] = KIMI_KINDS;
	r->json = linear;
	kimi_list_layers(r, "kda_layers", KIMI_DELTA, kind);
	kimi_list_layers(r, "full_attn_layers", KIMI_ATTENTION, kind);
	r->json = whole;
	for (uint32_t layer = 0; layer < r->config->layers && !r->failed; layer++)
		if (kind[layer] == KIMI_KINDS)
			reader_refuse(r, EINVAL, "linear_attn_config does not name layer %u",
				      layer + 1);
}

/* The published config has an object for the delta attention; the newer form has its keys at the
 * top.
 */
static void kimi_mixers(struct reader *r)
{
	static const struct reader_kimi_keys
		published = {"num_heads", "head_dim", "short_conv_kernel_size"},
		later = {"linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS];
	const struct json *whole = r->json, *linear = reader_object_or_null(r, "linear_attn_config");
	r->json = linear ? linear : whole;
	reader_kimi(r, linear ? published : later);
	r->json = whole;
	kimi_read_kinds(r, linear, kind);
	reader_latent(r);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		c->layer[layer].mixer = kind[layer] == KIMI_DELTA ? MIXER_KIMI : MIXER_LATENT;
		c->layer[layer].rope = CONFIG_NO_ROPE;
	}
}

static void kimi_router(struct reader *r)
{
	struct config *c = r->config;
	c->router_correction = true;
	reader_factor(r, "routed_scaling_factor", &c->routed_scaling);
	reader_bool(r, "moe_renormalize", &c->normalise_top_k);
	reader_expert_groups(r, "num_expert_group", "topk_group");
	reader_shared_experts_by(r, "num_shared_experts");
}

static const struct only kimi_only[] = {
	{"attention_bias", "false"},
	{"mla_use_nope", "true"},
	{"moe_layer_freq", "1"},
	{"moe_router_activation_func", "\"sigmoid\""},
	{"topk_method", "\"noaux_tc\""},
	{0},
};

/* clang-format off: a row a line */
#define A "model.layers.%u.self_attn."
static const struct tensor_name kimi_names[] = {
	TENSOR_NAMES_BLOCK_SPARSE_MOE,
	{TENSOR_ROUTER_CORRECTION, BLOCK_SPARSE_MOE "gate.e_score_correction_bias", NULL},
	TENSOR_NAMES_SHARED_EXPERTS(BLOCK_SPARSE_MOE),
	{TENSOR_LATENT_Q, A "q_proj.weight", NULL},
	{TENSOR_LATENT_KEYS, A "kv_b_proj.weight", view_latent_keys},
	{TENSOR_LATENT_VALUES, A "kv_b_proj.weight", view_latent_values},
	{TENSOR_KIMI_Q_CONV, A "q_conv1d.weight", view_kimi_q_convolution},
	{TENSOR_KIMI_K_CONV, A "k_conv1d.weight", view_kimi_k_convolution},
	{TENSOR_KIMI_V_CONV, A "v_conv1d.weight", view_kimi_v_convolution},
	{TENSOR_KIMI_A_LOG, A "A_log", view_kimi_a_log},
	{0},
};
/* clang-format on */

/* ---- GGUF files: layers of delta attention have 0 key heads ---- */

static const struct gguf_key kimi_keys[] = {
	{"context_length", "model_max_length", GGUF_COPIED, 0},
	{"attention.head_count_kv", NULL, GGUF_KNOWN, 0},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", GGUF_COPIED, 0},
	{"kda.head_dim", "linear_head_dim", GGUF_COPIED, 0},
	{"expert_weights_norm", "moe_renormalize", GGUF_FLAG, 0},
	{"expert_group_count", "num_expert_group", GGUF_COPIED, 0},
	{"expert_shared_count", "num_shared_experts", GGUF_COPIED, 0},
	{0},
};

static const char *kimi_kind(struct gguf_writer *w, uint64_t layer)
{
	bool attends = gguf_writer_uint_of(w, "attention.head_count_kv", layer);
	return attends ? "full_attention" : "linear_attention";
}

static void kimi_put(struct gguf_writer *w)
{
	gguf_put_kinds(w, "layer_types", kimi_kind);
	gguf_put_uint(w, "linear_num_heads", gguf_writer_uint(w, "attention.head_count"));
}

static const struct tensor_name kimi_gguf_names[] = {
	GGUF_NAMES_KIMI, {TENSOR_KIMI_A_LOG, "blk.%u.ssm_a", view_kimi_negated}, {0}};
static const struct gguf_family kimi_gguf = {
	.architecture = "kimi-linear",
	.keys = {kimi_keys, gguf_keys_latent, gguf_keys_routed, gguf_keys_sigmoid},
	.names = kimi_gguf_names,
	.put = kimi_put,
};

static const char *const kimi_linear[] = {"kimi_linear", NULL};
const struct family family_kimi_linear = {
	.model_types = kimi_linear,
	.own_positions = true,
	.rms_eps = 1e-5,
	.positions = "model_max_length",
	.normalise_top_k = true,
	.router_order = SIGMOID_THEN_TOP_K,
	.only = kimi_only,
	.parts = {kimi_mixers, reader_dense, reader_moe, reader_first_dense,
		  reader_dense_or_sparse, kimi_router},
	.names = kimi_names,
	.gguf = &kimi_gguf,
};
