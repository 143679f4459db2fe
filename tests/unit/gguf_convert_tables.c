/* Families whose conversion to GGUF is a table: keys, and where each tensor goes and how it changes. See
 * gguf_convert.h; llama.cpp's converter has the same in conversion/lfm2.py, granite.py, nemotron.py,
 * kimi_linear.py, glm.py, minimax.py, qwen4exp.py and deepseek.py. */
#include "gguf_convert_shapes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- tensors ---- */

enum change {
	COPIED,
	NORM,	  /* 1 is added, where the family's norms are zero-centred */
	NEGATED,  /* -exp(x), flat */
	UPRIGHT,  /* a number a row */
	UPRIGHT_NEGATED,
	GROUPED,  /* a group a row */
	SQUEEZED, /* [channels, 1, width] without its middle */
	FOUR,	  /* [1, channels, 1, width] */
	PAIRED,	  /* pairs of rows that a rotation turns become neighbours */
	HALVED,	  /* gate above up: two tensors */
	LATENT,	  /* split into keys and values */
	TILED,	  /* value heads of delta nets in another order, and its other changes */
	INDEX,	  /* queries above one key: two tensors */
	DROPPED,  /* a key has it */
	WHOLES,	  /* whole numbers of 32 bits */
};

struct row {
	const char *part, *as; /* after layers.N. and after blk.N.; or whole names */
	enum change change;
};

#define ATTENTION                                       \
	{"self_attn.q_proj.weight", "attn_q", COPIED},  \
	{"self_attn.k_proj.weight", "attn_k", COPIED},  \
	{"self_attn.v_proj.weight", "attn_v", COPIED},  \
	{"self_attn.o_proj.weight", "attn_output", COPIED}
#define ENDS                                            \
	{"embed_tokens.weight", "token_embd", COPIED},  \
	{"lm_head.weight", "output", COPIED},           \
	{"norm.weight", "output_norm", NORM}
#define NORMS                                                \
	{"input_layernorm.weight", "attn_norm", NORM},       \
	{"post_attention_layernorm.weight", "ffn_norm", NORM}
#define DENSE                                            \
	{"mlp.gate_proj.weight", "ffn_gate", COPIED},    \
	{"mlp.up_proj.weight", "ffn_up", COPIED},        \
	{"mlp.down_proj.weight", "ffn_down", COPIED}
#define SHARED_IN(place)                                           \
	{place "gate_proj.weight", "ffn_gate_shexp", COPIED},      \
	{place "up_proj.weight", "ffn_up_shexp", COPIED},          \
	{place "down_proj.weight", "ffn_down_shexp", COPIED}
#define MAMBA_IN(place)                                    \
	{place "A_log", "ssm_a", UPRIGHT_NEGATED},         \
	{place "D", "ssm_d", UPRIGHT},                     \
	{place "conv1d.bias", "ssm_conv1d.bias", COPIED},  \
	{place "conv1d.weight", "ssm_conv1d", SQUEEZED},   \
	{place "dt_bias", "ssm_dt.bias", COPIED},          \
	{place "in_proj.weight", "ssm_in", COPIED},        \
	{place "norm.weight", "ssm_norm", GROUPED},        \
	{place "out_proj.weight", "ssm_out", COPIED}
#define KIMI(of_a)                                               \
	{"self_attn.A_log", "ssm_a", of_a},                      \
	{"self_attn.b_proj.weight", "ssm_beta", COPIED},         \
	{"self_attn.dt_bias", "ssm_dt.bias", COPIED},            \
	{"self_attn.f_a_proj.weight", "ssm_f_a", COPIED},        \
	{"self_attn.f_b_proj.weight", "ssm_f_b", COPIED},        \
	{"self_attn.g_a_proj.weight", "ssm_g_a", COPIED},        \
	{"self_attn.g_b_proj.weight", "ssm_g_b", COPIED},        \
	{"self_attn.q_conv1d.weight", "ssm_conv1d_q", FOUR},     \
	{"self_attn.k_conv1d.weight", "ssm_conv1d_k", FOUR},     \
	{"self_attn.v_conv1d.weight", "ssm_conv1d_v", FOUR},     \
	{"self_attn.o_norm.weight", "ssm_norm", COPIED}
#define LATENT_PARTS                                                   \
	{"self_attn.q_a_proj.weight", "attn_q_a", COPIED},             \
	{"self_attn.q_a_layernorm.weight", "attn_q_a_norm", COPIED},   \
	{"self_attn.q_b_proj.weight", "attn_q_b", COPIED},             \
	{"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa", COPIED}, \
	{"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm", COPIED}, \
	{"self_attn.kv_b_proj.weight", NULL, LATENT}
#define INDEX_PARTS                                                          \
	{"self_attn.indexer.k_norm.bias", "indexer.k_norm.bias", COPIED},    \
	{"self_attn.indexer.k_norm.weight", "indexer.k_norm", COPIED},       \
	{"self_attn.indexer.weights_proj.weight", "indexer.proj", COPIED},   \
	{"self_attn.indexer.wk.weight", "indexer.attn_k", COPIED},           \
	{"self_attn.indexer.wq_b.weight", "indexer.attn_q_b", COPIED}
