/* IBM's Granite: multipliers of the residual stream, stacked experts, and expert weights that are a
 * softmax over the chosen experts. Granite 4 has Mamba2 in most layers, and a shared expert beside
 * the experts or instead of them. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

/* ---- Granite 3 ---- */

static void granite_factors(struct reader *r)
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
	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
		reader_factor(r, factors[i].key, factors[i].to);
}

/* clang-format off: a row a line */
#define GRANITE_EXPERTS                                                                          \
	{TENSOR_ROUTER, BLOCK_SPARSE_MOE "router.layer.weight", NULL},                           \
	{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "input_linear.weight", view_stacked_gate},         \
	{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "input_linear.weight", view_stacked_up},             \
	{TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "output_linear.weight", view_stacked_down},        \
	{TENSOR_EXPERT_GATE, BLOCK_SPARSE_MOE "switch_mlp.gate_proj.weight", view_stacked_one},  \
	{TENSOR_EXPERT_UP, BLOCK_SPARSE_MOE "switch_mlp.up_proj.weight", view_stacked_one},      \
	{TENSOR_EXPERT_DOWN, BLOCK_SPARSE_MOE "switch_mlp.down_proj.weight", view_stacked_down}
/* clang-format on */
static const struct tensor_name granite_names[] = {GRANITE_EXPERTS, {0}};
/* GGUF files have paired rows for the rotation (view.paired), and separate gate and up. */
static const struct tensor_name granite_gguf_names[] = {
	{TENSOR_Q, "blk.%u.attn_q.weight", view_paired_q},
	{TENSOR_K, "blk.%u.attn_k.weight", view_paired_k},
	{0},
};
static const struct gguf_key granite_gguf_keys[] = {
	{"attention.scale", "attention_multiplier", GGUF_REAL, 0},
	{"embedding_scale", "embedding_multiplier", GGUF_REAL, 0},
	{"residual_scale", "residual_multiplier", GGUF_REAL, 0},
	{"logit_scale", "logits_scaling", GGUF_REAL, 0},
	{0},
};
static const struct gguf_family granite_gguf = {
	.architecture = "granitemoe",
	.also = "\"attention_bias\": false", /* biases would have paired rows, too */
	.keys = {gguf_keys_routed_only, granite_gguf_keys},
	.names = granite_gguf_names,
};
static const char *const granitemoe[] = {"granitemoe", NULL};
const struct family family_granitemoe = {
	.model_types = granitemoe,
	.router_order = TOP_K_THEN_SOFTMAX,
	.parts = {reader_only_full_attention, granite_factors, reader_experts},
	.names = granite_names,
	.gguf = &granite_gguf,
};

/* ---- Granite 4 ---- */

enum { GRANITE_MAMBA, GRANITE_ATTENTION };

/* Refuses limits of Mamba's time steps, which are not supported. */
static void granite_time_limit(struct reader *r)
{
	const struct json *list = reader_list_or_null(r, "time_step_limit"), *v = NULL;
	for (int i = 0; !r->failed && (v = json_next(list, v)); i++) {
		char shown[80];
		double limit = 0;
		json_show(v, shown, sizeof shown);
		if (i == 0)
			r->failed = json_as_double(v, "time_step_limit", r->name, 0, 0, &limit,
						   r->e);
		else if (json_kind(v) == JSON_NUMBER && strcmp(shown, "Infinity") != 0)
			reader_unsupported(r, "time_step_limit", shown, "[0, Infinity]");
	}
}

static void granite_mamba(struct reader *r)
{
	static const struct reader_kind kinds[] = {{"mamba", GRANITE_MAMBA},
						   {"linear_attention", GRANITE_MAMBA},
						   {"attention", GRANITE_ATTENTION},
						   {"full_attention", GRANITE_ATTENTION},
						   {0}};
	struct config *c = r->config;
	struct mamba *m = &c->mamba;
	uint32_t kind[CONFIG_MAX_LAYERS] = {GRANITE_MAMBA}, expand;
	m->bias = true;
	reader_u32_or(r, "mamba_expand", 1, 64, 2, &expand);
	reader_u32(r, "mamba_n_heads", 1, 4096, &m->heads);
	reader_u32_or(r, "mamba_n_groups", 1, 4096, 1, &m->groups);
	reader_u32(r, "mamba_d_state", 1, 4096, &m->state);
	reader_u32_or(r, "mamba_d_conv", 1, 64, 4, &m->width);
	reader_bool(r, "mamba_conv_bias", &m->bias);
	if (r->failed)
		return;
	uint64_t inner = (uint64_t)expand * c->hidden_size;
	m->head_dim = (uint32_t)(inner / m->heads);
	if (json_kind(json_find(r->json, "mamba_d_head")) != JSON_TEXT) /* a text: "auto" */
		reader_u32_or(r, "mamba_d_head", 1, CONFIG_MAX_WIDTH, m->head_dim, &m->head_dim);
	reader_check_mamba(r);
	if (!reader_layer_kinds(r, "layer_types", kinds, kind))
		reader_layer_kinds(r, "layers_block_type", kinds, kind);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++)
		if (kind[layer] == GRANITE_MAMBA)
			c->layer[layer].mixer = MIXER_MAMBA;
	granite_time_limit(r);
}

