/* DeepSeek V4 in GGUF files: a list with the positions per entry of each layer tells which layers
 * have entries, and the limit of gated units is a list. */
#include "engine/family/gguf_writer.h"

#include <errno.h>
#include <inttypes.h>

static const struct gguf_key keys[] = {
	{"embedding_length_out", NULL, GGUF_KNOWN, 0},
	{"nextn_predict_layers", NULL, GGUF_KNOWN, 0},
	{"attention.q_lora_rank", "q_lora_rank", GGUF_COPIED, 0},
	{"attention.sliding_window", "sliding_window", GGUF_COPIED, 0},
	{"attention.output_group_count", "o_groups", GGUF_COPIED, 0},
	{"attention.output_lora_rank", "o_lora_rank", GGUF_COPIED, 0},
	{"attention.compress_ratios", NULL, GGUF_KNOWN, 0},
	{"attention.compress_rope_freq_base", "compress_rope_theta", GGUF_REAL, 0},
	{"attention.indexer.head_count", "index_n_heads", GGUF_COPIED, 0},
	{"attention.indexer.key_length", "index_head_dim", GGUF_COPIED, 0},
	{"attention.indexer.top_k", "index_topk", GGUF_COPIED, 0},
	{"hash_layer_count", "num_hash_layers", GGUF_COPIED, 0},
	{"hyper_connection.count", "hc_mult", GGUF_COPIED, 0},
	{"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", GGUF_COPIED, 0},
	{"hyper_connection.epsilon", "hc_eps", GGUF_REAL, 0},
	{"swiglu_clamp_exp", NULL, GGUF_KNOWN, 0},
	{"swiglu_clamp_shexp", NULL, GGUF_KNOWN, 0},
	{"expert_gating_func", NULL, GGUF_NEUTRAL, 4}, /* square root of softplus */
	{"expert_weights_scale", "routed_scaling_factor", GGUF_REAL, 0},
	{"expert_shared_count", "n_shared_experts", GGUF_COPIED, 0},
	{0},
};

enum { DEEPSEEK_SPARSE_RATIO = 4 };
static const char ratios[] = "attention.compress_ratios";

static const char *deepseek_gguf_kind(struct gguf_writer *w, uint64_t layer)
{
	uint64_t ratio = gguf_writer_uint_of(w, ratios, layer);
	return ratio == DEEPSEEK_SPARSE_RATIO ? "compressed_sparse_attention"
	       : ratio			      ? "heavily_compressed_attention"
					      : "sliding_attention";
}

static void deepseek_gguf_put(struct gguf_writer *w)
{
	uint64_t layers = gguf_writer_layers(w), heavy = 0;
	gguf_put_kinds(w, "layer_types", deepseek_gguf_kind);
	for (uint64_t i = 0; i < layers && !w->failed; i++) {
		uint64_t ratio = gguf_writer_uint_of(w, ratios, i);
		if (!ratio || ratio == DEEPSEEK_SPARSE_RATIO || ratio == heavy)
			continue;
		if (heavy)
			gguf_writer_refuse(w, ENOTSUP,
					   "%s has layers of %" PRIu64 " and of %" PRIu64
					   ", but beside %d only one number is supported",
					   ratios, heavy, ratio, DEEPSEEK_SPARSE_RATIO);
		heavy = ratio;
	}
	if (heavy)
		gguf_put_uint(w, "compress_rate_hca", heavy);
	gguf_put_limit(w);
}

/* clang-format off: a row a line */
#define B "blk.%u."
static const struct tensor_name names[] = {
	{TENSOR_LATENT_KV, B "attn_kv.weight", NULL},
	{TENSOR_ENTRY_KEYS, B "attn_compressor_kv.weight", NULL},
	{TENSOR_ENTRY_GATE, B "attn_compressor_gate.weight", NULL},
	{TENSOR_ENTRY_BIAS, B "attn_compressor_ape.weight", NULL},
	{TENSOR_ENTRY_NORM, B "attn_compressor_norm.weight", NULL},
	{TENSOR_GROUPED_LOW, B "attn_output_a.weight", NULL},
	{TENSOR_GROUPED_OUT, B "attn_output_b.weight", NULL},
	{TENSOR_INDEX_Q, B "indexer.attn_q_b.weight", NULL},
	{TENSOR_INDEX_WEIGHTS, B "indexer.proj.weight", NULL},
	{TENSOR_INDEX_K, B "indexer_compressor_kv.weight", NULL},
	{TENSOR_INDEX_GATE, B "indexer_compressor_gate.weight", NULL},
	{TENSOR_INDEX_POOL_BIAS, B "indexer_compressor_ape.weight", NULL},
	{TENSOR_INDEX_K_NORM, B "indexer_compressor_norm.weight", NULL},
	{TENSOR_ROUTER_LIST, B "ffn_gate_tid2eid.weight", NULL},
	GGUF_NAMES_MIXED,
	{TENSOR_MIXED_END, "output_hc_fn.weight", NULL},
	{TENSOR_MIXED_END_BASE, "output_hc_base.weight", NULL},
	{TENSOR_MIXED_END_SCALE, "output_hc_scale.weight", NULL},
	{0},
};
/* clang-format on */

const struct gguf_family gguf_deepseek_v4 = {
	.architecture = "deepseek4",
	.keys = {keys, gguf_keys_routed},
	.names = names,
	.put = deepseek_gguf_put,
};