#define MIXED_PARTS                                    \
	{"hc_attn_base", "hc_attn_base", COPIED},      \
	{"hc_attn_fn", "hc_attn_fn", COPIED},          \
	{"hc_attn_scale", "hc_attn_scale", COPIED},    \
	{"hc_ffn_base", "hc_ffn_base", COPIED},        \
	{"hc_ffn_fn", "hc_ffn_fn", COPIED},            \
	{"hc_ffn_scale", "hc_ffn_scale", COPIED}
#define CORRECTED(place)                                                       \
	{place "gate.weight", "ffn_gate_inp", COPIED},                         \
	{place "gate.e_score_correction_bias", "exp_probs_b.bias", COPIED},    \
	{place "e_score_correction_bias", "exp_probs_b.bias", COPIED}
#define STREAMS_IN(place, as)                                                   \
	{place "hc_norm.weight", as "_norm", NORM},                             \
	{place "input_mix_weight_down.weight", as "_down", COPIED},             \
	{place "input_mix_weight_up.weight", as "_up", COPIED},                 \
	{place "block_inject_weight.weight", as "_inject", COPIED}

static const struct row lfm2[] = {
	{"embed_tokens.weight", "token_embd", COPIED},
	{"embedding_norm.weight", "token_embd_norm", COPIED},
	{"operator_norm.weight", "attn_norm", COPIED},
	{"ffn_norm.weight", "ffn_norm", COPIED},
	{"conv.conv.weight", "shortconv.conv", SQUEEZED},
	{"conv.in_proj.weight", "shortconv.in_proj", COPIED},
	{"conv.out_proj.weight", "shortconv.out_proj", COPIED},
	{"feed_forward.w1.weight", "ffn_gate", COPIED},
	{"feed_forward.w3.weight", "ffn_up", COPIED},
	{"feed_forward.w2.weight", "ffn_down", COPIED},
	{"feed_forward.gate.weight", "ffn_gate_inp", COPIED},
	{"feed_forward.expert_bias", "exp_probs_b.bias", COPIED},
	{"self_attn.out_proj.weight", "attn_output", COPIED},
	{"self_attn.q_layernorm.weight", "attn_q_norm", COPIED},
	{"self_attn.k_layernorm.weight", "attn_k_norm", COPIED},
	ATTENTION,
	{0}};
static const struct row granite[] = {
	ENDS,
	NORMS,
	{"self_attn.q_proj.weight", "attn_q", PAIRED},
	{"self_attn.k_proj.weight", "attn_k", PAIRED},
	{"block_sparse_moe.router.layer.weight", "ffn_gate_inp", COPIED},
	{"block_sparse_moe.input_linear.weight", "ffn_%s_exps", HALVED},
	{"block_sparse_moe.output_linear.weight", "ffn_down_exps", COPIED},
	{"shared_mlp.input_linear.weight", "ffn_%s_shexp", HALVED},
	{"shared_mlp.output_linear.weight", "ffn_down_shexp", COPIED},
	MAMBA_IN("mamba."),
	ATTENTION,
	{0}};
static const struct row nemotron[] = {
	{"embeddings.weight", "token_embd", COPIED},
	{"norm_f.weight", "output_norm", COPIED},
	{"lm_head.weight", "output", COPIED},
	{"mixer.q_proj.weight", "attn_q", PAIRED},
	{"mixer.k_proj.weight", "attn_k", PAIRED},
	{"mixer.v_proj.weight", "attn_v", COPIED},
	{"mixer.o_proj.weight", "attn_output", COPIED},
	{"mixer.fc1_latent_proj.weight", "ffn_latent_down", COPIED},
	{"mixer.fc2_latent_proj.weight", "ffn_latent_up", COPIED},
	{"mixer.up_proj.weight", "ffn_up", COPIED},
	{"mixer.down_proj.weight", "ffn_down", COPIED},
	{"norm.weight", "attn_norm", COPIED},
	CORRECTED("mixer."),
	SHARED_IN("mixer.shared_experts."),
	MAMBA_IN("mixer."),
	{0}};
static const struct row kimi[] = {ENDS, NORMS, DENSE, ATTENTION, LATENT_PARTS,
				  CORRECTED("block_sparse_moe."),
				  SHARED_IN("block_sparse_moe.shared_experts."), KIMI(COPIED), {0}};
static const struct row glm[] = {ENDS,	       NORMS,	    DENSE, ATTENTION,
				 LATENT_PARTS, INDEX_PARTS, CORRECTED("mlp."),
				 SHARED_IN("mlp.shared_experts."), {0}};
static const struct row glm5[] = {
	MIXED_PARTS,
	{"self_attn.indexer.index_kpool_compress_ape", "indexer_compressor_ape", COPIED},
	{"self_attn.indexer.index_kpool_compress_gate", "indexer_compressor_gate", COPIED},
	ENDS, NORMS, DENSE, ATTENTION, LATENT_PARTS, INDEX_PARTS, KIMI(NEGATED), CORRECTED("mlp."),
	SHARED_IN("mlp.shared_experts."), {0}};
