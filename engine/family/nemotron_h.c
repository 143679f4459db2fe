/* NVIDIA's Nemotron-H: each layer has only one part: Mamba2, attention without rotation, a
 * feed-forward, or experts. Feed-forwards have no gate; experts may read and write a projection. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>
#include <string.h>

enum { NEMOTRON_MAMBA, NEMOTRON_ATTENTION, NEMOTRON_DENSE, NEMOTRON_ROUTED };

/* hybrid_override_pattern has a character for each layer: an older form of layers_block_type. */
static void nemotron_read_pattern(struct reader *r, uint32_t kind[CONFIG_MAX_LAYERS])
{
	static const char letters[] = {[NEMOTRON_MAMBA] = 'M',
				       [NEMOTRON_ATTENTION] = '*',
				       [NEMOTRON_DENSE] = '-',
				       [NEMOTRON_ROUTED] = 'E'};
	const char *pattern = reader_string_or(r, "hybrid_override_pattern", "");
	if (strlen(pattern) != r->config->layers)
		reader_refuse(r, EINVAL, "hybrid_override_pattern names %zu layers of %u",
			      strlen(pattern), r->config->layers);
	for (uint32_t layer = 0; layer < r->config->layers && !r->failed; layer++) {
		const char *letter = memchr(letters, pattern[layer], sizeof letters);
		if (!letter)
			reader_refuse(r, ENOTSUP,
				      "\"hybrid_override_pattern\" has a layer %c, but only M, *, - "
				      "and E are supported",
				      pattern[layer]);
		else
			kind[layer] = (uint32_t)(letter - letters);
	}
}

static void nemotron_read_kinds(struct reader *r, uint32_t kind[CONFIG_MAX_LAYERS])
{
	static const struct reader_kind kinds[] = {
		{"mamba", NEMOTRON_MAMBA},	  {"linear_attention", NEMOTRON_MAMBA},
		{"attention", NEMOTRON_ATTENTION}, {"full_attention", NEMOTRON_ATTENTION},
		{"mlp", NEMOTRON_DENSE},	  {"moe", NEMOTRON_ROUTED},
		{0}};
	if (!reader_layer_kinds(r, "layers_block_type", kinds, kind) && !r->failed)
		nemotron_read_pattern(r, kind);
}

static void nemotron_mamba(struct reader *r)
{
	struct mamba *m = &r->config->mamba;
	const struct reader_number numbers[] = {
		{"mamba_num_heads", &m->heads, 4096}, {"mamba_head_dim", &m->head_dim, 4096},
		{"n_groups", &m->groups, 4096},	      {"ssm_state_size", &m->state, 4096},
		{"conv_kernel", &m->width, 64},
	};
	double eps;
	reader_double_or(r, "layer_norm_epsilon", 0, 1, 1e-5, &eps);
	r->config->rms_eps = (float)eps;
	m->bias = true;
	reader_numbers(r, numbers, sizeof numbers / sizeof *numbers);
	reader_bool(r, "use_conv_bias", &m->bias);
	reader_check_mamba(r);
}

static void nemotron_experts(struct reader *r)
{
	struct config *c = r->config;
	reader_moe(r);
	if (r->failed)
		return;
	reader_sigmoid_router(r);
	reader_u32(r, "moe_shared_expert_intermediate_size", 1, CONFIG_MAX_WIDTH, &c->shared_size);
	reader_u32_or(r, "moe_latent_size", 1, CONFIG_MAX_WIDTH, 0, &c->expert_latent);
}

