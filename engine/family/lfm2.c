/* Liquid AI's LFM2: short convolutions with two gates, and some layers of attention; dense models,
 * and mixtures of experts with dense first layers. */
#include "engine/family/gguf_writer.h"
#include "engine/family/reader.h"

#include <errno.h>

enum { LFM2_CONVOLUTION, LFM2_ATTENTION };

/* full_attn_idxs: the layers of attention, an older form of layer_types. */
static void lfm2_list_attention(struct reader *r, uint32_t kind[CONFIG_MAX_LAYERS])
{
	const struct json *list = reader_list_or_null(r, "full_attn_idxs"), *v = NULL;
	for (uint32_t layer = 0; layer < r->config->layers; layer++)
		kind[layer] = list ? LFM2_CONVOLUTION : LFM2_ATTENTION;
	while (!r->failed && (v = json_next(list, v))) {
		uint64_t layer = 0;
		r->failed = json_as_uint(v, "full_attn_idxs", r->name, 0, r->config->layers - 1,
					 &layer, r->e);
		if (!r->failed)
			kind[layer] = LFM2_ATTENTION;
	}
}

static void lfm2_layers(struct reader *r)
{
	static const struct reader_kind kinds[] = {
		{"conv", LFM2_CONVOLUTION}, {"full_attention", LFM2_ATTENTION}, {0}};
	struct config *c = r->config;
	uint32_t kind[CONFIG_MAX_LAYERS];
	double eps;
	reader_double_or(r, "norm_eps", 0, 1, 1e-5, &eps);
	c->rms_eps = (float)eps;
	reader_bool(r, "tie_embedding", &c->tied_head);
	reader_u32(r, "conv_L_cache", 1, 64, &c->convolution);
	if (3 * (uint64_t)c->hidden_size > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "three parts of a convolution of %u are wider than the %d that is "
			      "supported",
			      c->hidden_size, CONFIG_MAX_WIDTH);
	if (!reader_layer_kinds(r, "layer_types", kinds, kind))
		lfm2_list_attention(r, kind);
	for (uint32_t layer = 0; layer < c->layers && !r->failed; layer++)
		if (kind[layer] == LFM2_CONVOLUTION)
			c->layer[layer].mixer = MIXER_CONVOLUTION;
}

/* Computes the adjusted size of the feed-forward; the config has the size before. */
static void lfm2_adjust_size(struct reader *r)
{
	struct config *c = r->config;
	bool adjust = true;
	uint32_t multiple;
	double factor;
	reader_u32(r, json_has(r->json, "block_ff_dim") ? "block_ff_dim" : "intermediate_size", 1,
		   CONFIG_MAX_WIDTH, &c->intermediate_size);
	reader_bool(r, "block_auto_adjust_ff_dim", &adjust);
	reader_u32_or(r, "block_multiple_of", 1, CONFIG_MAX_WIDTH, 256, &multiple);
	reader_double_or(r, "block_ffn_dim_multiplier", 1e-3, 1e3, 1, &factor);
	if (r->failed || !adjust)
		return;
	double size = (double)(uint32_t)(factor * (2 * (uint64_t)c->intermediate_size / 3));
	uint64_t parts = ((uint64_t)size + multiple - 1) / multiple;
	if (!parts || parts * multiple > CONFIG_MAX_WIDTH)
		reader_refuse(r, EINVAL,
			      "a feed-forward of %u times %g in parts of %u is not between 1 and "
			      "the %d that is supported",
			      c->intermediate_size, factor, multiple, CONFIG_MAX_WIDTH);
	else
		c->intermediate_size = (uint32_t)(parts * multiple);
}

static void lfm2_router(struct reader *r)
{
	struct config *c = r->config;
	c->router_correction = true;
	c->top_k_eps = 1e-6F;
	reader_bool(r, "use_expert_bias", &c->router_correction);
	reader_factor(r, "routed_scaling_factor", &c->routed_scaling);
	reader_first_dense_by(r, "num_dense_layers");
}

static const struct only lfm2_only[] = {{"conv_bias", "false"}, {0}};