static const struct row minimax[] = {
	ENDS, NORMS, DENSE, ATTENTION, CORRECTED("block_sparse_moe."),
	SHARED_IN("block_sparse_moe.shared_experts."),
	{"self_attn.q_norm.weight", "attn_q_norm", NORM},
	{"self_attn.k_norm.weight", "attn_k_norm", NORM},
	{"self_attn.index_q_norm.weight", "indexer.q_norm", NORM},
	{"self_attn.index_k_norm.weight", "indexer.k_norm", NORM},
	{"self_attn.index_q_proj.weight", "indexer.q_proj", COPIED},
	{"self_attn.index_k_proj.weight", "indexer.k_proj", COPIED},
	{0}};
static const struct row qwen4[] = {
	ENDS, ATTENTION,
	STREAMS_IN("attn_hyper_connection.", "hc_attn"),
	STREAMS_IN("mlp_hyper_connection.", "hc_ffn"),
	STREAMS_IN("hyper_connection_mixer.", "output_hc"),
	SHARED_IN("mlp.shared_expert."),
	{"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp", COPIED},
	{"mlp.gate.weight", "ffn_gate_inp", COPIED},
	{"mlp.experts.gate_up_proj", "ffn_%s_exps", HALVED},
	{"mlp.experts.down_proj", "ffn_down_exps", COPIED},
	{"linear_attn.in_proj_qkv.weight", "attn_qkv", TILED},
	{"linear_attn.in_proj_z.weight", "attn_gate", TILED},
	{"linear_attn.in_proj_a.weight", "ssm_alpha", TILED},
	{"linear_attn.in_proj_b.weight", "ssm_beta", TILED},
	{"linear_attn.conv1d.weight", "ssm_conv1d", TILED},
	{"linear_attn.A_log", "ssm_a", TILED},
	{"linear_attn.dt_bias", "ssm_dt.bias", TILED},
	{"linear_attn.norm.weight", "ssm_norm", COPIED},
	{"linear_attn.out_proj.weight", "ssm_out", TILED},
	{"self_attn.q_norm.weight", "attn_q_norm", NORM},
	{"self_attn.k_norm.weight", "attn_k_norm", NORM},
	{"self_attn.indexer.index_qk_proj.weight", NULL, INDEX},
	{"self_attn.indexer.q_layernorm.weight", "indexer.q_norm", NORM},
	{"self_attn.indexer.k_layernorm.weight", "indexer.k_norm", NORM},
	{"ple.conv1d.weight", "ple_conv1d", SQUEEZED},
	{"ple.key_proj.weight", "ple_key", COPIED},
	{"ple.value_proj.weight", "ple_value", COPIED},
	{"ple.norm_conv.weight", "ple_norm_conv", NORM},
	{"ple.norm_key.weight", "ple_norm_key", NORM},
	{"ple.norm_query.weight", "ple_norm_query", NORM},
	{"ple.ple_embedding.layer_multipliers", NULL, DROPPED},
	{"ple.ple_embedding.ngram_heads_offsets", NULL, DROPPED},
	{"ple.ple_embedding.ngram_heads_vocab_sizes", NULL, DROPPED},
	{0}};

/* ---- keys ---- */

enum kind {
	WHOLE, /* of the config, or `value` without a name */
	REAL,
	TRUE,
	HEADS_IF,  /* for each layer num_key_value_heads (or `value`) where its type is `name`, else 0 */
	TYPE_IS,   /* for each layer whether the list `name` has "full" */
	REAL_EACH, /* for each layer */
};
struct key {
	const char *suffix, *name;
	enum kind kind;
	double value;
};

/* Of all of them; a name that the config does not have is left out. */
static const struct key common[] = {
	{"context_length", "max_position_embeddings", WHOLE, 0},
	{"embedding_length", "hidden_size", WHOLE, 0},
	{"attention.head_count", "num_attention_heads", WHOLE, 0},
	{"vocab_size", "vocab_size", WHOLE, 0},
	{"rope.freq_base", "rope_theta", REAL, 0},
	{"attention.layer_norm_rms_epsilon", "rms_norm_eps", REAL, 0},
	{"expert_count", "num_experts", WHOLE, 0},
	{"expert_count", "num_local_experts", WHOLE, 0},
	{"expert_count", "n_routed_experts", WHOLE, 0},
	{"expert_used_count", "num_experts_per_tok", WHOLE, 0},
	{"expert_used_count", "num_experts_per_token", WHOLE, 0},
	{0}};

#define MAMBA_KEYS(kernel, state, groups, heads)               \
	{"ssm.conv_kernel", kernel, WHOLE, 0},                 \
	{"ssm.state_size", state, WHOLE, 0},                   \
	{"ssm.group_count", groups, WHOLE, 0},                 \
	{"ssm.time_step_rank", heads, WHOLE, 0},               \
	{"rope.scaling.finetuned", "false", TRUE, 0}
#define SIGMOID_KEYS(shared)                                     \
	{"expert_gating_func", NULL, WHOLE, 2},                  \
	{"expert_shared_count", shared, WHOLE, 0},               \
	{"expert_weights_scale", "routed_scaling_factor", REAL, 0}
#define INDEX_KEYS(heads, dim, most)                              \
	{"attention.indexer.head_count", heads, WHOLE, 0},        \
	{"attention.indexer.key_length", dim, WHOLE, 0},          \
	{"attention.indexer.top_k", most, WHOLE, 0}
#define EXPERT_SIZE {"expert_feed_forward_length", "moe_intermediate_size", WHOLE, 0}
#define DENSE_SIZE {"feed_forward_length", "intermediate_size", WHOLE, 0}

