/* Configs as they are published, key by key: each family's own spelling; a key that would change
 * the arithmetic is refused by name. (The fixtures' configs are in transformers' newer spelling;
 * their golden numbers check the values derived from a config.) */
#include "engine/family/config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static struct config config;
static struct err e;

/* The members of an object, followed by others, which win if a key occurs twice. */
static int parse_with(const char *members, const char *override)
{
	char text[8192];
	int n = snprintf(text, sizeof text, "{%s%s%s}", members, *override ? ", " : "", override);
	assert_in_range(n, 1, sizeof text - 1);
	return config_parse(&config, text, (size_t)n, "config.json", &e);
}

static void parse(const char *members)
{
	if (parse_with(members, ""))
		fail_msg("%s", e.text);
}

struct refusal {
	const char *override, *word; /* a member, and the name in the sentence */
	int code;
};

static void assert_refused(const char *members, const struct refusal *wrong, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int failed = parse_with(members, wrong[i].override);
		if (failed != -wrong[i].code || !strstr(e.text, wrong[i].word))
			fail_msg("%s: gave %d, \"%s\"", wrong[i].override, failed, e.text);
	}
}
#define ASSERT_REFUSED(members, wrong) \
	assert_refused(members, wrong, sizeof(wrong) / sizeof *(wrong))

/* ---- glm4_moe ---- */

static const char glm[] =
	"\"architectures\": [\"Glm4MoeForCausalLM\"], \"attention_bias\": true,"
	"\"attention_dropout\": 0.0, \"pad_token_id\": 151329,"
	"\"eos_token_id\": [151329, 151336, 151338], \"head_dim\": 128, \"hidden_act\": \"silu\","
	"\"hidden_size\": 4096, \"partial_rotary_factor\": 0.5, \"initializer_range\": 0.02,"
	"\"intermediate_size\": 10944, \"max_position_embeddings\": 131072,"
	"\"model_type\": \"glm4_moe\", \"moe_intermediate_size\": 1408, \"norm_topk_prob\": true,"
	"\"num_attention_heads\": 96, \"n_group\": 1, \"topk_group\": 1, \"n_routed_experts\": 128,"
	"\"n_shared_experts\": 1, \"routed_scaling_factor\": 1.0, \"num_experts_per_tok\": 8,"
	"\"first_k_dense_replace\": 1, \"num_hidden_layers\": 46, \"num_key_value_heads\": 8,"
	"\"num_nextn_predict_layers\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null,"
	"\"rope_theta\": 1000000, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
	"\"transformers_version\": \"4.54.0\", \"use_cache\": true, \"use_qk_norm\": false,"
	"\"vocab_size\": 151552";

static void glm4_moe_is_read_as_published(void **state)
{
	(void)state;
	parse(glm);
	assert_int_equal(config.rope[0].dim, 64);
	assert_true(config.qkv_bias && !config.output_bias);
	assert_int_equal(config.head_norms, HEAD_NORMS_NONE);
	assert_int_equal(config.router_order, SIGMOID_THEN_TOP_K);
	assert_true(config.router_correction && config.normalise_top_k);
	assert_true(config.routed_scaling == 1);
	assert_int_equal(config.experts, 128);
	assert_int_equal(config.experts_per_token, 8);
	assert_int_equal(config.shared_size, 1408);
	assert_false(config.shared_gate);
	assert_false(config_routed(&config, 0));
	assert_true(config_routed(&config, 1) && config.layer[1].shared);
	assert_int_equal(config.layers_left_out, 1);
	assert_true(parse_with(glm, "\"use_qk_norm\": true, \"attention_bias\": false") == 0);
	assert_int_equal(config.head_norms, HEAD_NORMS_EACH);
	assert_false(config.qkv_bias);
}

static void what_glm4_moe_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"scoring_func\": \"softmax\"", "scoring_func", ENOTSUP},
		{"\"topk_method\": \"greedy\"", "topk_method", ENOTSUP},
		{"\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}", "dynamic", ENOTSUP},
		{"\"n_group\": 3", "n_group", EINVAL},
		{"\"n_group\": 128", "n_group", EINVAL},
		{"\"n_group\": 64, \"topk_group\": 3", "topk_group", EINVAL},
		{"\"n_group\": 4, \"topk_group\": 5", "topk_group", EINVAL},
		{"\"n_shared_experts\": 4096", "n_shared_experts", EINVAL},
		{"\"routed_scaling_factor\": -1", "routed_scaling_factor", EINVAL},
		{"\"first_k_dense_replace\": -1", "first_k_dense_replace", EINVAL},
		{"\"use_qk_norm\": 1", "use_qk_norm", EINVAL},
	};
	ASSERT_REFUSED(glm, wrong);
}

/* ---- smollm3 ---- */

