/* The text part of GLM 5.3 Flash: several residual streams with mixed hyper-connections, whose mean
 * the head reads; Kimi's delta attention with bounded decays, and latent attention without
 * rotation, whose index scores pools of positions; the first layers dense, a router of sigmoids
 * with a correction and groups, a shared expert, and gated units with a limit. The vision part is
 * left out. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <math.h>

/* ---- mixers ---- */

static void glm5_next_delta(struct reader *r)
{
	double lower;
	reader_kimi(r, (struct reader_kimi_keys){"linear_num_heads", "linear_head_dim",
						 "linear_conv_kernel_dim"});
	reader_double_or(r, "linear_lower_bound", -1000, -1e-3, 0, &lower);
	r->config->delta_net.lower = (float)lower;
}

static void glm5_next_mixers(struct reader *r)
{
	static const struct reader_kind kinds[] = {
		{"linear_attention", MIXER_KIMI}, {"indexed_attention", MIXER_LATENT}, {0}};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS];
	glm5_next_delta(r);
	reader_latent(r);
	if (c->latent.rope)
		reader_unsupported(r, "qk_rope_head_dim", "not 0", "0");
	if (!reader_layer_kinds(r, "layer_types", kinds, kind) && !r->failed)
		r->failed = json_wrong(NULL, "layer_types", r->name, "there", r->e);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		c->layer[layer].mixer = (enum mixer)kind[layer];
		c->layer[layer].rope = CONFIG_NO_ROPE;
		if (c->layer[layer].mixer == MIXER_LATENT)
			c->layer[layer].index = INDEX_OWN;
	}
}

/* indexer_types: "shared" layers use the choice of the last layer with an index. */
static void glm5_next_shared(struct reader *r)
{
	static const struct reader_kind kinds[] = {
		{"full", INDEX_OWN}, {"shared", INDEX_SHARED}, {0}};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS];
	bool chosen = false;
	if (!reader_layer_kinds(r, "indexer_types", kinds, kind))
		return;
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		struct layer *l = &c->layer[layer];
		if (l->mixer != MIXER_LATENT)
			continue;
		l->index = (enum index_use)kind[layer];
		if (l->index == INDEX_SHARED && !chosen)
			reader_refuse(r, EINVAL, "layer %u has no index before it to share", layer);
		chosen = true;
	}
}

static void glm5_next_index(struct reader *r)
{
	struct chooser *x = &r->config->chooser;
	uint32_t budget = 1;
	x->entry = INDEX_POOLS;
	x->groups = 1;
	x->low = x->layer_norm = x->weighed = true;
	const struct reader_number numbers[] = {
		{"index_n_heads", &x->heads, 4096},
		{"index_head_dim", &x->dim, 4096},
		{"index_topk", &budget, CONFIG_MAX_POSITIONS},
		{"index_kpool", &x->ratio, 64},
	};
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	if (r->failed)
		return;
	if (64 % x->ratio || budget < x->ratio)
		reader_refuse(r, EINVAL,
			      "pools of %u positions (index_kpool) with a budget of %u (index_topk) "
			      "are not supported: the first must divide 64",
			      x->ratio, budget);
	if (!r->config->latent.query_rank)
		reader_refuse(r, EINVAL, "an index needs \"q_lora_rank\", from which its queries come");
	x->most = budget / x->ratio;
	reader_check_index(r);
	glm5_next_shared(r);
}

/* ---- streams, feed-forwards ---- */

static void glm5_next_streams(struct reader *r)
{
	reader_mixed_streams(r);
	r->config->streams.mean = true;
}

static void glm5_next_feed_forwards(struct reader *r)
{
	reader_limited_units(r);
	reader_first_dense(r);
	reader_dense_or_sparse(r);
}

static const struct only glm5_only[] = {{"attention_bias", "false"},
					{"index_kpool_always_select_tail", "true"},
					{0}};

/* clang-format off: a row a line */
#define A "model.layers.%u.self_attn."
static const struct tensor_name names[] = {
	{TENSOR_LATENT_KEYS, A "kv_b_proj.weight", view_latent_keys},
	{TENSOR_LATENT_VALUES, A "kv_b_proj.weight", view_latent_values},
	TENSOR_NAMES_SHARED_EXPERTS("model.layers.%u.mlp."),
	{TENSOR_KIMI_Q_CONV, A "q_conv1d.weight", view_kimi_q_convolution},
	{TENSOR_KIMI_K_CONV, A "k_conv1d.weight", view_kimi_k_convolution},
	{TENSOR_KIMI_V_CONV, A "v_conv1d.weight", view_kimi_v_convolution},
	{0},
};
/* clang-format on */