static const struct key lfm2_keys[] = {
	{"attention.head_count_kv", "full_attention", HEADS_IF, 0},
	{"attention.layer_norm_rms_epsilon", "norm_eps", REAL, 0},
	{"shortconv.l_cache", "conv_L_cache", WHOLE, 0},
	{"leading_dense_block_count", "num_dense_layers", WHOLE, 0},
	{"expert_gating_func", NULL, WHOLE, 2},
	EXPERT_SIZE, DENSE_SIZE, {0}};
/* Its converter writes the size as it is adjusted: the fixture's 40 gives 32. */
static const struct key lfm2_dense_keys[] = {
	{"attention.head_count_kv", "full_attention", HEADS_IF, 0},
	{"attention.layer_norm_rms_epsilon", "norm_eps", REAL, 0},
	{"shortconv.l_cache", "conv_L_cache", WHOLE, 0},
	{"feed_forward_length", NULL, WHOLE, 32},
	{0}};
static const struct key granite_keys[] = {
	{"attention.head_count_kv", "full_attention", HEADS_IF, 0},
	{"attention.scale", "attention_multiplier", REAL, 0},
	{"embedding_scale", "embedding_multiplier", REAL, 0},
	{"residual_scale", "residual_multiplier", REAL, 0},
	{"logit_scale", "logits_scaling", REAL, 0},
	{"expert_shared_feed_forward_length", "shared_intermediate_size", WHOLE, 0},
	{"ssm.inner_size", NULL, WHOLE, 128},
	MAMBA_KEYS("mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads"),
	DENSE_SIZE, {0}};
static const struct key nemotron_keys[] = {
	{"attention.head_count_kv", "full_attention", HEADS_IF, 0},
	{"feed_forward_length", "moe", HEADS_IF, 48}, /* in all experts' layers of both fixtures: only 0 or not counts */
	{"attention.key_length", "head_dim", WHOLE, 0},
	{"attention.value_length", "head_dim", WHOLE, 0},
	{"attention.layer_norm_epsilon", "layer_norm_epsilon", REAL, 0},
	{"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", WHOLE, 0},
	{"moe_latent_size", "moe_latent_size", WHOLE, 0},
	{"expert_group_count", "n_group", WHOLE, 0},
	{"expert_group_used_count", "topk_group", WHOLE, 0},
	{"expert_weights_norm", "true", TRUE, 0},
	{"rope.dimension_count", NULL, WHOLE, 8},
	MAMBA_KEYS("conv_kernel", "ssm_state_size", "n_groups", "mamba_num_heads"),
	SIGMOID_KEYS("n_shared_experts"), EXPERT_SIZE, {0}};
static const struct key kimi_keys[] = {
	{"context_length", "model_max_length", WHOLE, 0},
	{"attention.head_count_kv", "full_attention", HEADS_IF, 1},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", WHOLE, 0},
	{"kda.head_dim", "linear_head_dim", WHOLE, 0},
	{"expert_group_used_count", "topk_group", WHOLE, 0},
	{"attention.value_length", NULL, WHOLE, 16},
	{"leading_dense_block_count", NULL, WHOLE, 1},
	SIGMOID_KEYS("num_shared_experts"), EXPERT_SIZE, DENSE_SIZE, {0}};
static const struct key glm_keys[] = {
	{"attention.head_count_kv", NULL, WHOLE, 1},
	{"attention.indexer.types", "indexer_types", TYPE_IS, 0},
	{"leading_dense_block_count", NULL, WHOLE, 1},
	{"expert_weights_norm", "true", TRUE, 0},
	INDEX_KEYS("index_n_heads", "index_head_dim", "index_topk"),
	SIGMOID_KEYS("n_shared_experts"), EXPERT_SIZE, DENSE_SIZE, {0}};
static const struct key glm5_keys[] = {
	{"attention.head_count_kv", "indexed_attention", HEADS_IF, 1},
	{"attention.layer_norm_epsilon", NULL, REAL, 1e-6},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", WHOLE, 0},
	{"kda.head_dim", "linear_head_dim", WHOLE, 0},
	{"kda.gate_lower_bound", "linear_lower_bound", REAL, 0},
	{"attention.indexer.types", "indexer_types", TYPE_IS, 0},
	{"attention.indexer.kpool", "index_kpool", WHOLE, 0},
	{"attention.indexer.kpool_select_tail", "true", TRUE, 0},
	{"hyper_connection.count", "hc_mult", WHOLE, 0},
	{"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", WHOLE, 0},
	{"hyper_connection.epsilon", "hc_eps", REAL, 0},
	{"swiglu_clamp_exp", "swiglu_limit", REAL_EACH, 0},
	{"swiglu_clamp_shexp", "swiglu_limit", REAL_EACH, 0},
	{"leading_dense_block_count", NULL, WHOLE, 1},
	{"expert_weights_norm", "true", TRUE, 0},
	INDEX_KEYS("index_n_heads", "index_head_dim", "index_topk"),
	SIGMOID_KEYS("n_shared_experts"), EXPERT_SIZE, DENSE_SIZE, {0}};
