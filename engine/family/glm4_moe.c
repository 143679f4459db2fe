/* GLM-4.5 to 4.7: partial rotary positions, biases on q, k and v, the first layers dense, a router
 * of sigmoids with a correction, and a shared expert. Its draft layer, which lies after the last
 * one, is left out. */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

static int read(const struct reader *r)
{
	static int (*const parts[])(const struct reader *) = {
		reader_only_full_attention,
		reader_dense,
		reader_moe,
		reader_first_dense,
		reader_sigmoid_router,
		reader_shared_experts,
		reader_left_out,
	};
	bool norms;
	int failed = json_get_bool_or(r->json, "use_qk_norm", r->name, false, &norms, r->e);
	for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++)
		failed = parts[i](r);
	if (!failed && norms)
		r->config->head_norms = HEAD_NORMS_EACH;
	r->config->output_bias = false;
	return failed ? failed
		      : json_get_bool_or(r->json, "qkv_bias", r->name, r->config->qkv_bias,
					 &r->config->qkv_bias, r->e);
}

#define SHARED "model.layers.%u.mlp.shared_experts."
static const struct tensor_name names[] = {
	{TENSOR_SHARED_GATE, SHARED "gate_proj.weight", NULL},
	{TENSOR_SHARED_UP, SHARED "up_proj.weight", NULL},
	{TENSOR_SHARED_DOWN, SHARED "down_proj.weight", NULL},
	{0},
};

/* GGUF files have the draft layer, too, after the last one. */
static const struct tensor_name gguf_names[] = {
	{TENSOR_FEED_FORWARD_NORM, "blk.%u.post_attention_norm.weight", NULL},
	{0},
};
static const struct gguf_family gguf = {
	.architecture = "glm4moe",
	.keys = {gguf_keys_routed, gguf_keys_sigmoid},
	.names = gguf_names,
};

static const char *const types[] = {"glm4_moe", NULL};
const struct family family_glm4_moe = {
	.model_types = types,
	.partial_rotary = true,
	.read = read,
	.names = names,
	.gguf = &gguf,
};