static const char smollm3[] =
	"\"architectures\": [\"SmolLM3ForCausalLM\"], \"attention_bias\": false,"
	"\"attention_dropout\": 0.0, \"eos_token_id\": 128012, \"hidden_act\": \"silu\","
	"\"hidden_size\": 2048, \"initializer_range\": 0.02, \"intermediate_size\": 11008,"
	"\"max_position_embeddings\": 65536, \"max_window_layers\": 28, \"mlp_bias\": false,"
	"\"model_type\": \"smollm3\", \"no_rope_layer_interval\": 4, \"num_attention_heads\": 16,"
	"\"num_hidden_layers\": 8, \"num_key_value_heads\": 4, \"pad_token_id\": 128004,"
	"\"pretraining_tp\": 2, \"rms_norm_eps\": 1e-06, \"rope_scaling\": null,"
	"\"rope_theta\": 5000000.0, \"sliding_window\": null, \"torch_dtype\": \"bfloat16\","
	"\"use_cache\": false, \"use_sliding_window\": false, \"vocab_size\": 128256";

static void smollm3_rotates_in_three_layers_of_four(void **state)
{
	(void)state;
	parse(smollm3);
	assert_true(config.tied_head);
	for (uint32_t layer = 0; layer < 8; layer++)
		assert_int_equal(config.layer[layer].rope, layer % 4 == 3 ? CONFIG_NO_ROPE : 0);
	assert_int_equal(config.rope[CONFIG_NO_ROPE].dim, 0);
	assert_true(parse_with(smollm3, "\"no_rope_layers\": [0, 1, 1, 1, 1, 1, 1, 1]") == 0);
	for (uint32_t layer = 0; layer < 8; layer++)
		assert_int_equal(config.layer[layer].rope, layer == 0 ? CONFIG_NO_ROPE : 0);
}

static void what_smollm3_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"no_rope_layers\": [1, 1]", "no_rope_layers", EINVAL},
		{"\"no_rope_layers\": [1, 1, 1, 1, 1, 1, 1, 2]", "no_rope_layers", EINVAL},
		{"\"no_rope_layer_interval\": 0", "no_rope_layer_interval", EINVAL},
		{"\"mlp_bias\": true", "mlp_bias", ENOTSUP},
		{"\"use_sliding_window\": true", "use_sliding_window", ENOTSUP},
	};
	ASSERT_REFUSED(smollm3, wrong);
}

/* ---- gemma3 ---- */

/* As a model that also sees is published: what is as in transformers' class is left out. */
static const char gemma3[] =
	"\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"boi_token_index\": 255999,"
	"\"eos_token_id\": [1, 106], \"image_token_index\": 262144, \"initializer_range\": 0.02,"
	"\"mm_tokens_per_image\": 256, \"model_type\": \"gemma3\", \"torch_dtype\": \"bfloat16\","
	"\"vision_config\": {\"hidden_size\": 1152, \"model_type\": \"siglip_vision_model\"},"
	"\"text_config\": {\"hidden_size\": 2560, \"intermediate_size\": 10240,"
	"\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34, \"rope_scaling\":"
	"{\"factor\": 8.0, \"rope_type\": \"linear\"}, \"sliding_window\": 1024}";
/* And a small one. */
static const char gemma3_text[] =
	"\"architectures\": [\"Gemma3ForCausalLM\"], \"_sliding_window_pattern\": 6,"
	"\"attention_bias\": false, \"attn_logit_softcapping\": null, \"bos_token_id\": 2,"
	"\"eos_token_id\": 1, \"final_logit_softcapping\": null, \"head_dim\": 256,"
	"\"hidden_activation\": \"gelu_pytorch_tanh\", \"hidden_size\": 640,"
	"\"intermediate_size\": 2048, \"max_position_embeddings\": 32768,"
	"\"model_type\": \"gemma3_text\", \"num_attention_heads\": 4, \"num_hidden_layers\": 18,"
	"\"num_key_value_heads\": 1, \"query_pre_attn_scalar\": 256, \"rms_norm_eps\": 1e-06,"
	"\"rope_local_base_freq\": 10000.0, \"rope_scaling\": null, \"rope_theta\": 1000000.0,"
	"\"sliding_window\": 512, \"use_bidirectional_attention\": false, \"vocab_size\": 262144";