static const struct key minimax_keys[] = {
	{"attention.head_count_kv", "num_key_value_heads", WHOLE, 0},
	{"attention.key_length", "head_dim", WHOLE, 0},
	{"attention.value_length", "head_dim", WHOLE, 0},
	{"rope.dimension_count", "rotary_dim", WHOLE, 0},
	{"feed_forward_length", "dense_intermediate_size", WHOLE, 0},
	{"expert_feed_forward_length", "intermediate_size", WHOLE, 0},
	{"attention.indexer.block_size", "index_block_size", WHOLE, 0},
	{"attention.indexer.local_blocks", "index_local_blocks", WHOLE, 0},
	{"leading_dense_block_count", NULL, WHOLE, 1},
	{"expert_weights_norm", "true", TRUE, 0},
	{"expert_shared_count", NULL, WHOLE, 1},
	{"expert_gating_func", NULL, WHOLE, 2},
	{"expert_weights_scale", "routed_scaling_factor", REAL, 0},
	INDEX_KEYS("index_n_heads", "index_head_dim", "index_topk_blocks"), {0}};
static const struct key qwen4_keys[] = {
	{"attention.head_count_kv", "num_key_value_heads", WHOLE, 0},
	{"attention.key_length", "head_dim", WHOLE, 0},
	{"attention.value_length", "head_dim", WHOLE, 0},
	{"attention.recurrent_layers", "layer_types", TYPE_IS, 0},
	{"attention.compress_ratios", "full_attention", HEADS_IF, 4},
	{"expert_shared_feed_forward_length", "shared_expert_intermediate_size", WHOLE, 0},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", WHOLE, 0},
	{"ssm.state_size", "linear_key_head_dim", WHOLE, 0},
	{"ssm.group_count", "linear_num_key_heads", WHOLE, 0},
	{"ssm.time_step_rank", "linear_num_value_heads", WHOLE, 0},
	{"ssm.inner_size", NULL, WHOLE, 96},
	{"full_attention_interval", NULL, WHOLE, 4},
	{"rope.dimension_count", NULL, WHOLE, 8},
	{"hyper_connection.count", "hc_count", WHOLE, 0},
	{"hyper_connection.low_rank", "hc_lowrank", WHOLE, 0},
	{"ple.ngram_size", "ngram_size", WHOLE, 0},
	{"ple.heads_per_ngram", "heads_per_ngram", WHOLE, 0},
	{"ple.conv_kernel", "ple_conv_kernel_size", WHOLE, 0},
	{"ple.eos_token_id", "eos_token_id", WHOLE, 0},
	{"ple.image_token_id", NULL, WHOLE, 248056},
	{"embedding_length_per_layer_input", NULL, WHOLE, 6},
	INDEX_KEYS("indexer_n_heads", "indexer_head_dim", "indexer_budget"), EXPERT_SIZE, {0}};

static const struct row deepseek[] = {
	{"embed.weight", "token_embd", COPIED},
	{"head.weight", "output", COPIED},
	{"norm.weight", "output_norm", COPIED},
	{"hc_head_base", "output_hc_base", COPIED},
	{"hc_head_fn", "output_hc_fn", COPIED},
	{"hc_head_scale", "output_hc_scale", COPIED},
	MIXED_PARTS,
	{"attn_norm.weight", "attn_norm", COPIED},
	{"ffn_norm.weight", "ffn_norm", COPIED},
	{"attn.attn_sink", "attn_sinks", COPIED},
	{"attn.wq_a.weight", "attn_q_a", COPIED},
	{"attn.q_norm.weight", "attn_q_a_norm", COPIED},
	{"attn.wq_b.weight", "attn_q_b", COPIED},
	{"attn.wkv.weight", "attn_kv", COPIED},
	{"attn.kv_norm.weight", "attn_kv_a_norm", COPIED},
	{"attn.wo_a.weight", "attn_output_a", COPIED},
	{"attn.wo_b.weight", "attn_output_b", COPIED},
	{"attn.compressor.ape", "attn_compressor_ape", COPIED},
	{"attn.compressor.wkv.weight", "attn_compressor_kv", COPIED},
	{"attn.compressor.wgate.weight", "attn_compressor_gate", COPIED},
	{"attn.compressor.norm.weight", "attn_compressor_norm", COPIED},
	{"attn.indexer.wq_b.weight", "indexer.attn_q_b", COPIED},
	{"attn.indexer.weights_proj.weight", "indexer.proj", COPIED},
	{"attn.indexer.compressor.ape", "indexer_compressor_ape", COPIED},
	{"attn.indexer.compressor.wkv.weight", "indexer_compressor_kv", COPIED},
	{"attn.indexer.compressor.wgate.weight", "indexer_compressor_gate", COPIED},
	{"attn.indexer.compressor.norm.weight", "indexer_compressor_norm", COPIED},
	{"ffn.gate.weight", "ffn_gate_inp", COPIED},
	{"ffn.gate.bias", "exp_probs_b.bias", COPIED},
	{"ffn.gate.tid2eid", "ffn_gate_tid2eid", WHOLES},
	{"ffn.shared_experts.w1.weight", "ffn_gate_shexp", COPIED},
	{"ffn.shared_experts.w3.weight", "ffn_up_shexp", COPIED},
	{"ffn.shared_experts.w2.weight", "ffn_down_shexp", COPIED},
	{0}};
