/* The keys of GGUF files, after "ARCHITECTURE.": what config.json calls each, or why it does not
 * matter (gguf_family.h). */
#include "engine/family/gguf_family.h"

#include <string.h>

const struct gguf_key gguf_keys_common[] = {
	{"context_length", "max_position_embeddings", GGUF_COPIED, 0},
	{"embedding_length", "hidden_size", GGUF_COPIED, 0},
	{"feed_forward_length", "intermediate_size", GGUF_COPIED, 0},
	{"attention.head_count", "num_attention_heads", GGUF_COPIED, 0},
	{"attention.head_count_kv", "num_key_value_heads", GGUF_COPIED, 0},
	{"attention.key_length", "head_dim", GGUF_COPIED, 0},
	{"attention.layer_norm_rms_epsilon", "rms_norm_eps", GGUF_REAL, 0},
	{"rope.freq_base", "rope_theta", GGUF_REAL, 0},
	{"rope.scaling.factor", "factor", GGUF_ROPE, 0},
	{"rope.scaling.original_context_length", "original_max_position_embeddings", GGUF_ROPE, 0},
	{"rope.scaling.attn_factor", "attention_factor", GGUF_ROPE, 0},
	{"rope.scaling.yarn_ext_factor", "extrapolation_factor", GGUF_ROPE, 0},
	{"rope.scaling.yarn_attn_factor", "attention_factor", GGUF_ROPE, 0},
	{"rope.scaling.yarn_beta_fast", "beta_fast", GGUF_ROPE, 0},
	{"rope.scaling.yarn_beta_slow", "beta_slow", GGUF_ROPE, 0},
	{"rope.scaling.type", NULL, GGUF_KNOWN, 0},
	{"rope.scaling.finetuned", NULL, GGUF_KNOWN, 0},
	{"rope.dimension_count", NULL, GGUF_KNOWN, 0},
	{"rope.dimension_sections", NULL, GGUF_KNOWN, 0}, /* of images; a text's are all the same */
	{"block_count", NULL, GGUF_KNOWN, 0},
	{"vocab_size", NULL, GGUF_KNOWN, 0},
	{"attention.value_length", NULL, GGUF_KNOWN, 0},
	{"attention.causal", NULL, GGUF_NEUTRAL, 1},
	{"attention.sliding_window", NULL, GGUF_NEUTRAL, 0},
	{"attention.clamp_kqv", NULL, GGUF_NEUTRAL, 0},
	{"attention.max_alibi_bias", NULL, GGUF_NEUTRAL, 0},
	{"use_parallel_residual", NULL, GGUF_NEUTRAL, 0},
	{"pooling_type", NULL, GGUF_NEUTRAL, 0},
	{"expert_count", NULL, GGUF_NEUTRAL, 0},
	{"expert_used_count", NULL, GGUF_NEUTRAL, 0},
	{"expert_weights_scale", NULL, GGUF_NEUTRAL, 1},
	{"expert_gating_func", NULL, GGUF_NEUTRAL, 1}, /* softmax */
	{"expert_group_count", NULL, GGUF_NEUTRAL, 1},
	{"expert_group_used_count", NULL, GGUF_NEUTRAL, 1},
	{"leading_dense_block_count", NULL, GGUF_NEUTRAL, 0},
	{0},
};

const struct gguf_key gguf_keys_routed[] = {
	{"expert_count", "num_experts", GGUF_COPIED, 0},
	{"expert_used_count", "num_experts_per_tok", GGUF_COPIED, 0},
	{"expert_feed_forward_length", "moe_intermediate_size", GGUF_COPIED, 0},
	{"expert_weights_norm", "norm_topk_prob", GGUF_FLAG, 0},
	{0},
};

const struct gguf_key gguf_keys_routed_only[] = {
	{"expert_count", "num_experts", GGUF_COPIED, 0},
	{"expert_used_count", "num_experts_per_tok", GGUF_COPIED, 0},
	{"expert_feed_forward_length", "intermediate_size", GGUF_COPIED, 0},
	{0},
};

const struct gguf_key gguf_keys_shared[] = {
	{"expert_shared_feed_forward_length", "shared_expert_intermediate_size", GGUF_COPIED, 0},
	{"expert_shared_count", NULL, GGUF_NEUTRAL, 1},
	{0},
};

const struct gguf_key gguf_keys_hybrid[] = {
	{"ssm.conv_kernel", "linear_conv_kernel_dim", GGUF_COPIED, 0},
	{"ssm.state_size", "linear_key_head_dim", GGUF_COPIED, 0},
	{"ssm.group_count", "linear_num_key_heads", GGUF_COPIED, 0},
	{"ssm.time_step_rank", "linear_num_value_heads", GGUF_COPIED, 0},
	{"ssm.inner_size", NULL, GGUF_KNOWN, 0},
	{"full_attention_interval", "full_attention_interval", GGUF_COPIED, 0},
	{"nextn_predict_layers", "mtp_num_hidden_layers", GGUF_COPIED, 0},
	{0},
};

const struct gguf_key gguf_keys_sigmoid[] = {
	{"expert_gating_func", NULL, GGUF_NEUTRAL, 2}, /* sigmoid */
	{"expert_weights_scale", "routed_scaling_factor", GGUF_REAL, 0},
	{"expert_group_count", "n_group", GGUF_COPIED, 0},
	{"expert_group_used_count", "topk_group", GGUF_COPIED, 0},
	{"expert_shared_count", "n_shared_experts", GGUF_COPIED, 0},
	{"leading_dense_block_count", "first_k_dense_replace", GGUF_COPIED, 0},
	{"nextn_predict_layers", "num_nextn_predict_layers", GGUF_COPIED, 0},
	{0},
};

static const struct gguf_key *find_in(const struct gguf_key *table, const char *suffix)
{
	for (const struct gguf_key *k = table; k && k->suffix; k++)
		if (!strcmp(k->suffix, suffix))
			return k;
	return NULL;
}

const struct gguf_key *gguf_key_find(const struct gguf_family *f, const char *suffix)
{
	const struct gguf_key *k = NULL;
	for (int i = 0; i < GGUF_KEY_TABLES && !k; i++)
		k = find_in(f->keys[i], suffix);
	return k ? k : find_in(gguf_keys_common, suffix);
}
