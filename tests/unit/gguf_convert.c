#include "gguf_convert_shapes.h"
#include "golden.h"
#include "kernels/format.h"

#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- config ---- */

static double real(const struct maker *m, const char *key)
{
	struct json_object *v = maker_member(m->config, key),
			   *rope = maker_member(m->config, "rope_parameters"),
			   *full = maker_member(rope, "full_attention");
	return json_object_get_double(v ? v : maker_member(full ? full : rope, key));
}

static void put_u32(struct test_gguf *g, const struct maker *m, const char *suffix, uint32_t value)
{
	char key[NAME];
	(void)snprintf(key, sizeof key, "%s.%s", m->c->architecture, suffix);
	if (value)
		test_gguf_u32(g, key, value);
}

static void put_f32(struct test_gguf *g, const struct maker *m, const char *suffix,
		    const char *name)
{
	char key[NAME];
	(void)snprintf(key, sizeof key, "%s.%s", m->c->architecture, suffix);
	struct json_object *rope = maker_member(m->config, "rope_parameters");
	if (maker_member(m->config, name) || maker_member(rope, name) ||
	    maker_member(maker_member(rope, "full_attention"), name))
		test_gguf_f32(g, key, (float)real(m, name));
}

static bool is_hybrid(const struct maker *m)
{
	return maker_is(m, "qwen35") || maker_is(m, "qwen35moe") || maker_is(m, "qwen3next");
}

static bool is_paired(const struct maker *m)
{
	return maker_is(m, "llama") || maker_is(m, "granitemoe") || maker_is(m, "smollm3");
}

static bool is_gemma(const struct maker *m)
{
	return maker_is(m, "gemma3") || maker_is(m, "gemma4");
}

static void put_hybrid_keys(struct test_gguf *g, const struct maker *m)
{
	put_u32(g, m, "ssm.conv_kernel", maker_number(m, "linear_conv_kernel_dim"));
	put_u32(g, m, "ssm.state_size", maker_number(m, "linear_key_head_dim"));
	put_u32(g, m, "ssm.group_count", maker_number(m, "linear_num_key_heads"));
	put_u32(g, m, "ssm.time_step_rank", maker_number(m, "linear_num_value_heads"));
	put_u32(g, m, "ssm.inner_size",
		maker_number(m, "linear_num_value_heads") *
			maker_number(m, "linear_value_head_dim"));
	put_u32(g, m, "full_attention_interval", 4);
	put_u32(g, m, "rope.dimension_count",
		(uint32_t)(maker_head_dim(m) * real(m, "partial_rotary_factor")));
	if (!maker_is(m, "qwen3next")) {
		char key[NAME];
		static const int32_t sections[] = {11, 11, 10, 0};
		(void)snprintf(key, sizeof key, "%s.rope.dimension_sections", m->c->architecture);
		test_gguf_array(g, key, GGUF_I32, 4, sections, sizeof sections);
	}
}

static void put_yarn(struct test_gguf *g, const struct maker *m)
{
	char key[NAME];
	struct json_object *rope = maker_member(m->config, "rope_parameters");
	(void)snprintf(key, sizeof key, "%s.rope.scaling.type", m->c->architecture);
	test_gguf_string(g, key, "yarn");
	put_f32(g, m, "rope.scaling.factor", "factor");
	put_u32(g, m, "rope.scaling.original_context_length",
		(uint32_t)json_object_get_int64(
			maker_member(rope, "original_max_position_embeddings")));
	put_f32(g, m, "rope.scaling.yarn_beta_fast", "beta_fast");
	put_f32(g, m, "rope.scaling.yarn_beta_slow", "beta_slow");
}

/* A router of sigmoids, and what mostly goes with it. */
static void put_sigmoid_keys(struct test_gguf *g, const struct maker *m)
{
	char key[NAME];
	put_u32(g, m, "expert_gating_func", 2);
	put_f32(g, m, "expert_weights_scale", "routed_scaling_factor");
	put_u32(g, m, "expert_shared_count", maker_number(m, "n_shared_experts"));
	put_u32(g, m, "leading_dense_block_count", maker_number(m, "first_k_dense_replace"));
	(void)snprintf(key, sizeof key, "%s.expert_weights_norm", m->c->architecture);
	if (maker_member(m->config, "norm_topk_prob"))
		test_gguf_bool(g, key, true);
}