static const struct key deepseek_keys[] = {
	{"attention.head_count_kv", "num_key_value_heads", WHOLE, 0},
	{"attention.key_length", "head_dim", WHOLE, 0},
	{"attention.value_length", "head_dim", WHOLE, 0},
	{"rope.dimension_count", "qk_rope_head_dim", WHOLE, 0},
	{"rope.scaling.factor", NULL, REAL, 4},
	{"rope.scaling.original_context_length", NULL, WHOLE, 64},
	{"rope.scaling.yarn_beta_fast", NULL, REAL, 32},
	{"rope.scaling.yarn_beta_slow", NULL, REAL, 1},
	{"attention.q_lora_rank", "q_lora_rank", WHOLE, 0},
	{"attention.sliding_window", "sliding_window", WHOLE, 0},
	{"attention.output_group_count", "o_groups", WHOLE, 0},
	{"attention.output_lora_rank", "o_lora_rank", WHOLE, 0},
	{"attention.compress_rope_freq_base", "compress_rope_theta", REAL, 0},
	{"hash_layer_count", NULL, WHOLE, 1},
	{"hyper_connection.count", "hc_mult", WHOLE, 0},
	{"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", WHOLE, 0},
	{"hyper_connection.epsilon", "hc_eps", REAL, 0},
	{"swiglu_clamp_exp", "swiglu_limit", REAL_EACH, 0},
	{"swiglu_clamp_shexp", "swiglu_limit", REAL_EACH, 0},
	{"expert_gating_func", NULL, WHOLE, 4},
	{"expert_weights_scale", "routed_scaling_factor", REAL, 0},
	{"expert_weights_norm", "true", TRUE, 0},
	{"expert_shared_count", "n_shared_experts", WHOLE, 0},
	{"embedding_length_out", NULL, WHOLE, 256},
	INDEX_KEYS("index_n_heads", "index_head_dim", "index_topk"), EXPERT_SIZE, {0}};

static const struct table {
	const char *architecture, *types; /* the config's list of layers' types */
	const struct row *rows;
	const struct key *keys;
	bool plus_one;
} tables[] = {
	{"lfm2", "layer_types", lfm2, lfm2_dense_keys, false},
	{"lfm2moe", "layer_types", lfm2, lfm2_keys, false},
	{"granitehybrid", "layer_types", granite, granite_keys, false},
	{"nemotron_h_moe", "layers_block_type", nemotron, nemotron_keys, false},
	{"kimi-linear", "layer_types", kimi, kimi_keys, false},
	{"glm-dsa", "layer_types", glm, glm_keys, false},
	{"glm5-next", "layer_types", glm5, glm5_keys, false},
	{"minimax-m3", "layer_types", minimax, minimax_keys, true},
	{"qwen4exp", "layer_types", qwen4, qwen4_keys, true},
	{"deepseek4", "layer_types", deepseek, deepseek_keys, false},
};

static const struct table *table_of(const struct maker *m)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (maker_is(m, tables[i].architecture))
			return &tables[i];
	return NULL;
}

bool maker_has_table(const struct maker *m)
{
	return table_of(m);
}

/* ---- writing keys ---- */

static const char *type_of(const struct maker *m, const char *list, uint32_t layer)
{
	struct json_object *types = maker_member(m->config, list);
	return json_object_get_string(json_object_array_get_idx(types, layer));
}

/* A number of the config, or of its rotations; NULL: neither has it. */
static struct json_object *number_of(const struct maker *m, const char *name)
{
	struct json_object *v = maker_member(m->config, name);
	return v ? v : maker_member(maker_member(m->config, "rope_parameters"), name);
}

static void put_each(struct test_gguf *g, const struct maker *m, const struct key *k,
		     const char *key)
{
	int32_t numbers[64];
	float reals[64];
	uint8_t flags[64];
	assert_true(m->layers <= 64);
	for (uint32_t i = 0; i < m->layers; i++) {
		const char *list = k->kind == TYPE_IS ? k->name : table_of(m)->types;
		bool is = k->kind != REAL_EACH && !strcmp(type_of(m, list, i), k->name);
		uint32_t heads = k->value > 0 ? (uint32_t)k->value
					      : maker_number(m, "num_key_value_heads");
		numbers[i] = is ? (int32_t)heads : 0;
		flags[i] = k->kind == TYPE_IS && (!strcmp(type_of(m, list, i), "full") ||
						  !strcmp(type_of(m, list, i), "linear_attention"));
		reals[i] = k->kind == REAL_EACH
				   ? (float)json_object_get_double(number_of(m, k->name))
				   : 0;
	}
	if (k->kind == HEADS_IF)
		test_gguf_array(g, key, GGUF_I32, m->layers, numbers, m->layers * sizeof *numbers);
	else if (k->kind == TYPE_IS)
		test_gguf_array(g, key, GGUF_BOOL, m->layers, flags, m->layers);
	else
		test_gguf_array(g, key, GGUF_F32, m->layers, reals, m->layers * sizeof *reals);
}

static void put_key(struct test_gguf *g, const struct maker *m, const struct key *k)
{
	char key[NAME];
	(void)snprintf(key, sizeof key, "%s.%s", m->c->architecture, k->suffix);
	struct json_object *v = k->name ? number_of(m, k->name) : NULL;
	double value = v ? json_object_get_double(v) : k->value;
	if (k->kind == TRUE)
		test_gguf_bool(g, key, !strcmp(k->name, "true"));
	else if (k->kind > TRUE)
		put_each(g, m, k, key);
	else if (k->name && !v)
		return;
	else if (k->kind == REAL)
		test_gguf_f32(g, key, (float)value);
	else
		test_gguf_u32(g, key, (uint32_t)value);
}