static void gemma3_has_defaults_for_what_its_config_leaves_out(void **state)
{
	(void)state;
	parse(gemma3);
	assert_int_equal(config.vocabulary, 262208);
	assert_int_equal(config.max_positions, 131072);
	assert_int_equal(config.heads, 8);
	assert_int_equal(config.kv_heads, 4);
	assert_int_equal(config.head_dim, 256);
	assert_true(config.tied_head && config.norm_offset == 1 && config.post_norms);
	assert_true(config.attention_scale == 1.0F / 16);
	assert_true(config.rope[0].theta == 1e6 && config.rope[0].scaling == ROPE_LINEAR);
	assert_true(config.rope[1].theta == 1e4 && config.rope[1].scaling == ROPE_DEFAULT);
	for (uint32_t layer = 0; layer < 34; layer++) {
		bool whole = layer % 6 == 5;
		assert_int_equal(config.layer[layer].window, whole ? 0 : 1024);
		assert_int_equal(config.layer[layer].rope, whole ? 0 : 1);
	}
	parse(gemma3_text);
	assert_int_equal(config.layer[4].window, 512);
	assert_int_equal(config.layer[5].window, 0);
	assert_true(config.embedding_multiplier == sqrtf(640));
}

static void what_gemma3_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"attn_logit_softcapping\": 50.0", "attn_logit_softcapping", ENOTSUP},
		{"\"use_bidirectional_attention\": true", "use_bidirectional_attention", ENOTSUP},
		{"\"hidden_activation\": \"silu\"", "hidden_activation", ENOTSUP},
		{"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0}", "yarn", ENOTSUP},
		{"\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}}",
		 "sliding_attention", EINVAL},
		{"\"query_pre_attn_scalar\": 0", "query_pre_attn_scalar", EINVAL},
		{"\"sliding_window_pattern\": 0", "sliding_window_pattern", EINVAL},
		{"\"final_logit_softcapping\": -1.0", "final_logit_softcapping", EINVAL},
		{"\"rope_local_base_freq\": 0", "rope_local_base_freq", EINVAL},
		{"\"num_attention_heads\": 3, \"num_key_value_heads\": null", "heads", EINVAL},
	};
	ASSERT_REFUSED(gemma3_text, wrong);
}

/* ---- phi3 ---- */

static const char phi3[] =
	"\"architectures\": [\"Phi3ForCausalLM\"], \"attention_bias\": false,"
	"\"attention_dropout\": 0.0, \"bos_token_id\": 1, \"embd_pdrop\": 0.0,"
	"\"eos_token_id\": 32000, \"hidden_act\": \"silu\", \"hidden_size\": 32,"
	"\"intermediate_size\": 64, \"max_position_embeddings\": 131072,"
	"\"model_type\": \"phi3\", \"num_attention_heads\": 2, \"num_hidden_layers\": 2,"
	"\"num_key_value_heads\": 2, \"original_max_position_embeddings\": 4096,"
	"\"resid_pdrop\": 0.0, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0,"
	"\"sliding_window\": 262144, \"tie_word_embeddings\": false,"
	"\"torch_dtype\": \"bfloat16\", \"use_cache\": true, \"vocab_size\": 32064";
#define PHI3_LONG(type)                                                           \
	"\"rope_scaling\": {\"long_factor\": [1.5, 2, 3, 4, 5, 6, 7, 64.5], "     \
	"\"short_factor\": [1, 1, 1, 1, 1.1, 1.1, 1.2, 1.5], \"type\": \"" type \
	"\"}"

static void phi3_has_two_lists_of_factors(void **state)
{
	(void)state;
	static const char *const spellings[] = {PHI3_LONG("longrope"), PHI3_LONG("su")};
	for (size_t i = 0; i < 2; i++) {
		if (parse_with(phi3, spellings[i]))
			fail_msg("%s", e.text);
		assert_int_equal(config.rope_limit, 4096);
		assert_true(config.rope[0].factors[7] == 1.5F);
		assert_true(config.rope[CONFIG_LONG_ROPE].factors[7] == 64.5F);
		assert_true(config.rope[0].amplitude == config.rope[CONFIG_LONG_ROPE].amplitude);
		assert_true(fabs((double)config.rope[0].amplitude - sqrt(1 + 5.0 / 12)) < 1e-6);
		assert_int_equal(config.layer[1].window, 262144);
	}
	parse(phi3); /* as the models of 4,096 positions are */
	assert_int_equal(config.rope_limit, 0);
	assert_int_equal(config.rope[0].scaling, ROPE_DEFAULT);
	assert_true(parse_with(phi3, PHI3_LONG("longrope") ", \"max_position_embeddings\": 4096") ==
		    0);
	assert_true(config.rope[0].amplitude == 1);
}

static void what_phi3_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2.0}", "yarn", ENOTSUP},
		{"\"rope_scaling\": {\"type\": \"longrope\"}", "short_factor", EINVAL},
		{"\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1]}",
		 "short_factor", EINVAL},
		{PHI3_LONG("longrope") ", \"original_max_position_embeddings\": 0",
		 "original_max_position_embeddings", EINVAL},
		{PHI3_LONG("longrope") ", \"partial_rotary_factor\": 0.75", "short_factor", EINVAL},
		{"\"sliding_window\": -1", "sliding_window", EINVAL},
		{"\"hidden_act\": \"gelu\"", "hidden_act", ENOTSUP},
	};
	ASSERT_REFUSED(phi3, wrong);
}