static void granite_positions(struct reader *r)
{
	const char *type = reader_string_or(r, "position_embedding_type", "nope");
	if (!strcmp(type, "rope")) {
		rope_read_config(r, r->config->head_dim, &r->config->rope[0]);
		return;
	}
	if (strcmp(type, "nope") != 0)
		reader_unsupported(r, "position_embedding_type", type, "rope or nope");
	for (uint32_t layer = 0; layer < r->config->layers; layer++)
		r->config->layer[layer].rope = CONFIG_NO_ROPE;
}

/* The shared expert; without experts, it is a dense feed-forward. */
static void granite_feed_forward(struct reader *r)
{
	struct config *c = r->config;
	uint32_t experts;
	reader_u32_or(r, "num_local_experts", 0, CONFIG_MAX_EXPERTS, 0, &experts);
	if (experts)
		reader_experts(r);
	reader_u32(r, "shared_intermediate_size", 1, CONFIG_MAX_WIDTH / 2,
		   experts ? &c->shared_size : &c->intermediate_size);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		c->layer[layer].shared = experts > 0;
}

static const struct only granite_only[] = {
	{"mamba_proj_bias", "false"}, {"normalization_function", "\"rmsnorm\""}, {0}};

/* clang-format off: a row a line */
#define L "model.layers.%u."
static const struct tensor_name granite_hybrid_names[] = {
	GRANITE_EXPERTS,
	{TENSOR_SHARED_GATE, L "shared_mlp.input_linear.weight", view_fused_shared_gate},
	{TENSOR_SHARED_UP, L "shared_mlp.input_linear.weight", view_fused_shared_up},
	{TENSOR_SHARED_DOWN, L "shared_mlp.output_linear.weight", NULL},
	{TENSOR_GATE, L "shared_mlp.input_linear.weight", view_fused_gate},
	{TENSOR_UP, L "shared_mlp.input_linear.weight", view_fused_up},
	{TENSOR_DOWN, L "shared_mlp.output_linear.weight", NULL},
	{TENSOR_MAMBA_Z, L "mamba.in_proj.weight", view_mamba_z},
	{TENSOR_MAMBA_XBC, L "mamba.in_proj.weight", view_mamba_xbc},
	{TENSOR_MAMBA_DT, L "mamba.in_proj.weight", view_mamba_dt},
	{TENSOR_MAMBA_CONV, L "mamba.conv1d.weight", view_mamba_convolution},
	{0},
};
/* clang-format on */

/* GGUF files: layers of Mamba have 0 key heads; a key with another name says whether there is a
 * rotation. Without experts, the shared feed-forward is a dense one. */
static const struct gguf_key granite_hybrid_keys[] = {
	{"expert_count", "num_local_experts", GGUF_COPIED, 0},
	{"expert_shared_feed_forward_length", "shared_intermediate_size", GGUF_COPIED, 0},
	{"ssm.conv_kernel", "mamba_d_conv", GGUF_COPIED, 0},
	{"ssm.state_size", "mamba_d_state", GGUF_COPIED, 0},
	{"ssm.group_count", "mamba_n_groups", GGUF_COPIED, 0},
	{"ssm.time_step_rank", "mamba_n_heads", GGUF_COPIED, 0},
	{"ssm.inner_size", NULL, GGUF_KNOWN, 0},
	{0},
};

static const char *granite_kind(struct gguf_writer *w, uint64_t layer)
{
	return gguf_writer_uint_of(w, "attention.head_count_kv", layer) ? "attention" : "mamba";
}

static void granite_put(struct gguf_writer *w)
{
	bool turns = gguf_writer_flag_of(w, "rope.scaling.finetuned", 0, true);
	gguf_put_kinds(w, "layer_types", granite_kind);
	gguf_put_uint(w, "mamba_d_head", gguf_writer_inner_dim(w));
	(void)fprintf(w->out, ",\n  \"position_embedding_type\": \"%s\"", turns ? "rope" : "nope");
	gguf_put_bool(w, "mamba_conv_bias", gguf_writer_any_tensor(w, "ssm_conv1d.bias"));
	if (!gguf_writer_has(w, "expert_shared_feed_forward_length"))
		gguf_put_uint(w, "shared_intermediate_size",
			      gguf_writer_uint(w, "feed_forward_length"));
}

static const struct tensor_name granite_hybrid_gguf_names[] = {
	{TENSOR_Q, "blk.%u.attn_q.weight", view_paired_q},
	{TENSOR_K, "blk.%u.attn_k.weight", view_paired_k},
	GGUF_NAMES_MAMBA,
	{0},
};
static const struct gguf_family granite_hybrid_gguf = {
	.architecture = "granitehybrid",
	.also = "\"attention_bias\": false",
	.keys = {granite_hybrid_keys, gguf_keys_routed_only, granite_gguf_keys},
	.names = granite_hybrid_gguf_names,
	.put = granite_put,
};

static const char *const granitemoehybrid[] = {"granitemoehybrid", NULL};
const struct family family_granitemoehybrid = {
	.model_types = granitemoehybrid,
	.own_positions = true,
	.router_order = TOP_K_THEN_SOFTMAX,
	.only = granite_only,
	.parts = {granite_factors, granite_mamba, granite_positions, granite_feed_forward},
	.names = granite_hybrid_names,
	.gguf = &granite_hybrid_gguf,
};