static void put_latent(struct test_gguf *g, const struct maker *m)
{
	uint32_t nope = maker_number(m, "qk_nope_head_dim"),
		 rope = maker_number(m, "qk_rope_head_dim"), rank = maker_number(m, "kv_lora_rank");
	const struct key keys[] = {
		{"attention.q_lora_rank", "q_lora_rank", WHOLE, 0},
		{"attention.kv_lora_rank", "kv_lora_rank", WHOLE, 0},
		{"attention.key_length", NULL, WHOLE, rank + rope},
		{"attention.key_length_mla", NULL, WHOLE, nope + rope},
		{"attention.value_length_mla", "v_head_dim", WHOLE, 0},
		{"rope.dimension_count", NULL, WHOLE, rope},
	};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		put_key(g, m, &keys[i]);
}

/* Constants of hashes, which the checkpoint has as tensors; layers count from 0. */
static void put_ngrams(struct test_gguf *g, const struct maker *m)
{
	static const char *const constants[][2] = {
		{"layer_multipliers", "qwen4exp.ple.layer_multipliers"},
		{"ngram_heads_offsets", "qwen4exp.ple.head_offsets"},
		{"ngram_heads_vocab_sizes", "qwen4exp.ple.head_vocab_sizes"},
	};
	struct json_object *layers = maker_member(m->config, "ple_layer_ids");
	int32_t layer = json_object_get_int(json_object_array_get_idx(layers, 0)) - 1;
	test_gguf_array(g, "qwen4exp.ple.layers", GGUF_I32, 1, &layer, sizeof layer);
	for (size_t i = 0; i < 3; i++) {
		char name[NAME];
		(void)snprintf(name, sizeof name,
			       "model.language_model.layers.%d.ple.ple_embedding.%s", layer,
			       constants[i][0]);
		const struct test_tensor *t = test_tensor_find(&m->from, name);
		assert_non_null(t);
		test_gguf_array(g, constants[i][1], GGUF_U64, t->shape[0], t->data, t->bytes);
	}
}

/* Positions of the entries of each layer, and how rotations are scaled. */
static void put_ratios(struct test_gguf *g, const struct maker *m)
{
	int32_t ratios[64];
	for (uint32_t i = 0; i < m->layers; i++) {
		const char *type = type_of(m, "layer_types", i);
		ratios[i] = *type == 's' ? 0 : *type == 'c' ? 4 : 16;
	}
	test_gguf_array(g, "deepseek4.attention.compress_ratios", GGUF_I32, m->layers, ratios,
			m->layers * sizeof *ratios);
	test_gguf_string(g, "deepseek4.rope.scaling.type", "yarn");
}

void maker_put_table_keys(struct test_gguf *g, const struct maker *m)
{
	char key[NAME];
	test_gguf_string(g, "general.architecture", m->c->architecture);
	test_gguf_string(g, "general.name", m->c->fixture);
	(void)snprintf(key, sizeof key, "%s.block_count", m->c->architecture);
	test_gguf_u32(g, key, m->layers);
	for (const struct key *k = common; k->suffix; k++)
		put_key(g, m, k);
	for (const struct key *k = table_of(m)->keys; k->suffix; k++)
		put_key(g, m, k);
	if (maker_number(m, "kv_lora_rank"))
		put_latent(g, m);
	if (maker_is(m, "nemotron_h_moe"))
		put_key(g, m, &(struct key){"ssm.inner_size", NULL, WHOLE,
					    maker_number(m, "mamba_num_heads") *
						    maker_number(m, "mamba_head_dim")});
	if (maker_is(m, "qwen4exp"))
		put_ngrams(g, m);
	if (maker_is(m, "deepseek4"))
		put_ratios(g, m);
}

/* ---- writing tensors ---- */

static void reshape(struct out *o, size_t dims, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	o->dims = dims;
	memcpy(o->shape, ((const uint64_t[]){a, b, c, d}), sizeof o->shape);
}

static void negate(struct out *o)
{
	for (size_t i = 0; i < o->count; i++)
		o->x[i] = -expf(o->x[i]);
}

static void change(struct maker *m, const struct row *r, struct out *o)
{
	uint64_t groups = maker_number(m, "mamba_n_groups") + maker_number(m, "n_groups");
	if (r->change == NEGATED || r->change == UPRIGHT_NEGATED ||
	    maker_ends(r->part, "A_log"))
		negate(o);
	if (r->change == UPRIGHT || r->change == UPRIGHT_NEGATED)
		reshape(o, 2, o->count, 1, 0, 0);
	if (r->change == GROUPED)
		reshape(o, 2, groups, o->count / groups, 0, 0);
	if (r->change == PAIRED)
		maker_pair(m, o);
	if (r->change == TILED)
		maker_tile(m, r->part, o);
	o->whole = r->change == WHOLES;
	if (r->change == FOUR)
		reshape(o, 4, 1, o->shape[0], 1, o->shape[2]);
	else if (o->dims == 3 && o->shape[1] == 1)
		reshape(o, 2, o->shape[0], o->shape[2], 0, 0);
	for (size_t i = 0; r->change == NORM && table_of(m)->plus_one && i < o->count; i++)
		o->x[i] += 1;
}