/* ---- minimax_m2 ---- */

static const char minimax[] =
	"\"architectures\": [\"MiniMaxM2ForCausalLM\"], \"attn_type_list\": [1, 1, 1],"
	"\"auto_map\": {\"AutoConfig\": \"configuration_minimax_m2.MiniMaxM2Config\"},"
	"\"eos_token_id\": 200020, \"head_dim\": 128, \"hidden_act\": \"silu\","
	"\"hidden_size\": 3072, \"intermediate_size\": 1536,"
	"\"layernorm_full_attention_beta\": 1.0, \"layernorm_linear_attention_beta\": 1.0,"
	"\"layernorm_mlp_beta\": 1.0, \"max_position_embeddings\": 196608,"
	"\"mlp_intermediate_size\": 8192, \"model_type\": \"minimax_m2\","
	"\"mtp_transformer_layers\": 1, \"num_attention_heads\": 48, \"num_experts_per_tok\": 8,"
	"\"num_hidden_layers\": 3, \"num_key_value_heads\": 8, \"num_local_experts\": 256,"
	"\"num_mtp_modules\": 3, \"qk_norm_type\": \"per_layer\", \"rms_norm_eps\": 1e-06,"
	"\"rope_theta\": 5000000, \"rotary_dim\": 64, \"router_aux_loss_coef\": 0.001,"
	"\"router_jitter_noise\": 0.0, \"scoring_func\": \"sigmoid\","
	"\"shared_intermediate_size\": 0, \"tie_word_embeddings\": false, \"use_mtp\": true,"
	"\"use_qk_norm\": true, \"use_routing_bias\": true, \"vocab_size\": 200064";

static void minimax_m2_is_read_as_published(void **state)
{
	(void)state;
	parse(minimax);
	assert_int_equal(config.rope[0].dim, 64);
	assert_int_equal(config.head_norms, HEAD_NORMS_TOGETHER);
	assert_int_equal(config.expert_size, 1536);
	assert_int_equal(config.experts, 256);
	assert_int_equal(config.router_order, SIGMOID_THEN_TOP_K);
	assert_true(config.router_correction && config.normalise_top_k);
	assert_true(config_routed(&config, 0) && !config.layer[0].shared);
}

static void what_minimax_m2_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"attn_type_list\": [1, 0, 1]", "attn_type_list", ENOTSUP},
		{"\"attn_type_list\": [\"1\"]", "attn_type_list", EINVAL},
		{"\"qk_norm_type\": \"per_head\"", "per_head", ENOTSUP},
		{"\"use_qk_norm\": false", "use_qk_norm", ENOTSUP},
		{"\"use_routing_bias\": false", "use_routing_bias", ENOTSUP},
		{"\"shared_intermediate_size\": 1536", "shared_intermediate_size", ENOTSUP},
		{"\"layernorm_mlp_beta\": 2.0", "layernorm_mlp_beta", ENOTSUP},
		{"\"sliding_window\": 4096", "sliding_window", ENOTSUP},
		{"\"scoring_func\": \"softmax\"", "scoring_func", ENOTSUP},
		{"\"rotary_dim\": 63", "rotary_dim", EINVAL},
		{"\"rotary_dim\": 130", "rotary_dim", EINVAL},
	};
	ASSERT_REFUSED(minimax, wrong);
}

/* ---- gpt_oss ---- */

static const char gpt_oss[] =
	"\"architectures\": [\"GptOssForCausalLM\"], \"attention_bias\": true,"
	"\"attention_dropout\": 0.0, \"eos_token_id\": 200002, \"experts_per_token\": 4,"
	"\"head_dim\": 64, \"hidden_act\": \"silu\", \"hidden_size\": 2880,"
	"\"initial_context_length\": 4096, \"initializer_range\": 0.02,"
	"\"intermediate_size\": 2880, \"layer_types\": [\"sliding_attention\","
	"\"full_attention\", \"sliding_attention\", \"full_attention\"],"
	"\"max_position_embeddings\": 131072, \"model_type\": \"gpt_oss\","
	"\"num_attention_heads\": 64, \"num_experts_per_tok\": 4, \"num_hidden_layers\": 4,"
	"\"num_key_value_heads\": 8, \"num_local_experts\": 32,"
	"\"output_router_logits\": false, \"pad_token_id\": 199999, \"rms_norm_eps\": 1e-05,"
	"\"rope_scaling\": {\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"factor\": 32.0,"
	"\"original_max_position_embeddings\": 4096, \"rope_type\": \"yarn\","
	"\"truncate\": false}, \"rope_theta\": 150000, \"router_aux_loss_coef\": 0.9,"
	"\"sliding_window\": 128, \"swiglu_limit\": 7.0, \"tie_word_embeddings\": false,"
	"\"transformers_version\": \"4.55.0.dev0\", \"use_cache\": true,"
	"\"vocab_size\": 201088";