static void nemotron_layers(struct reader *r)
{
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS], count[NEMOTRON_ROUTED + 1] = {0};
	nemotron_read_kinds(r, kind);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++)
		count[kind[layer]]++;
	c->glu = GLU_NONE;
	if (count[NEMOTRON_MAMBA])
		nemotron_mamba(r);
	if (count[NEMOTRON_ROUTED])
		nemotron_experts(r);
	if (count[NEMOTRON_DENSE])
		reader_dense(r);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++) {
		struct layer *l = &c->layer[layer];
		bool mixes = kind[layer] == NEMOTRON_MAMBA || kind[layer] == NEMOTRON_ATTENTION;
		bool routed = kind[layer] == NEMOTRON_ROUTED;
		l->mixer = kind[layer] == NEMOTRON_MAMBA ? MIXER_MAMBA : MIXER_ATTENTION;
		l->feed_forward = routed ? FEED_FORWARD_ROUTED : FEED_FORWARD_DENSE;
		if (mixes)
			l->feed_forward = FEED_FORWARD_NONE;
		else
			l->mixer = MIXER_NONE;
		l->shared = routed;
		l->rope = CONFIG_NO_ROPE;
	}
	reader_left_out(r);
}

static const struct only nemotron_only[] = {
	{"mlp_hidden_act", "\"relu2\""}, {"mamba_hidden_act", "\"silu\""},
	{"use_bias", "false"},		 {"mlp_bias", "false"},
	{"attention_bias", "false"},	 {"mamba_proj_bias", "false"},
	{"n_shared_experts", "1"},	 {"sliding_window", "null"},
	{0}};

/* clang-format off: a row a line */
#define N "backbone.layers.%u."
#define X N "mixer."
static const struct tensor_name nemotron_names[] = {
	{TENSOR_EMBEDDING, "backbone.embeddings.weight", NULL},
	{TENSOR_FINAL_NORM, "backbone.norm_f.weight", NULL},
	{TENSOR_MIXER_NORM, N "norm.weight", NULL},
	{TENSOR_FEED_FORWARD_NORM, N "norm.weight", NULL},
	{TENSOR_Q, X "q_proj.weight", NULL},
	{TENSOR_K, X "k_proj.weight", NULL},
	{TENSOR_V, X "v_proj.weight", NULL},
	{TENSOR_O, X "o_proj.weight", NULL},
	{TENSOR_MAMBA_Z, X "in_proj.weight", view_mamba_z},
	{TENSOR_MAMBA_XBC, X "in_proj.weight", view_mamba_xbc},
	{TENSOR_MAMBA_DT, X "in_proj.weight", view_mamba_dt},
	{TENSOR_MAMBA_CONV, X "conv1d.weight", view_mamba_convolution},
	{TENSOR_MAMBA_CONV_BIAS, X "conv1d.bias", NULL},
	{TENSOR_MAMBA_A_LOG, X "A_log", NULL},
	{TENSOR_MAMBA_D, X "D", NULL},
	{TENSOR_MAMBA_DT_BIAS, X "dt_bias", NULL},
	{TENSOR_MAMBA_NORM, X "norm.weight", NULL},
	{TENSOR_MAMBA_OUT, X "out_proj.weight", NULL},
	{TENSOR_UP, X "up_proj.weight", NULL},
	{TENSOR_DOWN, X "down_proj.weight", NULL},
	{TENSOR_ROUTER, X "gate.weight", NULL},
	{TENSOR_ROUTER_CORRECTION, X "gate.e_score_correction_bias", NULL},
	{TENSOR_EXPERTS_IN, X "fc1_latent_proj.weight", NULL},
	{TENSOR_EXPERTS_OUT, X "fc2_latent_proj.weight", NULL},
	{TENSOR_SHARED_UP, X "shared_experts.up_proj.weight", NULL},
	{TENSOR_SHARED_DOWN, X "shared_experts.down_proj.weight", NULL},
	{TENSOR_EXPERT_UP, X "experts.%u.up_proj.weight", NULL},
	{TENSOR_EXPERT_DOWN, X "experts.%u.down_proj.weight", NULL},
	{0},
};
/* clang-format on */

/* ---- GGUF files: key heads or the presence of tensors tell the kind of a layer ---- */

