/* What tensors are called in GGUF files (gguf_family.h), and the views that take back what their
 * converter does to some. */
#include "engine/family/gguf_family.h"

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

static uint32_t add_names(const struct tensor_name *from, enum tensor_role role, uint32_t count,
			  struct tensor_name names[FAMILY_ALTERNATIVES])
{
	for (const struct tensor_name *n = from; n && n->name; n++)
		if (n->role == role && count < FAMILY_ALTERNATIVES)
			names[count++] = *n;
	return count;
}

uint32_t gguf_alternatives(const struct family *f, enum tensor_role role,
			   struct tensor_name names[FAMILY_ALTERNATIVES])
{
	uint32_t count = add_names(f->gguf->names, role, 0, names);
	return add_names(common, role, count, names);
}