static void gpt_oss_is_read_as_published(void **state)
{
	(void)state;
	parse(gpt_oss);
	const struct rope *p = &config.rope[0];
	assert_int_equal(p->scaling, ROPE_YARN);
	assert_true(p->theta == 150000 && p->factor == 32 && p->original == 4096);
	assert_true(p->low == 1 && p->high == 32 && !p->truncate);
	assert_true(fabsf(p->amplitude - 1.3465736F) < 1e-6F);
	assert_true(config.qkv_bias && config.output_bias && config.expert_bias);
	assert_true(config.sinks && config.router_bias);
	assert_int_equal(config.router_order, TOP_K_THEN_SOFTMAX);
	assert_int_equal(config.glu, GLU_CLAMPED);
	assert_true(config.glu_limit == 7 && config.glu_alpha == 1.702F);
	for (uint32_t layer = 0; layer < 4; layer++)
		assert_int_equal(config.layer[layer].window, layer % 2 ? 0 : 128);
}

static void what_gpt_oss_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"layer_types\": [\"full_attention\"]", "layer_types", EINVAL},
		{"\"layer_types\": [\"full_attention\", \"full_attention\", \"linear_attention\","
		 "\"full_attention\"]",
		 "linear_attention", ENOTSUP},
		{"\"sliding_window\": null", "sliding_window", EINVAL},
		{"\"sliding_window\": 0", "sliding_window", EINVAL},
		{"\"swiglu_limit\": -7.0", "swiglu_limit", EINVAL},
		{"\"hidden_act\": \"gelu\"", "hidden_act", ENOTSUP},
		{"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}", "llama3",
		 ENOTSUP},
		{"\"rope_scaling\": {\"rope_type\": \"yarn\"}", "factor", EINVAL},
		{"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 0.5}", "factor", EINVAL},
		{"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": 1}",
		 "truncate", EINVAL},
	};
	ASSERT_REFUSED(gpt_oss, wrong);
}

/* ---- gemma4 ---- */

#define GEMMA_ROPES                                                                             \
	"\"rope_parameters\": {\"full_attention\": {\"partial_rotary_factor\": 0.25,"           \
	"\"rope_theta\": 1000000.0, \"rope_type\": \"proportional\"}, \"sliding_attention\": {" \
	"\"rope_theta\": 10000.0, \"rope_type\": \"default\"}}"
#define GEMMA_TEXT                                                                                 \
	"\"attention_bias\": false, \"attention_dropout\": 0.0, \"attention_k_eq_v\": true,"       \
	"\"bos_token_id\": 2, \"dtype\": \"bfloat16\", \"enable_moe_block\": true,"                \
	"\"eos_token_id\": 1, \"final_logit_softcapping\": 30.0, \"global_head_dim\": 512,"        \
	"\"head_dim\": 256, \"hidden_activation\": \"gelu_pytorch_tanh\", \"hidden_size\": 2816,"  \
	"\"hidden_size_per_layer_input\": 0, \"initializer_range\": 0.02,"                         \
	"\"intermediate_size\": 2112, \"layer_types\": [\"sliding_attention\","                    \
	"\"sliding_attention\", \"full_attention\"], \"max_position_embeddings\": 262144,"         \
	"\"model_type\": \"gemma4_text\", \"moe_intermediate_size\": 704,"                         \
	"\"num_attention_heads\": 16, \"num_experts\": 128, \"num_global_key_value_heads\": 2,"    \
	"\"num_hidden_layers\": 3, \"num_key_value_heads\": 8, \"num_kv_shared_layers\": 0,"       \
	"\"pad_token_id\": 0, \"rms_norm_eps\": 1e-06, " GEMMA_ROPES ", \"sliding_window\": 1024," \
	"\"tie_word_embeddings\": true, \"top_k_experts\": 8,"                                     \
	"\"use_bidirectional_attention\": \"vision\", \"use_cache\": true,"                        \
	"\"use_double_wide_mlp\": false, \"vocab_size\": 262144,"                                  \
	"\"vocab_size_per_layer_input\": 262144"
static const char gemma[] = "\"architectures\": [\"Gemma4ForConditionalGeneration\"],"
			    "\"audio_config\": null, \"boi_token_id\": 255999,"
			    "\"eos_token_id\": [1, 106], \"model_type\": \"gemma4\","
			    "\"text_config\": {" GEMMA_TEXT "}, \"tie_word_embeddings\": true,"
			    "\"vision_config\": {\"hidden_size\": 1152}";