static const struct gguf_key nemotron_keys[] = {
	{"attention.layer_norm_epsilon", NULL, GGUF_KNOWN, 0},
	{"attention.layer_norm_rms_epsilon", NULL, GGUF_KNOWN, 0},
	{"feed_forward_length", NULL, GGUF_KNOWN, 0},
	{"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", GGUF_COPIED, 0},
	{"moe_latent_size", "moe_latent_size", GGUF_COPIED, 0},
	{"rope.freq_base", NULL, GGUF_KNOWN, 0}, /* there is no rotation */
	{"ssm.conv_kernel", "conv_kernel", GGUF_COPIED, 0},
	{"ssm.state_size", "ssm_state_size", GGUF_COPIED, 0},
	{"ssm.group_count", "n_groups", GGUF_COPIED, 0},
	{"ssm.time_step_rank", "mamba_num_heads", GGUF_COPIED, 0},
	{"ssm.inner_size", NULL, GGUF_KNOWN, 0},
	{0},
};

static const char *nemotron_kind(struct gguf_writer *w, uint64_t layer)
{
	if (gguf_writer_uint_of(w, "attention.head_count_kv", layer))
		return "attention";
	if (gguf_writer_tensor(w, layer, "ssm_in.weight"))
		return "mamba";
	return gguf_writer_tensor(w, layer, "ffn_gate_inp.weight") ? "moe" : "mlp";
}

/* Writes the width of the dense feed-forwards: that of the first one. For layers of experts the
 * converter writes 0. */
static void nemotron_put_width(struct gguf_writer *w)
{
	uint64_t layers = gguf_writer_layers(w);
	for (uint64_t i = 0; i < layers; i++) {
		const struct package_tensor *up = gguf_writer_tensor(w, i, "ffn_up.weight");
		if (up) {
			gguf_put_uint(w, "intermediate_size", package_rows(up));
			return;
		}
	}
}

static void nemotron_put(struct gguf_writer *w)
{
	static const char eps[] = "attention.layer_norm_rms_epsilon";
	gguf_put_kinds(w, "layers_block_type", nemotron_kind);
	gguf_put_real(w, "layer_norm_epsilon",
		      gguf_writer_real(w, gguf_writer_has(w, eps) ? eps
								  : "attention.layer_norm_epsilon"));
	if (gguf_writer_has(w, "ssm.inner_size"))
		gguf_put_uint(w, "mamba_head_dim", gguf_writer_inner_dim(w));
	gguf_put_bool(w, "use_conv_bias", gguf_writer_any_tensor(w, "ssm_conv1d.bias"));
	nemotron_put_width(w);
}

static const struct tensor_name nemotron_gguf_names[] = {
	{TENSOR_Q, "blk.%u.attn_q.weight", view_paired_q},
	{TENSOR_K, "blk.%u.attn_k.weight", view_paired_k},
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.attn_norm.weight", NULL},
	{TENSOR_EXPERTS_IN, "blk.%u.ffn_latent_down.weight", NULL},
	{TENSOR_EXPERTS_OUT, "blk.%u.ffn_latent_up.weight", NULL},
	GGUF_NAMES_MAMBA,
	{0},
};
static const struct gguf_family nemotron_gguf = {
	.architecture = "nemotron_h",
	.second = "nemotron_h_moe",
	.also = "\"attention_bias\": false",
	.keys = {nemotron_keys, gguf_keys_routed, gguf_keys_sigmoid},
	.names = nemotron_gguf_names,
	.put = nemotron_put,
};

static const char *const nemotron_h[] = {"nemotron_h", NULL};
static const char *const nemotron_skipped[] = {"mtp.", NULL};
const struct family family_nemotron_h = {
	.model_types = nemotron_h,
	.own_positions = true,
	.layers_list = "layers_block_type",
	.only = nemotron_only,
	.parts = {nemotron_layers},
	.names = nemotron_names,
	.gguf = &nemotron_gguf,
	.skipped = nemotron_skipped,
};