static void put_latent_keys(struct test_gguf *g, const struct maker *m)
{
	uint32_t nope = maker_number(m, "qk_nope_head_dim"),
		 rope = maker_number(m, "qk_rope_head_dim"), rank = maker_number(m, "kv_lora_rank"),
		 value = maker_number(m, "v_head_dim");
	char key[NAME];
	put_u32(g, m, "attention.q_lora_rank", maker_number(m, "q_lora_rank"));
	put_u32(g, m, "attention.kv_lora_rank", rank);
	put_u32(g, m, "attention.key_length", m->c->fused ? nope + rope : rank + rope);
	put_u32(g, m, "attention.value_length", m->c->fused ? value : rank);
	put_u32(g, m, "attention.key_length_mla", m->c->fused ? 0 : nope + rope);
	put_u32(g, m, "attention.value_length_mla", m->c->fused ? 0 : value);
	put_u32(g, m, "rope.dimension_count", rope);
	put_yarn(g, m);
	(void)snprintf(key, sizeof key, "%s.rope.scaling.yarn_log_multiplier", m->c->architecture);
	test_gguf_f32(g, key, 0.1F * (float)real(m, "mscale_all_dim"));
}

/* How rotated elements are scaled; the factors are tensors. */
static void put_phi_keys(struct test_gguf *g, const struct maker *m)
{
	double original = maker_number(m, "original_max_position_embeddings"),
	       scale = maker_number(m, "max_position_embeddings") / original;
	put_u32(g, m, "rope.scaling.original_context_length", (uint32_t)original);
	put_u32(g, m, "rope.dimension_count",
		(uint32_t)(maker_head_dim(m) * real(m, "partial_rotary_factor")));
	test_gguf_u32(g, "phi3.attention.sliding_window", maker_number(m, "sliding_window"));
	test_gguf_f32(g, "phi3.rope.scaling.attn_factor",
		      (float)sqrt(1 + log(scale) / log(original)));
}

/* Which layers see a window, and what scores are scaled by, the converter does not write. */
static void put_gemma_keys(struct test_gguf *g, const struct maker *m)
{
	struct json_object *rope = maker_member(m->config, "rope_parameters"),
			   *local = maker_member(rope, "sliding_attention"),
			   *theta = maker_member(local, "rope_theta");
	char key[NAME];
	struct json_object *type = maker_member(maker_member(rope, "full_attention"), "rope_type");
	put_u32(g, m, "attention.sliding_window", maker_number(m, "sliding_window"));
	if (!strcmp(json_object_get_string(type), "linear")) {
		(void)snprintf(key, sizeof key, "%s.rope.scaling.type", m->c->architecture);
		test_gguf_string(g, key, "linear");
		put_f32(g, m, "rope.scaling.factor", "factor");
	}
	if (maker_is(m, "gemma3"))
		put_f32(g, m, "final_logit_softcapping", "final_logit_softcapping");
	(void)snprintf(key, sizeof key, "%s.rope.freq_base_swa", m->c->architecture);
	test_gguf_f32(g, key, (float)json_object_get_double(theta));
}

/* Element `layer` of per_layer_config has other heads; as they are named, or the config's. */
static uint32_t gemma_of_layer(const struct maker *m, uint32_t layer, const char *key)
{
	char number[16];
	(void)snprintf(number, sizeof number, "%u", layer);
	struct json_object *all = maker_member(m->config, "per_layer_config"),
			   *v = maker_member(maker_member(all, number), key);
	return v ? (uint32_t)json_object_get_int64(v) : maker_number(m, key);
}

static bool gemma_slides(const struct maker *m, uint32_t layer)
{
	struct json_object *types = maker_member(m->config, "layer_types");
	return !strcmp(json_object_get_string(json_object_array_get_idx(types, layer)),
		       "sliding_attention");
}