static void put_halves(struct maker *m, const char *name, const struct test_tensor *t)
{
	static const char *const halves[] = {"gate", "up"};
	struct test_tensor one = *t;
	char as[NAME];
	if (t->dims == 2) { /* one matrix, as of one expert */
		one.dims = 3;
		memcpy(one.shape, ((const uint64_t[]){1, t->shape[0], t->shape[1]}),
		       3 * sizeof *one.shape);
	}
	for (size_t i = 0; i < 2; i++) {
		const char *at = strchr(name, '%');
		(void)snprintf(as, sizeof as, "%.*s%s%s", (int)(at - name), name, halves[i], at + 2);
		maker_halve(m, as, &one, i);
		struct out *o = &m->out[m->count - 1];
		if (t->dims == 2)
			reshape(o, 2, o->shape[1], o->shape[2], 0, 0);
	}
}

/* The index' queries, and its key. */
static void put_index(struct maker *m, const char *layer, const struct test_tensor *t)
{
	uint64_t dim = maker_number(m, "indexer_head_dim"),
		 split = maker_number(m, "indexer_n_heads") * dim, cols = t->shape[1];
	char name[NAME];
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(name, sizeof name, "%sindexer.%s_proj.weight", layer, i ? "k" : "q");
		struct out *o = maker_add_copy(m, name, t);
		o->shape[0] = i ? dim : split;
		o->count = o->shape[0] * cols;
		if (i)
			memmove(o->x, o->x + split * cols, o->count * sizeof *o->x);
	}
}

/* The shards of the table are one tensor; they come in order. */
static void put_shard(struct maker *m, const struct test_tensor *t)
{
	static const char name[] = "per_layer_token_embd.weight";
	struct out *table = NULL;
	size_t more = test_tensor_elements(t);
	for (size_t i = 0; i < m->count; i++)
		table = strcmp(m->out[i].name, name) ? table : &m->out[i];
	if (!table) {
		(void)maker_add_copy(m, name, t);
		return;
	}
	table->x = realloc(table->x, (table->count + more) * sizeof *table->x);
	assert_non_null(table->x);
	for (size_t i = 0; i < more; i++)
		table->x[table->count++] = test_tensor_get(t, i);
	table->shape[0] += t->shape[0];
}

static bool put_expert(struct maker *m, const char *layer, const char *part,
		       const struct test_tensor *t)
{
	static const char *const kinds[][2] = {{"gate_proj.", "gate"}, {"w1.", "gate"},
					       {"up_proj.", "up"},     {"w3.", "up"},
					       {"down_proj.", "down"}, {"w2.", "down"}};
	const char *experts = strstr(part, ".experts.");
	uint32_t expert, count = maker_number(m, "num_experts") +
				 maker_number(m, "num_local_experts") +
				 maker_number(m, "n_routed_experts");
	int at = 0;
	if (!experts || sscanf(experts, ".experts.%u.%n", &expert, &at) != 1)
		return false;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strncmp(experts + at, kinds[i][0], strlen(kinds[i][0])))
			maker_stack(m, layer, kinds[i][1], expert, count, t);
	return true;
}

static void put_row(struct maker *m, const char *layer, const struct row *r,
		    const struct test_tensor *t)
{
	char name[NAME];
	bool whole = !r->as || maker_ends(r->as, ".bias") || !strcmp(r->as, "ssm_a") ||
		     !strcmp(r->as, "ssm_d");
	(void)snprintf(name, sizeof name, "%s%s%s", layer, r->as ? r->as : "",
		       whole ? "" : ".weight");
	if (r->change == HALVED)
		put_halves(m, name, t);
	else if (r->change == LATENT)
		maker_split_latent(m, layer, t);
	else if (r->change == INDEX)
		put_index(m, layer, t);
	else if (r->change != DROPPED)
		change(m, r, maker_add_copy(m, name, t));
}

void maker_put_by_table(struct maker *m, const struct test_tensor *t)
{
	static const char *const stems[] = {"language_model.model.", "model.language_model.",
					    "language_model.", "model.", "backbone."};
	const char *name = t->name;
	char layer[32] = "";
	uint32_t number;
	int at = 0;
	if (strstr(name, "visual.") || strstr(name, "multi_modal_projector."))
		return;
	for (size_t i = 0; i < sizeof stems / sizeof *stems && name == t->name; i++)
		if (!strncmp(name, stems[i], strlen(stems[i])))
			name += strlen(stems[i]);
	if (sscanf(name, "layers.%u.%n", &number, &at) == 1) {
		(void)snprintf(layer, sizeof layer, "blk.%u.", number);
		name += at;
	}
	if (strstr(name, "ngram_embedding.shard_")) {
		put_shard(m, t);
		return;
	}
	if (put_expert(m, layer, name, t))
		return;
	for (const struct row *r = table_of(m)->rows; r->part; r++)
		if (!strcmp(r->part, name) && (*layer || strcmp(name, "norm.weight") != 0 ||
					       !strcmp(r->as, "output_norm"))) {
			put_row(m, layer, r, t);
			return;
		}
	fail_msg("no row for %s", t->name);
}