static void assert_is_gemma(void)
{
	static const struct {
		uint32_t head_dim, kv_heads, window, rope;
	} want[] = {{256, 8, 1024, 1}, {256, 8, 1024, 1}, {512, 2, 0, 0}};
	for (uint32_t layer = 0; layer < 3; layer++) {
		const struct layer *l = &config.layer[layer];
		assert_int_equal(l->head_dim, want[layer].head_dim);
		assert_int_equal(l->kv_heads, want[layer].kv_heads);
		assert_int_equal(l->window, want[layer].window);
		assert_int_equal(l->rope, want[layer].rope);
		assert_int_equal(l->keys_as_values, layer == 2);
		assert_true(l->shared && config_routed(&config, layer));
		assert_int_equal(config_has_tensor(&config, TENSOR_V, layer), layer != 2);
	}
	assert_int_equal(config.layer[1].kv_at, 2 * 8 * 256);
	assert_int_equal(config.layer[2].kv_at, 0); /* kept separately from layers with a window */
	assert_int_equal(config.kv_width[KV_WINDOWED], 2 * 2 * 8 * 256);
	assert_int_equal(config.kv_width[KV_WHOLE], 2 * 2 * 512);
	assert_int_equal(config.window, 1024);
}

static void gemma4_is_read_as_published(void **state)
{
	(void)state;
	parse(gemma);
	assert_is_gemma();
	assert_int_equal(config.rope[0].scaling, ROPE_PROPORTIONAL);
	assert_true(config.rope[0].theta == 1e6 && config.rope[1].theta == 1e4);
	assert_int_equal(config.rope[0].dim, 512);
	assert_int_equal(config.rope[0].turning, 64);
	assert_int_equal(config.rope[1].dim, 256);
	assert_int_equal(config.glu, GLU_GELU);
	assert_true(config.attention_scale == 1 && config.logit_cap == 30);
	assert_true(fabsf(config.embedding_multiplier - 53.06600F) < 1e-4F);
	assert_int_equal(config.experts_per_token, 8);
	assert_int_equal(config.expert_size, 704);
	assert_int_equal(config.shared_size, 2112);
	assert_true(config.value_norm && config.post_norms && config.feed_forwards_apart);
	assert_true(config.tied_head);
	/* transformers' later spelling of the same */
	assert_int_equal(parse_with(GEMMA_TEXT, "\"per_layer_config\": {\"2\": {\"head_dim\": 512,"
						"\"num_key_value_heads\": 2}}"),
			 0);
	assert_is_gemma();
	/* the dense one */
	assert_int_equal(parse_with(GEMMA_TEXT, "\"enable_moe_block\": false"), 0);
	assert_true(!config_routed(&config, 0) && !config.layer[0].shared);
	assert_true(config_has_tensor(&config, TENSOR_FEED_FORWARD_POST_NORM, 0));
	assert_false(config_has_tensor(&config, TENSOR_EXPERTS_NORM, 0));
}

static void what_gemma4_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"hidden_size_per_layer_input\": 1048576", "hidden_size_per_layer_input", EINVAL},
		{"\"hidden_size_per_layer_input\": 256, \"vocab_size_per_layer_input\": 100",
		 "vocab_size_per_layer_input", ENOTSUP},
		{"\"num_kv_shared_layers\": 20", "num_kv_shared_layers", EINVAL},
		{"\"num_kv_shared_layers\": 3", "num_kv_shared_layers", EINVAL},
		{"\"num_kv_shared_layers\": 1", "no earlier layer", EINVAL},
		{"\"use_bidirectional_attention\": \"all\"", "use_bidirectional_attention",
		 ENOTSUP},
		{"\"hidden_activation\": \"silu\"", "hidden_activation", ENOTSUP},
		{"\"layer_types\": null", "layer_types", EINVAL},
		{"\"layer_types\": [\"full_attention\", \"full_attention\", \"sliding_attention\"]",
		 "layer_types", ENOTSUP},
		{"\"global_head_dim\": 511", "511", EINVAL},
		{"\"num_global_key_value_heads\": 3", "3 key-value heads", EINVAL},
		{"\"num_global_key_value_heads\": 0", "num_global_key_value_heads", EINVAL},
		{"\"global_head_dim\": 4098", "global_head_dim", EINVAL},
		{"\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}}",
		 "sliding_attention", EINVAL},
		{"\"rope_parameters\": null", "rope_parameters", EINVAL},
		{"\"per_layer_config\": {\"3\": {}}", "per_layer_config", EINVAL},
		{"\"per_layer_config\": {\"-1\": {}}", "per_layer_config", EINVAL},
		{"\"per_layer_config\": {\"2\": 3}", "per_layer_config", EINVAL},
		{"\"per_layer_config\": {\"2\": {\"sliding_window\": 3}}", "sliding_window",
		 ENOTSUP},
		{"\"per_layer_config\": {\"0\": {\"head_dim\": 64}}", "per_layer_config", ENOTSUP},
		{"\"final_logit_softcapping\": -30", "final_logit_softcapping", EINVAL},
		{"\"top_k_experts\": 129", "experts per token", EINVAL},
	};
	ASSERT_REFUSED(GEMMA_TEXT, wrong);
}

