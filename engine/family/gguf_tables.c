/* The tables of GGUF files (gguf_family.h): keys after "ARCHITECTURE.", with their names in
 * config.json or the reason why they are ignored; and names of tensors, with views that reverse the
 * converter's changes. */
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
	{"rope.dimension_sections", NULL, GGUF_KNOWN, 0}, /* for images; for text all are equal */
	{"block_count", NULL, GGUF_KNOWN, 0},
	{"vocab_size", NULL, GGUF_KNOWN, 0},
	{"attention.value_length", NULL, GGUF_KNOWN, 0},
	{"attention.causal", NULL, GGUF_NEUTRAL, 1},
	{"attention.sliding_window", NULL, GGUF_NEUTRAL, 0},
	{"attention.clamp_kqv", NULL, GGUF_NEUTRAL, 0},
	{"attention.max_alibi_bias", NULL, GGUF_NEUTRAL, 0},
	{"use_parallel_residual", NULL, GGUF_NEUTRAL, 0},
	{"pooling_type", "gguf_pooling_type", GGUF_COPIED, 0},
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

const struct gguf_key gguf_keys_latent[] = {
	{"attention.head_count_kv", NULL, GGUF_KNOWN, 0},
	{"attention.key_length", NULL, GGUF_KNOWN, 0},
	{"attention.key_length_mla", NULL, GGUF_KNOWN, 0},
	{"attention.value_length_mla", NULL, GGUF_KNOWN, 0},
	{"attention.q_lora_rank", "q_lora_rank", GGUF_COPIED, 0},
	{"attention.kv_lora_rank", "kv_lora_rank", GGUF_COPIED, 0},
	{"rope.scaling.yarn_log_multiplier", NULL, GGUF_KNOWN, 0},
	{0},
};

static const struct gguf_key *gguf_find_in(const struct gguf_key *table, const char *suffix)
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
		k = gguf_find_in(f->keys[i], suffix);
	return k ? k : gguf_find_in(gguf_keys_common, suffix);
}

/* ---- names of tensors ---- */

