/* MiniMax M2: norms over all heads together, partial rotary positions, a router of sigmoids with a
 * correction. The published config has keys of its predecessors' other mixers and feed-forwards,
 * which must say that there are none; of its draft modules no tensors are published. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>

/* 1 is softmax attention. */
static int only_attention(const struct reader *r)
{
	const struct json *types;
	int failed = json_get_list_or_null(r->json, "attn_type_list", r->name, &types, r->e);
	for (const struct json *v = NULL; !failed && types && (v = json_next(types, v));) {
		uint64_t type;
		failed = json_as_uint(v, "attn_type_list", r->name, 0, 9, &type, r->e);
		if (!failed && type != 1)
			return reader_unsupported(r, "attn_type_list", "not all 1", "1");
	}
	return failed;
}

/* The older way to say what is rotated. */
static int read_rotary_dim(const struct reader *r)
{
	uint32_t *dim = &r->config->rope[0].dim;
	int failed = get_u32_or(r, "rotary_dim", 2, r->config->head_dim, *dim, dim);
	if (!failed && *dim % 2)
		return err_set(r->e, EINVAL,
			       "%s: \"rotary_dim\" is %u, which cannot be rotated in pairs",
			       r->name, *dim);
	return failed;
}

static int read(const struct reader *r)
{
	static const struct only keys[] = {
		{"use_qk_norm", "true"},
		{"qk_norm_type", "\"per_layer\""},
		{"use_routing_bias", "true"},
		{"shared_intermediate_size", "0"},
		{"layernorm_full_attention_beta", "1.0"},
		{"layernorm_mlp_beta", "1.0"},
		{"sliding_window", "null"},
		{0},
	};
	r->config->head_norms = HEAD_NORMS_TOGETHER;
	int failed = reader_only(r, keys);
	if (!failed)
		failed = only_attention(r);
	if (!failed)
		failed = reader_only_full_attention(r);
	if (!failed)
		failed = read_rotary_dim(r);
	if (!failed)
		failed = reader_routed(r, "intermediate_size");
	return failed ? failed : reader_sigmoid_router(r);
}

static const struct tensor_name names[] = {
	TENSOR_NAMES_BLOCK_SPARSE_MOE,
	{TENSOR_ROUTER_CORRECTION, BLOCK_SPARSE_MOE "e_score_correction_bias", NULL},
	{0},
};

static const struct gguf_key gguf_keys[] = {{"feed_forward_length", NULL, GGUF_KNOWN, 0}, {0}};
static const struct gguf_family gguf = {
	.architecture = "minimax-m2",
	.keys = {gguf_keys, gguf_keys_routed_only, gguf_keys_sigmoid},
};

static const char *const types[] = {"minimax_m2", NULL};
const struct family family_minimax_m2 = {
	.model_types = types,
	.partial_rotary = true,
	.read = read,
	.names = names,
	.gguf = &gguf,
};