/* ---- deepseek_v3 ---- */

static const char deepseek[] =
	"\"architectures\": [\"DeepseekV3ForCausalLM\"], \"attention_bias\": false,"
	"\"attention_dropout\": 0.0, \"auto_map\": {\"AutoConfig\": \"configuration_deepseek\"},"
	"\"bos_token_id\": 0, \"eos_token_id\": 1, \"ep_size\": 1,"
	"\"first_k_dense_replace\": 3, \"hidden_act\": \"silu\", \"hidden_size\": 7168,"
	"\"initializer_range\": 0.02, \"intermediate_size\": 18432, \"kv_lora_rank\": 512,"
	"\"max_position_embeddings\": 163840, \"model_type\": \"deepseek_v3\","
	"\"moe_intermediate_size\": 2048, \"moe_layer_freq\": 1, \"n_group\": 8,"
	"\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"norm_topk_prob\": true,"
	"\"num_attention_heads\": 128, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 61,"
	"\"num_key_value_heads\": 128, \"num_nextn_predict_layers\": 1,"
	"\"q_lora_rank\": 1536, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,"
	"\"rms_norm_eps\": 1e-06, \"rope_scaling\": {\"beta_fast\": 32, \"beta_slow\": 1,"
	"\"factor\": 40, \"mscale\": 1.0, \"mscale_all_dim\": 1.0,"
	"\"original_max_position_embeddings\": 4096, \"type\": \"yarn\"},"
	"\"rope_theta\": 10000, \"routed_scaling_factor\": 2.5, \"scoring_func\": \"sigmoid\","
	"\"tie_word_embeddings\": false, \"topk_group\": 4, \"topk_method\": \"noaux_tc\","
	"\"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.33.1\","
	"\"use_cache\": true, \"v_head_dim\": 128, \"vocab_size\": 129280";

static void deepseek_v3_is_read_as_published(void **state)
{
	(void)state;
	uint32_t rows, cols;
	parse(deepseek);
	const struct latent *l = &config.latent;
	assert_int_equal(l->query_rank, 1536);
	assert_int_equal(l->rank, 512);
	assert_true(l->nope == 128 && l->rope == 64 && l->value == 128 && l->interleaved);
	assert_int_equal(config.mixers[MIXER_LATENT], 61);
	assert_int_equal(config.mixers[MIXER_ATTENTION], 0);
	assert_int_equal(config.kv_width[KV_WHOLE], 61 * 576);
	assert_int_equal(config.layer[60].kv_at, 60 * 576);
	const struct rope *p = &config.rope[0];
	assert_true(p->scaling == ROPE_YARN && p->dim == 64 && p->truncate);
	assert_true(p->amplitude == 1);
	/* 192^-0.5 · (0.1 · ln 40 + 1)² */
	assert_true(fabsf(config.attention_scale - .1352337788F) < 1e-6F);
	assert_int_equal(config.router_groups, 8);
	assert_int_equal(config.router_top_groups, 4);
	assert_true(config.routed_scaling == 2.5F && config.router_correction);
	assert_true(!config_routed(&config, 2) && config_routed(&config, 3));
	assert_true(config.layer[3].shared && config.shared_size == 2048);
	assert_int_equal(config.layers_left_out, 1);
	config_tensor_shape(&config, TENSOR_LATENT_KEYS, 0, &rows, &cols);
	assert_true(rows == 128 * 512 && cols == 128);
	config_tensor_shape(&config, TENSOR_LATENT_Q, 0, &rows, &cols);
	assert_true(rows == 128 * 192 && cols == 1536);
	/* as in DeepSeek V3's smaller relatives */
	assert_int_equal(parse_with(deepseek, "\"q_lora_rank\": null, \"rope_scaling\": null"), 0);
	config_tensor_shape(&config, TENSOR_LATENT_Q, 0, &rows, &cols);
	assert_int_equal(cols, 7168);
	assert_false(config_has_tensor(&config, TENSOR_LATENT_Q_LOW, 0));
	assert_true(fabsf(config.attention_scale - .0721687836F) < 1e-7F);
}