#define L "blk.%u."
static const struct tensor_name common[] = {
	{TENSOR_EMBEDDING, "token_embd.weight", NULL},
	{TENSOR_MIXER_NORM, L "attn_norm.weight", NULL},
	{TENSOR_Q, L "attn_q.weight", NULL},
	{TENSOR_K, L "attn_k.weight", NULL},
	{TENSOR_V, L "attn_v.weight", NULL},
	{TENSOR_O, L "attn_output.weight", NULL},
	{TENSOR_Q_BIAS, L "attn_q.bias", NULL},
	{TENSOR_K_BIAS, L "attn_k.bias", NULL},
	{TENSOR_V_BIAS, L "attn_v.bias", NULL},
	{TENSOR_O_BIAS, L "attn_output.bias", NULL},
	{TENSOR_Q_NORM, L "attn_q_norm.weight", NULL},
	{TENSOR_K_NORM, L "attn_k_norm.weight", NULL},
	{TENSOR_SINKS, L "attn_sinks.weight", NULL},
	{TENSOR_LATENT_Q_LOW, L "attn_q_a.weight", NULL},
	{TENSOR_LATENT_Q_NORM, L "attn_q_a_norm.weight", NULL},
	{TENSOR_LATENT_Q, L "attn_q_b.weight", NULL},
	{TENSOR_LATENT_Q, L "attn_q.weight", NULL},
	{TENSOR_LATENT_KV, L "attn_kv_a_mqa.weight", NULL},
	{TENSOR_LATENT_KV_NORM, L "attn_kv_a_norm.weight", NULL},
	{TENSOR_LATENT_KEYS, L "attn_k_b.weight", view_latent_keys_apart},
	{TENSOR_LATENT_KEYS, L "attn_kv_b.weight", view_latent_keys},
	{TENSOR_LATENT_VALUES, L "attn_v_b.weight", view_latent_values_apart},
	{TENSOR_LATENT_VALUES, L "attn_kv_b.weight", view_latent_values},
	{TENSOR_LATENT_O, L "attn_output.weight", NULL},
	{TENSOR_DELTA_QKV, L "attn_qkv.weight", NULL},
	{TENSOR_DELTA_Z, L "attn_gate.weight", NULL},
	{TENSOR_DELTA_B, L "ssm_beta.weight", NULL},
	{TENSOR_DELTA_A, L "ssm_alpha.weight", NULL},
	{TENSOR_DELTA_CONV, L "ssm_conv1d.weight", NULL},
	{TENSOR_DELTA_A_LOG, L "ssm_a", view_negated_exponential}, /* -exp(A_log) */
	{TENSOR_DELTA_DT_BIAS, L "ssm_dt.bias", NULL},
	{TENSOR_DELTA_NORM, L "ssm_norm.weight", NULL},
	{TENSOR_DELTA_OUT, L "ssm_out.weight", NULL},
	{TENSOR_FEED_FORWARD_NORM, L "ffn_norm.weight", NULL},
	{TENSOR_GATE, L "ffn_gate.weight", NULL},
	{TENSOR_UP, L "ffn_up.weight", NULL},
	{TENSOR_DOWN, L "ffn_down.weight", NULL},
	{TENSOR_ROUTER, L "ffn_gate_inp.weight", NULL},
	{TENSOR_ROUTER_BIAS, L "ffn_gate_inp.bias", NULL},
	{TENSOR_ROUTER_CORRECTION, L "exp_probs_b.bias", NULL},
	{TENSOR_EXPERT_GATE_BIAS, L "ffn_gate_exps.bias", NULL},
	{TENSOR_EXPERT_UP_BIAS, L "ffn_up_exps.bias", NULL},
	{TENSOR_EXPERT_DOWN_BIAS, L "ffn_down_exps.bias", NULL},
	{TENSOR_SHARED_GATE, L "ffn_gate_shexp.weight", NULL},
	{TENSOR_SHARED_UP, L "ffn_up_shexp.weight", NULL},
	{TENSOR_SHARED_DOWN, L "ffn_down_shexp.weight", NULL},
	{TENSOR_SHARED_SCALE, L "ffn_gate_inp_shexp.weight", NULL},
	{TENSOR_EXPERT_GATE, L "ffn_gate_exps.weight", view_stacked_one},
	{TENSOR_EXPERT_UP, L "ffn_up_exps.weight", view_stacked_one},
	{TENSOR_EXPERT_DOWN, L "ffn_down_exps.weight", view_stacked_down},
	{TENSOR_FINAL_NORM, "output_norm.weight", NULL},
	{TENSOR_HEAD, "output.weight", NULL},
	{TENSOR_DRAFT_EMBEDDING_NORM, L "nextn.enorm.weight", NULL},
	{TENSOR_DRAFT_HIDDEN_NORM, L "nextn.hnorm.weight", NULL},
	{TENSOR_DRAFT_PROJECTION, L "nextn.eh_proj.weight", NULL},
	{TENSOR_DRAFT_NORM, L "nextn.shared_head_norm.weight", NULL},
	{0},
};

static uint32_t gguf_add_names(const struct tensor_name *from, enum tensor_role role,
			       uint32_t count, struct tensor_name names[FAMILY_ALTERNATIVES])
{
	for (const struct tensor_name *n = from; n && n->name; n++)
		if (n->role == role && count < FAMILY_ALTERNATIVES)
			names[count++] = *n;
	return count;
}

uint32_t gguf_alternatives(const struct family *f, enum tensor_role role,
			   struct tensor_name names[FAMILY_ALTERNATIVES])
{
	uint32_t count = gguf_add_names(f->gguf->names, role, 0, names);
	return gguf_add_names(common, role, count, names);
}
