/* Mixtures of experts that are nearly all data: OLMoE, MiniMax M2, GLM-4.5 to 4.7. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>

/* ---- OLMoE: norms over all heads together */

static const struct only olmoe_only[] = {{"clip_qkv", "null"}, {0}};
static const struct gguf_family olmoe_gguf = {
	.architecture = "olmoe",
	.keys = {gguf_keys_routed_only},
};
static const char *const olmoe[] = {"olmoe", NULL};
const struct family family_olmoe = {
	.model_types = olmoe,
	.rms_eps = 1e-5,
	.head_norms = HEAD_NORMS_TOGETHER,
	.only = olmoe_only,
	.parts = {reader_only_full_attention, reader_experts, reader_normalisation},
	.gguf = &olmoe_gguf,
};

/* ---- MiniMax M2: norms over all heads together, partial rotation, a router of sigmoids with a
 * correction. The published config has keys for mixers and feed-forwards of earlier models, which
 * must be off here. The tensors of its draft modules are not published.
 */

static void mixtures_minimax_attention(struct reader *r)
{
	const struct json *types = reader_list_or_null(r, "attn_type_list"), *v = NULL;
	while (!r->failed && (v = json_next(types, v))) {
		uint64_t type = 1; /* softmax attention */
		r->failed = json_as_uint(v, "attn_type_list", r->name, 0, 9, &type, r->e);
		if (type != 1)
			reader_unsupported(r, "attn_type_list", "not all 1", "1");
	}
}

/* The older key for how much of a head is rotated. */
static void mixtures_minimax_rotary_dim(struct reader *r)
{
	uint32_t *dim = &r->config->rope[0].dim;
	reader_u32_or(r, "rotary_dim", 2, r->config->head_dim, *dim, dim);
	if (*dim % 2)
		reader_refuse(r, EINVAL, "\"rotary_dim\" is %u, which cannot be rotated in pairs",
			      *dim);
}

static const struct only minimax_only[] = {
	{"use_qk_norm", "true"},
	{"qk_norm_type", "\"per_layer\""},
	{"use_routing_bias", "true"},
	{"shared_intermediate_size", "0"},
	{"layernorm_full_attention_beta", "1.0"},
	{"layernorm_mlp_beta", "1.0"},
	{"sliding_window", "null"},
	{0},
};
static const struct tensor_name minimax_names[] = {
	TENSOR_NAMES_BLOCK_SPARSE_MOE,
	{TENSOR_ROUTER_CORRECTION, BLOCK_SPARSE_MOE "e_score_correction_bias", NULL},
	{0},
};
static const struct gguf_key minimax_gguf_keys[] = {{"feed_forward_length", NULL, GGUF_KNOWN, 0},
						    {0}};
static const struct gguf_family minimax_gguf = {
	.architecture = "minimax-m2",
	.keys = {minimax_gguf_keys, gguf_keys_routed_only, gguf_keys_sigmoid},
};
static const char *const minimax_m2[] = {"minimax_m2", NULL};
const struct family family_minimax_m2 = {
	.model_types = minimax_m2,
	.partial_rotary = true,
	.head_norms = HEAD_NORMS_TOGETHER,
	.only = minimax_only,
	.parts = {mixtures_minimax_attention, reader_only_full_attention,
		  mixtures_minimax_rotary_dim, reader_experts, reader_sigmoid_router},
	.names = minimax_names,
	.gguf = &minimax_gguf,
};

/* ---- GLM-4.5 to 4.7: partial rotation, biases on q, k and v, the first layers dense, a router of
 * sigmoids with a correction, and a shared expert. The draft layer after the last layer is left
 * out. */

static void mixtures_glm_attention(struct reader *r)
{
	struct config *c = r->config;
	bool norms = false;
	reader_bool(r, "use_qk_norm", &norms);
	if (norms)
		c->head_norms = HEAD_NORMS_EACH;
	c->output_bias = false;
	reader_bool(r, "qkv_bias", &c->qkv_bias);
}

static const struct tensor_name glm_names[] = {
	TENSOR_NAMES_SHARED_EXPERTS("model.layers.%u.mlp."),
	{0},
};
/* GGUF files also have the draft layer after the last layer. */
static const struct tensor_name glm_gguf_names[] = {
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.post_attention_norm.weight", NULL},
	{0},
};
static const struct gguf_family glm_gguf = {
	.architecture = "glm4moe",
	.keys = {gguf_keys_routed, gguf_keys_sigmoid},
	.names = glm_gguf_names,
};
static const char *const glm4_moe[] = {"glm4_moe", NULL};
const struct family family_glm4_moe = {
	.model_types = glm4_moe,
	.partial_rotary = true,
	.parts = {mixtures_glm_attention, reader_only_full_attention, reader_dense, reader_moe,
		  reader_first_dense, reader_sigmoid_router, reader_shared_experts,
		  reader_left_out},
	.names = glm_names,
	.gguf = &glm_gguf,
};