/* ---- GGUF files: layers of delta attention have no heads for keys ---- */

static const struct gguf_key gguf_keys[] = {
	{"attention.layer_norm_epsilon", NULL, GGUF_KNOWN, 0},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", GGUF_COPIED, 0},
	{"kda.head_dim", "linear_head_dim", GGUF_COPIED, 0},
	{"kda.gate_lower_bound", "linear_lower_bound", GGUF_REAL, 0},
	{"attention.indexer.head_count", "index_n_heads", GGUF_COPIED, 0},
	{"attention.indexer.key_length", "index_head_dim", GGUF_COPIED, 0},
	{"attention.indexer.top_k", "index_topk", GGUF_COPIED, 0},
	{"attention.indexer.types", NULL, GGUF_KNOWN, 0},
	{"attention.indexer.kpool", "index_kpool", GGUF_COPIED, 0},
	{"attention.indexer.kpool_select_tail", "index_kpool_always_select_tail", GGUF_FLAG, 0},
	{"hyper_connection.count", "hc_mult", GGUF_COPIED, 0},
	{"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", GGUF_COPIED, 0},
	{"hyper_connection.epsilon", "hc_eps", GGUF_REAL, 0},
	{"swiglu_clamp_exp", NULL, GGUF_KNOWN, 0},
	{"swiglu_clamp_shexp", NULL, GGUF_KNOWN, 0},
	{0},
};

static const char *glm5_next_kind(struct gguf_writer *w, uint64_t layer)
{
	bool attends = gguf_writer_uint_of(w, "attention.head_count_kv", layer);
	return attends ? "indexed_attention" : "linear_attention";
}

static const char *glm5_next_index_kind(struct gguf_writer *w, uint64_t layer)
{
	return gguf_writer_flag_of(w, "attention.indexer.types", layer, true) ? "full" : "shared";
}

static void glm5_next_put(struct gguf_writer *w)
{
	static const char eps[] = "attention.layer_norm_epsilon";
	if (gguf_writer_has(w, eps) && fabs(gguf_writer_real(w, eps) - 1e-6) > 1e-9)
		gguf_writer_refuse(w, ENOTSUP, "%s is %g, but only 1e-06 is supported", eps,
				   gguf_writer_real(w, eps));
	gguf_put_kinds(w, "layer_types", glm5_next_kind);
	gguf_put_kinds(w, "indexer_types", glm5_next_index_kind);
	gguf_put_uint(w, "linear_num_heads", gguf_writer_uint(w, "attention.head_count"));
	gguf_put_limit(w);
}

/* clang-format off: a row a line */
#define B "blk.%u."
static const struct tensor_name gguf_names[] = {
	GGUF_NAMES_KIMI,
	{TENSOR_KIMI_A_LOG, B "ssm_a", view_kimi_negated_row},
	GGUF_NAMES_INDEX,
	{TENSOR_INDEX_GATE, B "indexer_compressor_gate.weight", NULL},
	{TENSOR_INDEX_POOL_BIAS, B "indexer_compressor_ape.weight", NULL},
	GGUF_NAMES_MIXED,
	{0},
};
/* clang-format on */
static const struct gguf_family gguf = {
	.architecture = "glm5-next",
	.keys = {gguf_keys, gguf_keys_latent, gguf_keys_routed, gguf_keys_sigmoid},
	.names = gguf_names,
	.put = glm5_next_put,
};

static const char *const types[] = {"glm5_next", "glm5_next_text", NULL};
static const char *const skipped[] = {"model.visual.", "visual.", "mtp.", NULL};
const struct family family_glm5_next = {
	.model_types = types,
	.nested = true,
	.own_positions = true,
	.rms_eps = 1e-5,
	.only = glm5_only,
	.parts = {glm5_next_mixers, glm5_next_index, glm5_next_streams, reader_dense, reader_moe,
		  glm5_next_feed_forwards, reader_sigmoid_router, reader_shared_experts,
		  reader_left_out},
	.names = names,
	.gguf = &gguf,
	.skipped = skipped,
};