static void what_deepseek_v3_cannot_be_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct refusal wrong[] = {
		{"\"attention_bias\": true", "attention_bias", ENOTSUP},
		{"\"moe_layer_freq\": 2", "moe_layer_freq", ENOTSUP},
		{"\"scoring_func\": \"softmax\"", "scoring_func", ENOTSUP},
		{"\"topk_method\": \"group_limited_greedy\"", "topk_method", ENOTSUP},
		{"\"kv_lora_rank\": 0", "kv_lora_rank", EINVAL},
		{"\"kv_lora_rank\": null", "kv_lora_rank", EINVAL},
		{"\"kv_lora_rank\": 4096", "latent of 4096", EINVAL},
		{"\"q_lora_rank\": -1", "q_lora_rank", EINVAL},
		{"\"qk_rope_head_dim\": 63", "qk_rope_head_dim", EINVAL},
		{"\"v_head_dim\": 4097", "v_head_dim", EINVAL},
		{"\"rope_interleave\": 1", "rope_interleave", EINVAL},
		{"\"topk_group\": 9", "topk_group", EINVAL},
		{"\"n_group\": 7", "n_group", EINVAL},
		{"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"mscale_all_dim\": -1}",
		 "mscale_all_dim", EINVAL},
	};
	ASSERT_REFUSED(deepseek, wrong);
}

/* ---- llama and mistral ---- */

static const char llama[] =
	"\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false,"
	"\"attention_dropout\": 0.0, \"bos_token_id\": 128000,"
	"\"eos_token_id\": [128001, 128008, 128009], \"head_dim\": 64,"
	"\"hidden_act\": \"silu\", \"hidden_size\": 2048, \"initializer_range\": 0.02,"
	"\"intermediate_size\": 8192, \"max_position_embeddings\": 131072,"
	"\"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32,"
	"\"num_hidden_layers\": 16, \"num_key_value_heads\": 8, \"pretraining_tp\": 1,"
	"\"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 32.0,"
	"\"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0,"
	"\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"},"
	"\"rope_theta\": 500000.0, \"tie_word_embeddings\": true,"
	"\"torch_dtype\": \"bfloat16\", \"use_cache\": true, \"vocab_size\": 128256";

static void llama_is_read_as_published(void **state)
{
	(void)state;
	parse(llama);
	const struct rope *p = &config.rope[0];
	assert_int_equal(p->scaling, ROPE_LLAMA3);
	assert_true(p->factor == 32 && p->low == 1 && p->high == 4 && p->original == 8192);
	assert_true(p->amplitude == 1);
	assert_int_equal(config.experts, 0);
	assert_false(config_routed(&config, 0));
	assert_true(config.tied_head && !config.qkv_bias);
	static const struct refusal wrong[] = {
		{"\"mlp_bias\": true", "mlp_bias", ENOTSUP},
		{"\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}", "dynamic",
		 ENOTSUP},
		{"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0,"
		 "\"low_freq_factor\": 4.0, \"high_freq_factor\": 4.0}",
		 "high_freq_factor", EINVAL},
	};
	ASSERT_REFUSED(llama, wrong);
}

static const char mistral[] =
	"\"architectures\": [\"MistralForCausalLM\"], \"bos_token_id\": 1, \"eos_token_id\": 2,"
	"\"hidden_act\": \"silu\", \"hidden_size\": 4096, \"initializer_range\": 0.02,"
	"\"intermediate_size\": 14336, \"max_position_embeddings\": 32768,"
	"\"model_type\": \"mistral\", \"num_attention_heads\": 32, \"num_hidden_layers\": 2,"
	"\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0,"
	"\"sliding_window\": 4096, \"tie_word_embeddings\": false, \"vocab_size\": 32000";

static void mistral_is_read_as_published(void **state)
{
	(void)state;
	parse(mistral);
	assert_int_equal(config.layer[0].window, 4096);
	assert_int_equal(config.layer[1].window, 4096);
	assert_int_equal(parse_with(mistral, "\"sliding_window\": null"), 0);
	assert_int_equal(config.layer[1].window, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(glm4_moe_is_read_as_published),
		cmocka_unit_test(what_glm4_moe_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(smollm3_rotates_in_three_layers_of_four),
		cmocka_unit_test(what_smollm3_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(gemma3_has_defaults_for_what_its_config_leaves_out),
		cmocka_unit_test(what_gemma3_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(phi3_has_two_lists_of_factors),
		cmocka_unit_test(what_phi3_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(minimax_m2_is_read_as_published),
		cmocka_unit_test(what_minimax_m2_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(gpt_oss_is_read_as_published),
		cmocka_unit_test(what_gpt_oss_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(gemma4_is_read_as_published),
		cmocka_unit_test(what_gemma4_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(deepseek_v3_is_read_as_published),
		cmocka_unit_test(what_deepseek_v3_cannot_be_is_refused_by_its_key),
		cmocka_unit_test(llama_is_read_as_published),
		cmocka_unit_test(mistral_is_read_as_published),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