static void put_gemma4_keys(struct test_gguf *g, const struct maker *m)
{
	uint8_t sliding[64];
	int32_t widths[64], heads[64];
	uint32_t last = m->layers - 1, dim = gemma_of_layer(m, last, "head_dim"),
		 shared = maker_number(m, "num_kv_shared_layers"),
		 wide = maker_number(m, "use_double_wide_mlp");
	struct json_object *config = maker_member(m->config, "per_layer_config");
	assert_true(config && m->layers <= 64 && !gemma_slides(m, last));
	for (uint32_t i = 0; i < m->layers; i++) {
		sliding[i] = gemma_slides(m, i);
		heads[i] = (int32_t)gemma_of_layer(m, i, "num_key_value_heads");
		widths[i] = (int32_t)maker_number(m, "intermediate_size") *
			    (wide && i >= m->layers - shared ? 2 : 1);
	}
	test_gguf_u32(g, "gemma4.attention.shared_kv_layers", shared);
	test_gguf_u32(g, "gemma4.embedding_length_per_layer_input",
		      maker_number(m, "hidden_size_per_layer_input"));
	test_gguf_array(g, "gemma4.attention.sliding_window_pattern", GGUF_BOOL, m->layers, sliding,
			m->layers);
	put_u32(g, m, "attention.key_length", dim);
	put_u32(g, m, "attention.value_length", dim);
	put_u32(g, m, "attention.key_length_swa", maker_number(m, "head_dim"));
	put_u32(g, m, "attention.value_length_swa", maker_number(m, "head_dim"));
	put_u32(g, m, "rope.dimension_count", dim);
	put_u32(g, m, "rope.dimension_count_swa", maker_number(m, "head_dim"));
	put_u32(g, m, "expert_used_count", maker_number(m, "top_k_experts"));
	put_f32(g, m, "final_logit_softcapping", "final_logit_softcapping");
	if (wide)
		test_gguf_array(g, "gemma4.feed_forward_length", GGUF_I32, m->layers, widths,
				m->layers * sizeof *widths);
	else
		put_u32(g, m, "feed_forward_length", maker_number(m, "intermediate_size"));
	if (maker_number(m, "num_experts")) /* the fixture whose layers differ in this */
		test_gguf_array(g, "gemma4.attention.head_count_kv", GGUF_I32, m->layers, heads,
				m->layers * sizeof *heads);
	else
		put_u32(g, m, "attention.head_count_kv", maker_number(m, "num_key_value_heads"));
}

static void put_newer_keys(struct test_gguf *g, const struct maker *m)
{
	bool partial = maker_is(m, "glm4moe") || maker_is(m, "minimax-m2");
	if (maker_is(m, "gpt-oss")) {
		put_u32(g, m, "attention.sliding_window", maker_number(m, "sliding_window"));
		put_u32(g, m, "expert_feed_forward_length", maker_number(m, "intermediate_size"));
		put_yarn(g, m);
	}
	if (is_gemma(m))
		put_gemma_keys(g, m);
	if (maker_is(m, "gemma4"))
		put_gemma4_keys(g, m);
	if (maker_is(m, "phi3"))
		put_phi_keys(g, m);
	if (maker_is(m, "deepseek2"))
		put_latent_keys(g, m);
	if (maker_is(m, "minimax-m2"))
		put_u32(g, m, "expert_feed_forward_length", maker_number(m, "intermediate_size"));
	if (maker_is(m, "glm4moe"))
		put_u32(g, m, "nextn_predict_layers", maker_number(m, "num_nextn_predict_layers"));
	if (partial)
		put_u32(g, m, "rope.dimension_count",
			(uint32_t)(maker_head_dim(m) * real(m, "partial_rotary_factor")));
	if (partial || maker_is(m, "deepseek2"))
		put_sigmoid_keys(g, m);
}

