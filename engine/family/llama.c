/* Llama and Mistral, dense, and Mixtral, a mixture of experts. Mistral's and Mixtral's layers may
 * see a window.
 *
 * GGUF files call all of them llama, and have the pairs of rows that a rotation turns as
 * neighbours. Biases, whose pairs would be neighbours, too, are refused as unknown tensors.
 * rope_freqs.weight holds the factors of Llama 3.1's rotations (gguf_config.c). */
#include "engine/family/gguf_family.h"
#include "engine/family/reader.h"

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
