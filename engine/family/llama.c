/* Llama, SmolLM3 and Mistral (dense), and Mixtral (a mixture of experts). Mistral's and Mixtral's
 * layers may have a window; some of SmolLM3's layers have no rotation.
 *
 * In GGUF files most of them have the architecture llama, and paired rows for the rotation
 * (view.paired). Biases would have paired rows, too, and are refused as unknown tensors.
 * rope_freqs.weight has the factors of Llama 3.1's rotation (gguf_config.c). */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

#include <errno.h>

#define LAYER "blk.%u."
#define GGUF_PAIRED                                            \
	{TENSOR_Q, LAYER "attn_q.weight", view_paired_q},      \
	{                                                      \
		TENSOR_K, LAYER "attn_k.weight", view_paired_k \
	}

static const struct only llama_only[] = {{"mlp_bias", "false"}, {"sliding_window", "null"}, {0}};
static const struct tensor_name gguf_names[] = {GGUF_PAIRED, {0}};
static const struct gguf_family gguf = {
	.architecture = "llama",
	.also = "\"attention_bias\": false",
	.names = gguf_names,
};
static const char *const llama[] = {"llama", NULL}, *const mistral[] = {"mistral", NULL};
const struct family family_llama = {
	.model_types = llama,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_LLAMA3 | 1U << ROPE_YARN | 1U << ROPE_FACTORS,
	.only = llama_only,
	.parts = {reader_only_full_attention, reader_dense},
	.gguf = &gguf,
};
const struct family family_mistral = {
	.model_types = mistral,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_YARN,
	.parts = {reader_windows, reader_dense},
};

/* ---- SmolLM3: layer i rotates where no_rope_layers[i] is 1, or without the list in all but every
 * no_rope_layer_interval-th */

static void llama_rotating(struct reader *r)
{
	struct config *c = r->config;
	uint32_t interval, layer = 0;
	reader_u32_or(r, "no_rope_layer_interval", 1, UINT32_MAX, 4, &interval);
	for (; layer < c->layers; layer++)
		c->layer[layer].rope = (layer + 1) % interval ? 0 : CONFIG_NO_ROPE;
	const struct json *list = reader_list_or_null(r, "no_rope_layers"), *v = NULL;
	if (list && json_count(list) != c->layers)
		reader_refuse(r, EINVAL, "no_rope_layers names %zu layers of %u", json_count(list),
			      c->layers);
	for (layer = 0; !r->failed && (v = json_next(list, v)); layer++) {
		uint64_t rotates = 0;
		r->failed = json_as_uint(v, "no_rope_layers", r->name, 0, 1, &rotates, r->e);
		c->layer[layer].rope = rotates ? 0 : CONFIG_NO_ROPE;
	}
}

/* GGUF files do not say which layers have no rotation: every fourth, as in the published models. */
static const struct gguf_family smollm3_gguf = {
	.architecture = "smollm3",
	.also = "\"attention_bias\": false, \"no_rope_layer_interval\": 4",
	.names = gguf_names,
};
static const char *const smollm3[] = {"smollm3", NULL};
const struct family family_smollm3 = {
	.model_types = smollm3,
	.tied = true,
	.ropes = 1U << ROPE_LINEAR | 1U << ROPE_LLAMA3 | 1U << ROPE_YARN | 1U << ROPE_FACTORS,
	.only = llama_only,
	.parts = {reader_only_full_attention, reader_dense, llama_rotating},
	.gguf = &smollm3_gguf,
};

static const struct tensor_name mixtral_names[] = {TENSOR_NAMES_BLOCK_SPARSE_MOE, {0}};
/* Older files have a tensor for each expert. */
static const struct tensor_name mixtral_gguf_names[] = {
	GGUF_PAIRED,
	{TENSOR_EXPERT_GATE, LAYER "ffn_gate.%u.weight", NULL},
	{TENSOR_EXPERT_UP, LAYER "ffn_up.%u.weight", NULL},
	{TENSOR_EXPERT_DOWN, LAYER "ffn_down.%u.weight", NULL},
	{0},
};
static const struct gguf_family mixtral_gguf = {
	.architecture = "llama",
	.routed = true,
	.also = "\"attention_bias\": false",
	.keys = {gguf_keys_routed_only},
	.names = mixtral_gguf_names,
};
static const char *const mixtral[] = {"mixtral", NULL};
const struct family family_mixtral = {
	.model_types = mixtral,
	.rms_eps = 1e-5,
	.normalise_top_k = true,
	.parts = {reader_windows, reader_experts},
	.names = mixtral_names,
	.gguf = &mixtral_gguf,
};