static void put_keys(struct test_gguf *g, const struct maker *m)
{
	static const char *const copied[][2] = {
		{"context_length", "max_position_embeddings"},
		{"embedding_length", "hidden_size"},
		{"feed_forward_length", "intermediate_size"},
		{"attention.head_count", "num_attention_heads"},
		{"attention.head_count_kv", "num_key_value_heads"},
		{"attention.key_length", "head_dim"},
		{"attention.value_length", "head_dim"},
		{"expert_count", "num_local_experts"},
		{"expert_count", "num_experts"},
		{"expert_count", "n_routed_experts"},
		{"expert_group_count", "n_group"},
		{"expert_group_used_count", "topk_group"},
		{"expert_used_count", "num_experts_per_tok"},
		{"expert_feed_forward_length", "moe_intermediate_size"},
		{"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
		{"nextn_predict_layers", "mtp_num_hidden_layers"},
	};
	test_gguf_string(g, "general.architecture", m->c->architecture);
	test_gguf_string(g, "general.name", m->c->fixture);
	bool drafts = maker_is(m, "glm4moe");
	put_u32(g, m, "block_count",
		m->layers + maker_number(m, "mtp_num_hidden_layers") +
			(drafts ? maker_number(m, "num_nextn_predict_layers") : 0));
	static const char *const by_layer[] = {"feed_forward_length", "attention.head_count_kv",
					       "attention.key_length", "attention.value_length"};
	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
		bool apart = false;
		for (size_t k = 0; k < sizeof by_layer / sizeof *by_layer; k++)
			apart |= maker_is(m, "gemma4") && !strcmp(copied[i][0], by_layer[k]);
		if (apart)
			continue;
		if (!maker_is(m, "deepseek2") || !strstr(copied[i][0], "_length") ||
		    !strstr(copied[i][0], "attention."))
			put_u32(g, m, copied[i][0], maker_number(m, copied[i][1]));
	}
	put_f32(g, m, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
	put_f32(g, m, "rope.freq_base", "rope_theta");
	if (is_paired(m)) {
		put_u32(g, m, "vocab_size", maker_number(m, "vocab_size"));
		put_u32(g, m, "rope.dimension_count", maker_head_dim(m));
	}
	if (maker_is(m, "granitemoe")) {
		put_f32(g, m, "attention.scale", "attention_multiplier");
		put_f32(g, m, "embedding_scale", "embedding_multiplier");
		put_f32(g, m, "residual_scale", "residual_multiplier");
		put_f32(g, m, "logit_scale", "logits_scaling");
	}
	if (is_hybrid(m))
		put_hybrid_keys(g, m);
	put_newer_keys(g, m);
	test_gguf_u32(g, "general.quantization_version", 2);
}

/* ---- vocabulary ---- */

static void put_vocabulary(struct test_gguf *g, const struct maker *m)
{
	enum { MOST = 4096 };
	char path[512];
	static const char *tokens[MOST], *merges[MOST];
	static int32_t kinds[MOST];
	size_t count = 0, merge_count;
	(void)snprintf(path, sizeof path, "%s/tokenizer.json", test_fixture(m->c->fixture));
	struct json_object *all = json_object_from_file(path), *model = maker_member(all, "model");
	json_object_object_foreach(maker_member(model, "vocab"), text, id)
	{
		size_t i = (size_t)json_object_get_int(id);
		assert_true(i < MOST);
		tokens[i] = text;
		kinds[i] = 1;
		count = i + 1 > count ? i + 1 : count;
	}
	struct json_object *added = maker_member(all, "added_tokens");
	for (size_t k = 0; k < json_object_array_length(added); k++) {
		struct json_object *one = json_object_array_get_idx(added, k);
		size_t i = (size_t)json_object_get_int(maker_member(one, "id"));
		assert_true(i < MOST);
		tokens[i] = json_object_get_string(maker_member(one, "content"));
		kinds[i] = 3;
		count = i + 1 > count ? i + 1 : count;
	}
	struct json_object *list = maker_member(model, "merges");
	merge_count = json_object_array_length(list);
	static char joined[MOST][64];
	for (size_t i = 0; i < merge_count && i < MOST; i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		bool pair = json_object_is_type(one, json_type_array);
		(void)snprintf(
			joined[i], sizeof joined[i], pair ? "%s %s" : "%s",
			json_object_get_string(pair ? json_object_array_get_idx(one, 0) : one),
			pair ? json_object_get_string(json_object_array_get_idx(one, 1)) : "");
		merges[i] = joined[i];
	}
	test_gguf_string(g, "tokenizer.ggml.model", "gpt2");
	test_gguf_string(g, "tokenizer.ggml.pre", "qwen2");
	test_gguf_strings(g, "tokenizer.ggml.tokens", tokens, count);
	test_gguf_array(g, "tokenizer.ggml.token_type", GGUF_I32, count, kinds,
			count * sizeof *kinds);
	test_gguf_strings(g, "tokenizer.ggml.merges", merges, merge_count);
	test_gguf_u32(g, "tokenizer.ggml.eos_token_id", maker_number(m, "eos_token_id"));
	test_gguf_bool(g, "tokenizer.ggml.add_bos_token", false);
	json_object_put(all);
}

/* ---- tensors ---- */

/* What follows "layers.N." in names: where it goes. */
static const char *const names[][2] = {
	{"input_layernorm.weight", "attn_norm.weight"},
	{"self_attn.q_proj.weight", "attn_q.weight"},
	{"self_attn.k_proj.weight", "attn_k.weight"},
	{"self_attn.v_proj.weight", "attn_v.weight"},
	{"self_attn.o_proj.weight", "attn_output.weight"},
	{"self_attn.qkv_proj.weight", "attn_qkv.weight"},
	{"mlp.gate_up_proj.weight", "ffn_up.weight"},
	{"self_attn.q_proj.bias", "attn_q.bias"},
	{"self_attn.k_proj.bias", "attn_k.bias"},
	{"self_attn.v_proj.bias", "attn_v.bias"},
	{"self_attn.q_norm.weight", "attn_q_norm.weight"},
	{"self_attn.k_norm.weight", "attn_k_norm.weight"},
	{"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
	{"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
	{"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
	{"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
	{"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
	{"layer_scalar", "layer_output_scale.weight"},
	{"per_layer_input_gate.weight", "inp_gate.weight"},
	{"per_layer_projection.weight", "proj.weight"},
	{"post_per_layer_input_norm.weight", "post_norm.weight"},
	{"router.proj.weight", "ffn_gate_inp.weight"},
	{"router.scale", "ffn_gate_inp.scale"},
	{"router.per_expert_scale", "ffn_down_exps.scale"},
	{"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
	{"experts.down_proj", "ffn_down_exps.weight"},
	{"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
	{"linear_attn.in_proj_z.weight", "attn_gate.weight"},
	{"linear_attn.in_proj_qkvz.weight", "ssm_in.weight"},
	{"linear_attn.in_proj_ba.weight", "ssm_ba.weight"},
	{"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
	{"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
	{"linear_attn.A_log", "ssm_a"},
	{"linear_attn.dt_bias", "ssm_dt.bias"},
	{"linear_attn.norm.weight", "ssm_norm.weight"},
	{"linear_attn.out_proj.weight", "ssm_out.weight"},
	{"mlp.gate_proj.weight", "ffn_gate.weight"},
	{"mlp.up_proj.weight", "ffn_up.weight"},
	{"mlp.down_proj.weight", "ffn_down.weight"},
	{"mlp.gate.weight", "ffn_gate_inp.weight"},
	{"block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
	{"block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight"},
	{"block_sparse_moe.output_linear.weight", "ffn_down_exps.weight"},
	{"mlp.experts.down_proj", "ffn_down_exps.weight"},
	{"self_attn.o_proj.bias", "attn_output.bias"},
	{"self_attn.sinks", "attn_sinks.weight"},
	{"self_attn.q_a_proj.weight", "attn_q_a.weight"},
	{"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
	{"self_attn.q_b_proj.weight", "attn_q_b.weight"},
	{"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
	{"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
	{"self_attn.kv_b_proj.weight", "attn_kv_b.weight"},
	{"mlp.router.weight", "ffn_gate_inp.weight"},
	{"mlp.router.bias", "ffn_gate_inp.bias"},
	{"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
	{"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
	{"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
	{"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
	{"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
	{"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
	{"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
	{"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
	{"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
	{"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
};

static const char *name_of(const struct maker *m, const char *part)
{
	if (!strcmp(part, "post_attention_layernorm.weight"))
		return is_hybrid(m) || is_gemma(m) || maker_is(m, "gpt-oss") ||
				       maker_is(m, "glm4moe")
			       ? "post_attention_norm.weight"
			       : "ffn_norm.weight";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i][0], part))
			return names[i][1];
	fail_msg("no name for %s", part);
	return NULL;
}

static void convert_numbers(struct maker *m, const char *part, struct out *o)
{
	bool norm = maker_ends(part, "norm.weight") && !maker_ends(part, "linear_attn.norm.weight");
	if (maker_ends(part, "layernorm.weight"))
		norm = true;
	for (size_t i = 0; i < o->count; i++)
		if (maker_ends(part, "A_log"))
			o->x[i] = -expf(o->x[i]);
		else if (norm && (is_hybrid(m) || maker_is(m, "gemma3")))
			o->x[i] += 1;
	if (is_paired(m) &&
	    (maker_ends(part, "q_proj.weight") || maker_ends(part, "k_proj.weight")))
		maker_pair(m, o);
	if (maker_is(m, "qwen35") || maker_is(m, "qwen35moe"))
		maker_tile(m, part, o);
	if (maker_ends(part, "conv1d.weight")) { /* [channels, 1, width] */
		o->shape[1] = o->shape[2];
		o->dims = 2;
	}
}

/* gpt-oss' experts: which way each goes, and which rows of it. */
static bool convert_turned(struct maker *m, const char *layer, const char *part,
			   const struct test_tensor *t)
{
	static const struct {
		const char *part, *as;
		void (*way)(struct maker *m, const char *name, const struct test_tensor *t,
			    size_t first, size_t step);
		size_t first, step;
	} ways[] = {
		{"gate_up_proj", "gate_exps.weight", maker_turn, 0, 2},
		{"gate_up_proj", "up_exps.weight", maker_turn, 1, 2},
		{"down_proj", "down_exps.weight", maker_turn, 0, 1},
		{"gate_up_proj_blocks", "gate_exps.weight", maker_blocks, 0, 2},
		{"gate_up_proj_blocks", "up_exps.weight", maker_blocks, 1, 2},
		{"down_proj_blocks", "down_exps.weight", maker_blocks, 0, 1},
		{"gate_up_proj_bias", "gate_exps.bias", maker_pick, 0, 2},
		{"gate_up_proj_bias", "up_exps.bias", maker_pick, 1, 2},
	};
	static const char experts[] = "mlp.experts.";
	char name[NAME];
	bool done = maker_ends(part, "_scales"); /* with their blocks */
	if (strncmp(part, experts, sizeof experts - 1) != 0)
		return false;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (!strcmp(part + sizeof experts - 1, ways[i].part)) {
			(void)snprintf(name, sizeof name, "%sffn_%s", layer, ways[i].as);
			ways[i].way(m, name, t, ways[i].first, ways[i].step);
			done = true;
		}
	return done;
}

static void convert_in_layer(struct maker *m, uint32_t number_of, const char *part,
			     const struct test_tensor *t)
{
	static const char *const experts[][2] = {
		{"gate_proj.weight", "gate"}, {"up_proj.weight", "up"},
		{"down_proj.weight", "down"}, {"w1.weight", "gate"},
		{"w3.weight", "up"},	      {"w2.weight", "down"},
	};
	char layer[32], name[NAME];
	uint32_t expert;
	int at = 0;
	(void)snprintf(layer, sizeof layer, "blk.%u.", number_of);
	if (sscanf(part, "mlp.experts.%u.%n", &expert, &at) == 1 ||
	    sscanf(part, "block_sparse_moe.experts.%u.%n", &expert, &at) == 1) {
		uint32_t count = maker_number(m, "num_experts");
		count = count ? count : maker_number(m, "num_local_experts");
		count = count ? count : maker_number(m, "n_routed_experts");
		for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
			if (!strcmp(part + at, experts[i][0]))
				maker_stack(m, layer, experts[i][1], expert, count, t);
		return;
	}
	if (maker_is(m, "gpt-oss") && convert_turned(m, layer, part, t))
		return;
	if (!strcmp(part, "self_attn.kv_b_proj.weight") && !m->c->fused) {
		maker_split_latent(m, layer, t);
		return;
	}
	if (!strcmp(part, "block_sparse_moe.input_linear.weight") ||
	    !strcmp(part, "mlp.experts.gate_up_proj")) {
		(void)snprintf(name, sizeof name, "%sffn_gate_exps.weight", layer);
		maker_halve(m, name, t, 0);
		(void)snprintf(name, sizeof name, "%sffn_up_exps.weight", layer);
		maker_halve(m, name, t, 1);
		return;
	}
	if (!strcmp(part, "linear_attn.in_proj_qkvz.weight") && !m->c->fused) {
		maker_unfuse(m, layer, t);
		return;
	}
	(void)snprintf(name, sizeof name, "%s%s", layer, name_of(m, part));
	convert_numbers(m, part, maker_add_copy(m, name, t));
}

/* Tensors of the draft: after the last layer. */
static void convert_draft(struct maker *m, const char *part, const struct test_tensor *t)
{
	static const char *const drafts[][2] = {
		{"fc.weight", "eh_proj.weight"},
		{"pre_fc_norm_embedding.weight", "enorm.weight"},
		{"pre_fc_norm_hidden.weight", "hnorm.weight"},
		{"norm.weight", "shared_head_norm.weight"},
	};
	char name[NAME];
	uint32_t layer;
	int at = 0;
	if (sscanf(part, "layers.%u.%n", &layer, &at) == 1) {
		convert_in_layer(m, m->layers + layer, part + at, t);
		return;
	}
	for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
		if (!strcmp(part, drafts[i][0])) {
			(void)snprintf(name, sizeof name, "blk.%u.nextn.%s", m->layers,
				       drafts[i][1]);
			struct out *o = maker_add_copy(m, name, t);
			for (size_t k = 0; i > 0 && k < o->count; k++)
				o->x[k] += 1;
		}
}

static void convert_tensor(struct maker *m, const struct test_tensor *t)
{
	static const char nested[] = "model.language_model.";
	const char *name = t->name;
	uint32_t layer;
	int at = 0;
	if (maker_has_table(m)) {
		maker_put_by_table(m, t);
		return;
	}
	if (strstr(name, "visual."))
		return;
	if (!strncmp(name, "mtp.", 4)) {
		convert_draft(m, name + 4, t);
		return;
	}
	if (!strncmp(name, nested, sizeof nested - 1))
		name += sizeof nested - 1;
	else if (!strncmp(name, "model.", 6))
		name += 6;
	if (sscanf(name, "layers.%u.%n", &layer, &at) == 1)
		convert_in_layer(m, layer, name + at, t);
	else if (!strcmp(name, "embed_tokens.weight"))
		(void)maker_add_copy(m, "token_embd.weight", t);
	else if (!strcmp(name, "embed_tokens_per_layer.weight"))
		(void)maker_add_copy(m, "per_layer_token_embd.weight", t);
	else if (!strcmp(name, "per_layer_model_projection.weight"))
		(void)maker_add_copy(m, "per_layer_model_proj.weight", t);
	else if (!strcmp(name, "per_layer_projection_norm.weight"))
		(void)maker_add_copy(m, "per_layer_proj_norm.weight", t);
	else if (!strcmp(name, "lm_head.weight"))
		(void)maker_add_copy(m, "output.weight", t);
	else if (!strcmp(name, "norm.weight"))
		convert_numbers(m, name, maker_add_copy(m, "output_norm.weight", t));
	else
		fail_msg("no place for %s", t->name);
}

static struct out *add_vector(struct maker *m, const char *name, size_t count)
{
	struct out *o = maker_add(m, name);
	o->dims = 1;
	o->shape[0] = o->count = count;
	o->x = malloc(count * sizeof *o->x);
	assert_non_null(o->x);
	return o;
}

/* Llama 3.1's rotations: what each pair's frequency is divided by. */
static void add_llama_factors(struct maker *m)
{
	double theta = real(m, "rope_theta"), slowed = real(m, "factor"),
	       low = real(m, "low_freq_factor"), high = real(m, "high_freq_factor"),
	       original = real(m, "original_max_position_embeddings");
	struct out *o = add_vector(m, "rope_freqs.weight", maker_head_dim(m) / 2);
	for (size_t i = 0; i < o->count; i++) {
		double wave = 2 * acos(-1) * pow(theta, (double)i / (double)o->count),
		       smooth = (original / wave - low) / (high - low);
		o->x[i] = wave < original / high  ? 1.0F
			  : wave > original / low ? (float)slowed
						  : (float)(1 / ((1 - smooth) / slowed + smooth));
	}
}

static void add_list(struct maker *m, const char *name, struct json_object *list)
{
	struct out *o = add_vector(m, name, json_object_array_length(list));
	for (size_t i = 0; i < o->count; i++)
		o->x[i] = (float)json_object_get_double(json_object_array_get_idx(list, i));
}

/* Pairs of whole layers' heads that do not turn are slowed without end. */
static void add_gemma_factors(struct maker *m)
{
	uint32_t pairs = gemma_of_layer(m, m->layers - 1, "head_dim") / 2,
		 turning = (uint32_t)(pairs * real(m, "partial_rotary_factor"));
	struct out *o = add_vector(m, "rope_freqs.weight", pairs);
	for (uint32_t i = 0; i < pairs; i++)
		o->x[i] = i < turning ? 1.0F : 1e30F;
}

static void add_factors(struct maker *m)
{
	struct json_object *rope = maker_member(m->config, "rope_parameters"),
			   *type = maker_member(rope, "rope_type");
	const char *text = type ? json_object_get_string(type) : "";
	if (!strcmp(text, "llama3"))
		add_llama_factors(m);
	if (maker_is(m, "gemma4"))
		add_gemma_factors(m);
	if (!strcmp(text, "longrope")) {
		add_list(m, "rope_factors_long.weight", maker_member(rope, "long_factor"));
		add_list(m, "rope_factors_short.weight", maker_member(rope, "short_factor"));
	}
}

/* ---- writing ---- */

enum { Q8_COLS = 32, Q8_BYTES = 2 + Q8_COLS };

/* The largest number of a block is 127 of its scale. */
static void quantise_q8(uint8_t *block, const float *x)
{
	float most = 0;
	for (int i = 0; i < Q8_COLS; i++)
		most = fmaxf(most, fabsf(x[i]));
	uint16_t half = f16_from_f32(most / 127);
	float scale = f16_to_f32(half);
	memcpy(block, &half, sizeof half);
	for (int i = 0; i < Q8_COLS; i++)
		block[2 + i] = (uint8_t)(int8_t)(scale > 0 ? roundf(x[i] / scale) : 0);
}

static void put_q8(struct test_gguf *g, const struct out *o)
{
	size_t blocks = o->count / Q8_COLS;
	uint8_t *bytes = malloc(blocks * Q8_BYTES);
	assert_non_null(bytes);
	for (size_t i = 0; i < blocks; i++)
		quantise_q8(bytes + i * Q8_BYTES, o->x + i * Q8_COLS);
	test_gguf_tensor(g, o->name, 8, o->shape, o->dims, bytes, blocks * Q8_BYTES);
	free(bytes);
}

static void put_tensor(struct test_gguf *g, const struct maker *m, const struct out *o)
{
	bool kept = o->dims < 2 || strstr(o->name, "norm") || strstr(o->name, "ffn_gate_inp") ||
		    strstr(o->name, "ssm_conv1d") || maker_ends(o->name, ".bias") ||
		    maker_ends(o->name, "ssm_a") || maker_ends(o->name, "ssm_d") ||
		    strstr(o->name, "shortconv.conv") || strstr(o->name, "ple_conv1d") ||
		    strstr(o->name, ".hc_") || strstr(o->name, "indexer_compressor");
	if (o->blocks) {
		test_gguf_tensor(g, o->name, 39, o->shape, o->dims, o->blocks, o->count);
		return;
	}
	if (o->whole) {
		int32_t *numbers = calloc(o->count, sizeof *numbers);
		assert_non_null(numbers);
		for (size_t i = 0; i < o->count; i++)
			numbers[i] = (int32_t)o->x[i];
		test_gguf_tensor(g, o->name, 26, o->shape, o->dims, (uint8_t *)numbers,
				 o->count * sizeof *numbers);
		free(numbers);
		return;
	}
	const char *type = kept ? "F32" : m->c->type;
	if (!strcmp(type, "Q8_0") && o->shape[o->dims - 1] % Q8_COLS == 0) {
		put_q8(g, o);
		return;
	}
	size_t width = strcmp(type, "F32") ? 2 : 4;
	uint8_t *bytes = malloc(o->count * width);
	assert_non_null(bytes);
	for (size_t i = 0; i < o->count; i++) {
		uint16_t half = *type == 'B' ? bf16_from_f32(o->x[i]) : f16_from_f32(o->x[i]);
		memcpy(bytes + i * width, width == 2 ? (const void *)&half : &o->x[i], width);
	}
	test_gguf_tensor(g, o->name,
			 width == 4	? 0
			 : *type == 'B' ? 30
					: 1,
			 o->shape, o->dims, bytes, o->count * width);
	free(bytes);
}

static void write_part(const struct maker *m, uint32_t part, uint32_t parts, const char *path)
{
	struct test_gguf g = {.version = m->c->version};
	if (!part) {
		if (maker_has_table(m))
			maker_put_table_keys(&g, m);
		else
			put_keys(&g, m);
		put_vocabulary(&g, m);
	}
	if (parts > 1) {
		test_gguf_u16(&g, "split.no", (uint16_t)part);
		test_gguf_u16(&g, "split.count", (uint16_t)parts);
		test_gguf_u32(&g, "split.tensors.count", (uint32_t)m->count);
	}
	for (size_t i = m->count * part / parts; i < m->count * (part + 1) / parts; i++)
		put_tensor(&g, m, &m->out[i]);
	if (!part && m->c->change)
		m->c->change(&g);
	test_gguf_write(&g, path);
	test_gguf_free(&g);
}

void test_gguf_convert(const struct gguf_conversion *c, const char *folder, const char *name,
		       char path[512])
{
	struct maker *m = calloc(1, sizeof *m);
	uint32_t parts = c->parts ? c->parts : 1;
	assert_non_null(m);
	(void)snprintf(path, 512, "%s/config.json", test_fixture(c->fixture));
	m->c = c;
	m->document = json_object_from_file(path);
	m->config = maker_member(m->document, "text_config");
	m->config = m->config ? m->config : m->document;
	m->layers = maker_number(m, "num_hidden_layers");
	if (!m->layers)
		m->layers = (uint32_t)json_object_array_length(
			maker_member(m->config, "layers_block_type"));
	test_checkpoint_read(&m->from, c->fixture);
	for (size_t i = 0; i < m->from.count; i++)
		if (!c->without || !maker_ends(m->from.tensors[i].name, c->without))
			convert_tensor(m, &m->from.tensors[i]);
	add_factors(m);
	for (uint32_t part = parts; part-- > 0;) { /* the first last: its path stays */
		if (parts > 1)
			(void)snprintf(path, 512, "%s/%s-%05u-of-%05u.gguf", folder, name, part + 1,
				       parts);
		else
			(void)snprintf(path, 512, "%s/%s.gguf", folder, name);
		write_part(m, part, parts, path);
	}
	for (size_t i = 0; i < m->count; i++) {
		free(m->out[i].x);
		free(m->out[i].blocks);
	}
	test_checkpoint_free(&m->from);
	json_object_put(m->document);
	free(m);
}