/* clang-format off: a row a line */
#define L "model.layers.%u."
#define LFM2_NAMES                                                               \
	{TENSOR_MIXER_NORM, L "operator_norm.weight", NULL},                     \
	{TENSOR_FEED_FORWARD_NORM, L "ffn_norm.weight", NULL},                   \
	{TENSOR_FINAL_NORM, "model.embedding_norm.weight", NULL},                \
	{TENSOR_O, L "self_attn.out_proj.weight", NULL},                         \
	{TENSOR_Q_NORM, L "self_attn.q_layernorm.weight", NULL},                 \
	{TENSOR_K_NORM, L "self_attn.k_layernorm.weight", NULL},                 \
	{TENSOR_CONVOLUTION_TAPS, L "conv.conv.weight", view_short_convolution}, \
	{TENSOR_GATE, L "feed_forward.w1.weight", NULL},                         \
	{TENSOR_UP, L "feed_forward.w3.weight", NULL},                           \
	{TENSOR_DOWN, L "feed_forward.w2.weight", NULL}
static const struct tensor_name lfm2_names[] = {LFM2_NAMES, {0}};
static const struct tensor_name lfm2_moe_names[] = {
	LFM2_NAMES,
	{TENSOR_ROUTER, L "feed_forward.gate.weight", NULL},
	{TENSOR_ROUTER_CORRECTION, L "feed_forward.expert_bias", NULL},
	{TENSOR_EXPERT_GATE, L "feed_forward.experts.%u.w1.weight", NULL},
	{TENSOR_EXPERT_UP, L "feed_forward.experts.%u.w3.weight", NULL},
	{TENSOR_EXPERT_DOWN, L "feed_forward.experts.%u.w2.weight", NULL},
	{0},
};
/* clang-format on */

/* ---- GGUF files: layers of convolutions have 0 key heads ---- */

static const struct gguf_key lfm2_keys[] = {
	{"attention.layer_norm_rms_epsilon", "norm_eps", GGUF_REAL, 0},
	{"shortconv.l_cache", "conv_L_cache", GGUF_COPIED, 0},
	{"leading_dense_block_count", "num_dense_layers", GGUF_COPIED, 0},
	{"expert_gating_func", NULL, GGUF_NEUTRAL, 2}, /* sigmoid */
	{0},
};

static const char *lfm2_kind(struct gguf_writer *w, uint64_t layer)
{
	return gguf_writer_uint_of(w, "attention.head_count_kv", layer) ? "full_attention" : "conv";
}

static void lfm2_put(struct gguf_writer *w)
{
	gguf_put_kinds(w, "layer_types", lfm2_kind);
}

/* clang-format off: a row a line */
#define G "blk.%u."
static const struct tensor_name lfm2_gguf_names[] = {
	{TENSOR_FINAL_NORM, "token_embd_norm.weight", NULL},
	{TENSOR_CONVOLUTION_IN, G "shortconv.in_proj.weight", NULL},
	{TENSOR_CONVOLUTION_TAPS, G "shortconv.conv.weight", NULL},
	{TENSOR_CONVOLUTION_OUT, G "shortconv.out_proj.weight", NULL},
	{0},
};
/* clang-format on */
static const struct gguf_family lfm2_gguf = {
	.architecture = "lfm2",
	.also = "\"block_auto_adjust_ff_dim\": false", /* the file has the adjusted size */
	.keys = {lfm2_keys},
	.names = lfm2_gguf_names,
	.put = lfm2_put,
};
static const struct gguf_family lfm2_moe_gguf = {
	.architecture = "lfm2moe",
	.keys = {lfm2_keys, gguf_keys_routed},
	.names = lfm2_gguf_names,
	.put = lfm2_put,
};

static const char *const lfm2[] = {"lfm2", NULL}, *const lfm2_moe[] = {"lfm2_moe", NULL};
const struct family family_lfm2 = {
	.model_types = lfm2,
	.tied = true,
	.head_norms = HEAD_NORMS_EACH,
	.only = lfm2_only,
	.parts = {lfm2_layers, lfm2_adjust_size},
	.names = lfm2_names,
	.gguf = &lfm2_gguf,
};
const struct family family_lfm2_moe = {
	.model_types = lfm2_moe,
	.tied = true,
	.head_norms = HEAD_NORMS_EACH,
	.normalise_top_k = true,
	.router_order = SIGMOID_THEN_TOP_K,
	.only = lfm2_only,
	.parts = {lfm2_layers, reader_dense, reader_moe, lfm2_router, reader_normalisation},
	.names = lfm2_moe_names,
	.gguf = &lfm2_moe_gguf,
};
