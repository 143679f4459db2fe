/* Families: special keys of their configs, and the places of their roles in published tensors. The
 * hybrids' checkpoints are converted in each published form, and the stores compared byte by byte.
 */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/layers.h"
#include "engine/family/family.h"
#include "engine/family/sources.h"
#include "fault_io.h" /* it syncs nothing */
#include "golden.h"
#include "kernels/delta.h"
#include "store_help.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

static char parent[32], source[64], store[64], other[64];
static struct test_checkpoint c;
static struct test_conversion conversion;
static struct config config;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(store, sizeof store, "%s/store", parent);
	(void)snprintf(other, sizeof other, "%s/other", parent);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_checkpoint_free(&c);
	test_folder_remove(parent);
	return 0;
}

static void read_fixture_config(const char *fixture)
{
	const char *folder = test_fixture(fixture);
	if (!folder)
		skip();
	if (config_read(&config, folder, &e))
		fail_msg("%s", e.text);
}

static void read_fixture(const char *fixture)
{
	read_fixture_config(fixture);
	test_checkpoint_read(&c, fixture);
}

static void parse(const char *text)
{
	if (config_parse(&config, text, strlen(text), "config.json", &e))
		fail_msg("%s", e.text);
}

/* ---- published configs ---- */

static void parse_file(const char *folder, const char *name)
{
	char path[600];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	uint8_t *text = test_file_read(path, &n);
	memset(&config, 0, sizeof config); /* the bytes between members, too */
	if (config_parse(&config, (const char *)text, n, path, &e))
		fail_msg("%s", e.text);
	free(text);
}

/* The fixtures' config.json is in transformers' later spelling. */
static void the_published_spelling_of_a_config_is_the_same_model(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"llama", "smollm3", "gemma3", "phi3", "gemma4_ple",
					       "lfm2_moe", "granitemoehybrid",
					       "nemotron_h", "kimi_linear", "glm_moe_dsa",
					       "minimax_m3"};
	static struct config later;
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		const char *folder = test_fixture(fixtures[i]);
		if (!folder)
			continue;
		parse_file(folder, "config.json");
		memcpy(&later, &config, sizeof later);
		parse_file(folder, "config.published.json");
		if (memcmp(&later, &config, offsetof(struct config, generation)) != 0)
			fail_msg("%s: the two configs are not the same model", fixtures[i]);
	}
}

/* ---- special keys ---- */

static void qwen2_moe_has_a_shared_expert_in_its_routed_layers(void **state)
{
	(void)state;
	read_fixture_config("qwen2_moe");
	assert_true(config.qkv_bias);
	assert_false(config.output_bias);
	assert_false(config.normalise_top_k);
	assert_int_equal(config.shared_size, 80);
	parse("{\"model_type\": \"qwen2_moe\", \"hidden_size\": 64, \"num_hidden_layers\": 6,"
	      "\"vocab_size\": 100, \"max_position_embeddings\": 99, \"num_attention_heads\": 4,"
	      "\"intermediate_size\": 128, \"moe_intermediate_size\": 32, \"num_experts\": 8,"
	      "\"num_experts_per_tok\": 2, \"shared_expert_intermediate_size\": 48,"
	      "\"decoder_sparse_step\": 2, \"mlp_only_layers\": [3], \"qkv_bias\": false,"
	      "\"rope_theta\": 10000, \"sliding_window\": 32768, \"use_sliding_window\": false}");
	assert_false(config.qkv_bias);
	for (uint32_t layer = 0; layer < 6; layer++) {
		bool routed = layer == 1 || layer == 5;
		assert_int_equal(config_routed(&config, layer), routed);
		assert_int_equal(config.layer[layer].shared, routed);
		assert_int_equal(config_has_tensor(&config, TENSOR_SHARED_SCALE, layer), routed);
		assert_int_equal(config_has_tensor(&config, TENSOR_GATE, layer), !routed);
		assert_int_equal(config.layer[layer].state, layer);
	}
}

static void granitemoe_has_multipliers_and_weighs_the_chosen_experts_alone(void **state)
{
	(void)state;
	read_fixture_config("granitemoe");
	assert_true(config.attention_scale == .0625F);
	assert_true(config.embedding_multiplier == 12);
	assert_true(config.residual_multiplier == .22F);
	assert_true(config.logits_scaling == 6);
	assert_int_equal(config.router_order, TOP_K_THEN_SOFTMAX);
	assert_int_equal(config.expert_size, 48);
	assert_true(config.tied_head);
}

static void mixtral_always_normalises_and_may_have_windows(void **state)
{
	(void)state;
	static const char window[] =
		"{\"model_type\": \"mixtral\", \"hidden_size\": 64, \"num_hidden_layers\": 2,"
		"\"vocab_size\": 100, \"max_position_embeddings\": 99, \"num_attention_heads\": 4,"
		"\"intermediate_size\": 128, \"num_local_experts\": 8, \"num_experts_per_tok\": 2,"
		"\"rope_theta\": 10000, \"sliding_window\": 4096}";
	read_fixture_config("mixtral");
	assert_true(config.normalise_top_k);
	assert_int_equal(config.expert_size, 96);
	assert_true(config.rms_eps == 1e-5F);
	assert_int_equal(config.layer[1].window, 0);
	parse(window);
	assert_int_equal(config.layer[0].window, 4096);
	assert_int_equal(config.layer[1].window, 4096);
}

static void olmoe_has_norms_over_all_heads_together(void **state)
{
	(void)state;
	uint32_t rows, cols;
	read_fixture_config("olmoe");
	assert_int_equal(config.head_norms, HEAD_NORMS_TOGETHER);
	config_tensor_shape(&config, TENSOR_Q_NORM, 0, &rows, &cols);
	assert_int_equal(rows, config.heads * config.head_dim);
	assert_int_equal(cols, 0);
}

static void assert_is_a_hybrid(void)
{
	uint32_t rows, cols;
	assert_int_equal(config.rope[0].dim, config.head_dim / 4);
	assert_true(config.query_gate && config.norm_offset == 1 && config.draft);
	for (uint32_t layer = 0; layer <= config.layers; layer++) {
		bool attention = layer % 4 == 3 || layer == config.layers;
		assert_int_equal(config.layer[layer].mixer,
				 attention ? MIXER_ATTENTION : MIXER_DELTA_NET);
		uint32_t state = attention ? layer / 4 : layer - layer / 4;
		/* A draft's layer is the first of a context of its own. */
		assert_int_equal(config.layer[layer].state, layer < config.layers ? state : 0);
		assert_int_equal(config_has_tensor(&config, TENSOR_DELTA_A_LOG, layer), !attention);
		assert_int_equal(config_has_tensor(&config, TENSOR_Q_NORM, layer), attention);
	}
	assert_int_equal(config.mixers[MIXER_ATTENTION], config.layers / 4);
	assert_int_equal(config.mixers[MIXER_DELTA_NET], config.layers - config.layers / 4);
	config_tensor_shape(&config, TENSOR_Q, 3, &rows, &cols);
	assert_int_equal(rows, 2 * config.heads * config.head_dim);
	config_tensor_shape(&config, TENSOR_DELTA_QKV, 0, &rows, &cols);
	assert_int_equal(rows, 2 * config.delta_net.key_heads * config.delta_net.key_dim +
				       config.delta_net.value_heads * config.delta_net.value_dim);
}

static void the_hybrids_name_the_mixer_of_each_layer(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_5", "qwen3_5_moe", "qwen3_5_moe_fused",
					       "qwen3_next"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		read_fixture_config(fixtures[i]);
		assert_is_a_hybrid();
		assert_int_equal(config.layer[config.layers].shared, config.experts > 0);
		assert_int_equal(config_routed(&config, config.layers), config.experts > 0);
	}
}

static void an_interval_says_the_same_as_a_list_of_mixers(void **state)
{
	(void)state;
	parse("{\"model_type\": \"qwen3_next\", \"hidden_size\": 64, \"num_hidden_layers\": 8,"
	      "\"vocab_size\": 100, \"max_position_embeddings\": 99, \"num_attention_heads\": 4,"
	      "\"intermediate_size\": 128, \"moe_intermediate_size\": 32, \"num_experts\": 8,"
	      "\"num_experts_per_tok\": 2, \"shared_expert_intermediate_size\": 48,"
	      "\"rope_theta\": 10000, \"rope_scaling\": null, \"partial_rotary_factor\": 0.25,"
	      "\"head_dim\": 32, \"full_attention_interval\": 4, \"linear_num_key_heads\": 2,"
	      "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 16,"
	      "\"linear_value_head_dim\": 16, \"linear_conv_kernel_dim\": 4}");
	assert_is_a_hybrid();
	assert_true(config.normalise_top_k);
}

static void what_a_hybrid_says_that_is_not_so_is_refused_by_its_key(void **state)
{
	(void)state;
	static const struct {
		const char *override;
		int code;
		const char *word;
	} wrong[] = {
		{"\"layer_types\": [\"full_attention\"]", EINVAL, "layer_types"},
		{"\"layer_types\": [\"full_attention\", \"sliding_attention\"]", ENOTSUP,
		 "sliding_attention"},
		{"\"layer_types\": [\"full_attention\", 3]", EINVAL, "layer_types"},
		{"\"output_gate_type\": \"sigmoid\"", ENOTSUP, "output_gate_type"},
		{"\"attn_output_gate\": 1", EINVAL, "attn_output_gate"},
		{"\"full_attention_interval\": 0", EINVAL, "full_attention_interval"},
		{"\"linear_num_value_heads\": 3", EINVAL, "linear_num_value_heads"},
		{"\"linear_num_key_heads\": 0", EINVAL, "linear_num_key_heads"},
		{"\"linear_key_head_dim\": 4097", EINVAL, "linear_key_head_dim"},
		{"\"linear_conv_kernel_dim\": null", EINVAL, "linear_conv_kernel_dim"},
		{"\"linear_num_key_heads\": 4096, \"linear_num_value_heads\": 4096,"
		 "\"linear_key_head_dim\": 4096",
		 EINVAL, "4096 key"},
		{"\"partial_rotary_factor\": 0.01", EINVAL, "partial_rotary_factor"},
		{"\"partial_rotary_factor\": 0.1", EINVAL, "partial_rotary_factor"},
		{"\"rope_parameters\": {\"rope_theta\": 1e4, \"rope_type\": \"yarn\"}", ENOTSUP,
		 "yarn"},
		{"\"shared_expert_intermediate_size\": null", EINVAL,
		 "shared_expert_intermediate_size"},
		{"\"moe_intermediate_size\": 0", EINVAL, "moe_intermediate_size"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char text[2048];
		int n = snprintf(
			text, sizeof text,
			"{\"model_type\": \"qwen3_5_moe\", \"text_config\": {"
			"\"hidden_size\": 64, \"num_hidden_layers\": 2, \"vocab_size\": 100,"
			"\"max_position_embeddings\": 99, \"num_attention_heads\": 4,"
			"\"head_dim\": 32, \"moe_intermediate_size\": 32,"
			"\"num_experts\": 8, \"num_experts_per_tok\": 2,"
			"\"shared_expert_intermediate_size\": 48, \"rope_theta\": 10000,"
			"\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4,"
			"\"linear_key_head_dim\": 16, \"linear_value_head_dim\": 16,"
			"\"linear_conv_kernel_dim\": 4, %s}}",
			wrong[i].override);
		int failed = config_parse(&config, text, (size_t)n, "config.json", &e);
		if (failed != -wrong[i].code || !strstr(e.text, wrong[i].word))
			fail_msg("%s: gave %d, \"%s\"", wrong[i].override, failed, e.text);
	}
}

static void a_delta_net_beyond_the_kernels_is_refused_before_anything_is_converted(void **state)
{
	(void)state;
	read_fixture_config("qwen3_5");
	assert_int_equal(cpu_backend.computes(&config, &e), 0);
	struct config large = config;
	large.delta_net.key_dim = DELTA_KEY_DIM + 1;
	assert_int_equal(cpu_backend.computes(&large, &e), -ENOTSUP);
	large = config;
	large.delta_net.width = CONV_WIDTH + 1;
	assert_int_equal(cpu_backend.computes(&large, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "delta nets"));
}

static void no_two_tensors_of_a_family_have_the_same_name_in_its_store(void **state)
{
	(void)state;
	static const char *const fixtures[] = {
		"qwen2_moe", "granitemoe", "mixtral", "olmoe",	    "qwen3_5_moe", "qwen3_next",
		"glm4_moe",  "minimax_m2", "gpt_oss", "gemma4_moe", "deepseek_v3",
		"smollm3",   "gemma3",     "phi3",
		"gemma4_ple"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		static char names[TENSOR_ROLES][256];
		if (!test_fixture(fixtures[i]))
			continue;
		read_fixture_config(fixtures[i]);
		for (uint32_t layer = 0; layer < config.layers + config.draft; layer++)
			for (int role = 0; role < TENSOR_ROLES; role++) {
				struct tensor_id id = {(enum tensor_role)role, layer, 2};
				names[role][0] = 0;
				if (!config_has_tensor(&config, id.role, layer) ||
				    (tensor_roles[role].place == PLACE_DRAFT && !config.draft))
					continue;
				assert_true(family_store_name(&config, id, names[role], 256));
				for (int before = 0; before < role; before++)
					assert_string_not_equal(names[before], names[role]);
			}
	}
}

/* ---- views ---- */

/* The rows that a view takes from a tensor, one after the other. */
static void assert_rows(const struct view *v, const uint64_t *want, size_t count)
{
	uint64_t run;
	for (size_t row = 0; row < count; row++) {
		assert_int_equal(view_row(v, row, &run), want[row]);
		assert_in_range(run, 1, count - row);
		for (uint64_t i = 0; i < run; i++)
			assert_int_equal(want[row + i], want[row] + i);
	}
}

static void fused_projections_are_taken_apart_head_by_head(void **state)
{
	(void)state;
	/* 2 key heads of 3, 4 value heads of 2: for each key head q q q k k k v v v v z z z z. */
	static const uint64_t qkv[] = {0,  1,  2, 14, 15, 16, 3,  4,  5,  17,
				       18, 19, 6, 7,  8,  9,  20, 21, 22, 23},
			      z[] = {10, 11, 12, 13, 24, 25, 26, 27}, b[] = {0, 1, 4, 5},
			      a[] = {2, 3, 6, 7};
	const struct config small = {.hidden_size = 5,
				     .delta_net = {.key_heads = 2,
						   .value_heads = 4,
						   .key_dim = 3,
						   .value_dim = 2,
						   .width = 4}};
	struct view v;
	view_qkvz_qkv(&v, &small, 0);
	assert_int_equal(v.shape[0], 28);
	assert_rows(&v, qkv, 20);
	view_qkvz_z(&v, &small, 0);
	assert_rows(&v, z, 8);
	view_ba_b(&v, &small, 0);
	assert_int_equal(v.shape[0], 8);
	assert_rows(&v, b, 4);
	view_ba_a(&v, &small, 0);
	assert_rows(&v, a, 4);
}

static void stacked_experts_lie_one_after_the_other_gate_above_up(void **state)
{
	(void)state;
	const struct config small = {.hidden_size = 3, .expert_size = 2, .experts = 4};
	static const uint64_t gate[] = {8, 9}, up[] = {10, 11}, down[] = {6, 7, 8};
	struct view v;
	view_stacked_gate(&v, &small, 2);
	assert_rows(&v, gate, 2);
	view_stacked_up(&v, &small, 2);
	assert_rows(&v, up, 2);
	view_stacked_down(&v, &small, 2);
	assert_rows(&v, down, 3);
	assert_int_equal(v.shape[0], 4);
	assert_int_equal(v.shape[1], 3);
	assert_int_equal(v.shape[2], 2);
}

static void assert_places(const struct view *v, size_t cols, const uint64_t (*want)[2])
{
	for (size_t i = 0; i < 2 * cols; i++) {
		struct view_place at = view_place(v, i / cols, i % cols);
		assert_int_equal(at.row, want[i][0]);
		assert_int_equal(at.column, want[i][1]);
	}
}

static void a_latents_projections_are_taken_apart_head_by_head(void **state)
{
	(void)state;
	/* 2 heads of keys of 2 and values of 1, a latent of 3: k k v k k v; keys lie across. */
	const struct config small = {.heads = 2, .latent = {.rank = 3, .nope = 2, .value = 1}};
	static const uint64_t keys[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2},
					   {3, 0}, {4, 0}, {3, 1}, {4, 1}, {3, 2}, {4, 2}},
			      values[] = {2, 5};
	struct view v;
	view_latent_keys(&v, &small, 0);
	assert_true(v.shape[0] == 6 && v.shape[1] == 3);
	for (uint64_t i = 0; i < 12; i++) {
		struct view_place at = view_place(&v, i / 2, i % 2);
		assert_int_equal(at.row, keys[i][0]);
		assert_int_equal(at.column, keys[i][1]);
	}
	view_latent_values(&v, &small, 0);
	assert_rows(&v, values, 2);
}

static void a_latent_beyond_the_kernels_is_refused_before_anything_is_converted(void **state)
{
	(void)state;
	read_fixture_config("deepseek_v3");
	assert_int_equal(cpu_backend.computes(&config, &e), 0);
	struct config changed = config;
	changed.latent.rank = LATENT_DIM + TILE_ROWS;
	assert_int_equal(cpu_backend.computes(&changed, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "latents"));
	changed.latent.rank = TILE_ROWS + 8; /* heads need be no whole tiles of rows */
	assert_int_equal(cpu_backend.computes(&changed, &e), 0);
	changed.ngrams.width = CONV_WIDTH + 1;
	assert_int_equal(cpu_backend.computes(&changed, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "n-grams"));
	changed.ngrams.width = 0;
	changed.chooser.interleaved = true;
	changed.rope[0].dim = 2 * INDEX_ROTATED + 2;
	assert_int_equal(cpu_backend.computes(&changed, &e), -ENOTSUP);
}

static void experts_may_lie_across_with_gate_and_up_in_turn(void **state)
{
	(void)state;
	const struct config small = {.hidden_size = 3, .expert_size = 2, .experts = 4};
	static const uint64_t gate[][2] = {{6, 0}, {7, 0}, {8, 0}, {6, 2}, {7, 2}, {8, 2}},
			      up[][2] = {{6, 1}, {7, 1}, {8, 1}, {6, 3}, {7, 3}, {8, 3}},
			      down[][2] = {{4, 0}, {5, 0}, {4, 1}, {5, 1}},
			      bias[][2] = {{0, 1}, {0, 3}, {1, 1}, {1, 3}};
	struct view v;
	view_across_gate(&v, &small, 2);
	assert_places(&v, 3, gate);
	assert_int_equal(v.shape[2], 4);
	view_across_up(&v, &small, 2);
	assert_places(&v, 3, up);
	view_across_down(&v, &small, 2);
	assert_places(&v, 2, down);
	assert_int_equal(v.shape[2], 3);
	view_turn_up_bias(&v, &small, 0);
	assert_places(&v, 2, bias);
}

/* ---- checkpoints ---- */

static int convert(const char *to)
{
	return test_convert(&conversion, source, to, NULL, 2, &e);
}

static void assert_converts(const char *to)
{
	if (convert(to))
		fail_msg("%s", e.text);
}

static void assert_same_file(const char *name)
{
	char path[128];
	size_t n, m;
	(void)snprintf(path, sizeof path, "%s/%s", store, name);
	uint8_t *one = test_file_read(path, &n);
	(void)snprintf(path, sizeof path, "%s/%s", other, name);
	uint8_t *two = test_file_read(path, &m);
	assert_int_equal(n, m);
	assert_memory_equal(one, two, n);
	free(one);
	free(two);
}

static void assert_same_stores(void)
{
	assert_same_file("experts.safetensors");
	assert_same_file("dense.safetensors");
}

static void the_fixtures_checkpoints_are_used_to_the_last_tensor(void **state)
{
	(void)state;
	static const char *const fixtures[] = {
		"qwen2_moe",   "granitemoe",	    "mixtral",	  "olmoe",    "qwen3_5",
		"qwen3_5_moe", "qwen3_5_moe_fused", "qwen3_next", "glm4_moe", "minimax_m2",
		"gpt_oss",     "gpt_oss_mxfp4",	    "gemma4_moe",
		/* recurrent: */
		"lfm2_moe",    "granitemoehybrid", "nemotron_h", "kimi_linear", "deepseek_v4"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		struct sources s;
		struct plan p;
		struct recipe r;
		uint32_t routed = 0;
		if (!test_fixture(fixtures[i]))
			continue;
		read_fixture_config(fixtures[i]);
		assert_int_equal(recipe_find(&r, NULL, &e), 0);
		if (sources_open(&s, test_fixture(fixtures[i]), &config, &e))
			fail_msg("%s", e.text);
		bool drafts = !strncmp(fixtures[i], "qwen3_5", 7);
		assert_int_equal(s.draft, drafts);
		r.draft = s.draft;
		assert_int_equal(plan_make(&p, &config, &r, &e), 0);
		if (sources_check(&s, &p, &e))
			fail_msg("%s: %s", fixtures[i], e.text);
		assert_int_equal(p.layers, config.layers + drafts);
		for (uint32_t layer = 0; layer < p.layers; layer++)
			routed += config_routed(&config, layer);
		assert_int_equal(p.routed_layers, routed);
		plan_free(&p);
		sources_close(&s);
	}
}

static int check_source(void)
{
	struct sources s;
	struct plan p;
	struct recipe r;
	assert_int_equal(recipe_find(&r, NULL, &e), 0);
	assert_int_equal(plan_make(&p, &config, &r, &e), 0);
	assert_int_equal(sources_open(&s, source, &config, &e), 0);
	int failed = sources_check(&s, &p, &e);
	sources_close(&s);
	plan_free(&p);
	return failed;
}

/* Only for layers that the config counts as draft layers. */
static void a_draft_layer_that_is_not_computed_is_left_out_by_its_name(void **state)
{
	(void)state;
	read_fixture("glm4_moe");
	assert_int_equal(config.layers, 3);
	test_tensor_copy(&c, "model.norm.weight", "model.layers.3.enorm.weight");
	test_tensor_copy(&c, "lm_head.weight", "model.layers.3.shared_head.head.weight");
	test_checkpoint_make(&c, "glm4_moe", source);
	assert_int_equal(check_source(), 0);
	test_tensor_copy(&c, "model.norm.weight", "model.layers.4.enorm.weight");
	test_checkpoint_make(&c, "glm4_moe", source);
	assert_int_equal(check_source(), -EINVAL);
	assert_non_null(strstr(e.text, "model.layers.4.enorm.weight"));
}

/* Only where a list takes the place of the choice. */
static void a_correction_beside_a_list_is_left_out(void **state)
{
	(void)state;
	read_fixture("deepseek_v4");
	test_tensor_copy(&c, "layers.1.ffn.gate.bias", "layers.0.ffn.gate.bias");
	test_checkpoint_make(&c, "deepseek_v4", source);
	assert_int_equal(check_source(), 0);
	test_tensor_remove(&c, "layers.1.ffn.gate.bias");
	test_checkpoint_make(&c, "deepseek_v4", source);
	assert_int_equal(check_source(), -ENOENT);
	assert_non_null(strstr(e.text, "layers.1.ffn.gate.bias"));
}

static void stacked_experts_make_the_store_of_single_ones(void **state)
{
	(void)state;
	read_fixture("qwen3_5_moe");
	test_checkpoint_make(&c, "qwen3_5_moe", source);
	assert_converts(store);
	test_checkpoint_free(&c);
	read_fixture("qwen3_5_moe_fused");
	test_checkpoint_make(&c, "qwen3_5_moe_fused", source);
	assert_converts(other);
	assert_same_stores();
}

/* Rows of a fused tensor as a separate tensor. */
static void take_rows(const char *fused, const char *as, const uint64_t *rows, size_t count)
{
	test_tensor_copy(&c, fused, as);
	const struct test_tensor *from = test_tensor_find(&c, fused);
	struct test_tensor *to = test_tensor_find(&c, as);
	size_t bytes = from->bytes / from->shape[0];
	for (size_t i = 0; i < count; i++)
		memcpy(to->data + i * bytes, from->data + rows[i] * bytes, bytes);
	to->shape[0] = count;
	to->bytes = count * bytes;
}

/* As in transformers: for each key head its queries, keys, values and z. */
static void unfuse_layer(uint32_t layer)
{
	const struct delta_net *n = &config.delta_net;
	uint32_t value = n->value_heads / n->key_heads * n->value_dim,
		 each = n->value_heads / n->key_heads;
	uint64_t rows[4][512];
	size_t count[4] = {0};
	const uint32_t sizes[4] = {n->key_dim, n->key_dim, value, value};
	char fused[128], name[128];
	uint64_t next = 0;
	for (uint32_t head = 0; head < n->key_heads; head++)
		for (int part = 0; part < 4; part++)
			for (uint32_t i = 0; i < sizes[part]; i++)
				rows[part][count[part]++] = next++;
	memcpy(rows[0] + count[0], rows[1], count[1] * sizeof **rows);
	memcpy(rows[0] + count[0] + count[1], rows[2], count[2] * sizeof **rows);
	(void)snprintf(fused, sizeof fused, "model.layers.%u.linear_attn.in_proj_qkvz.weight",
		       layer);
	(void)snprintf(name, sizeof name, "model.layers.%u.linear_attn.in_proj_qkv.weight", layer);
	take_rows(fused, name, rows[0], count[0] + count[1] + count[2]);
	(void)snprintf(name, sizeof name, "model.layers.%u.linear_attn.in_proj_z.weight", layer);
	take_rows(fused, name, rows[3], count[3]);
	test_tensor_remove(&c, fused);
	for (uint32_t i = 0; i < n->value_heads; i++) {
		rows[0][i] = i / each * 2 * each + i % each;
		rows[1][i] = rows[0][i] + each;
	}
	(void)snprintf(fused, sizeof fused, "model.layers.%u.linear_attn.in_proj_ba.weight", layer);
	(void)snprintf(name, sizeof name, "model.layers.%u.linear_attn.in_proj_b.weight", layer);
	take_rows(fused, name, rows[0], n->value_heads);
	(void)snprintf(name, sizeof name, "model.layers.%u.linear_attn.in_proj_a.weight", layer);
	take_rows(fused, name, rows[1], n->value_heads);
	test_tensor_remove(&c, fused);
}

static void fused_projections_make_the_store_of_single_ones(void **state)
{
	(void)state;
	read_fixture("qwen3_next");
	test_checkpoint_make(&c, "qwen3_next", source);
	assert_converts(store);
	for (uint32_t layer = 0; layer < config.layers; layer++)
		if (config.layer[layer].mixer == MIXER_DELTA_NET)
			unfuse_layer(layer);
	test_checkpoint_make(&c, "qwen3_next", source);
	assert_converts(other);
	assert_same_stores();
}

static void write_text_config(const char *fixture)
{
	char path[512];
	struct json_object *text, *whole;
	(void)snprintf(path, sizeof path, "%s/config.json", test_fixture(fixture));
	whole = json_object_from_file(path);
	assert_true(json_object_object_get_ex(whole, "text_config", &text));
	const char *bytes = json_object_to_json_string(text);
	(void)snprintf(path, sizeof path, "%s/config.json", source);
	test_file_write(path, bytes, strlen(bytes));
	json_object_put(whole);
}

static void a_checkpoint_of_the_text_part_alone_makes_the_same_store(void **state)
{
	(void)state;
	static const char nested[] = "model.language_model.", plain[] = "model.";
	read_fixture("qwen3_5");
	test_checkpoint_make(&c, "qwen3_5", source);
	assert_converts(store);
	test_tensor_remove(&c, "model.visual.patch_embed.proj.bias");
	for (size_t i = 0; i < c.count; i++) {
		char *name = c.tensors[i].name, *rest = name + sizeof nested - 1;
		if (!strncmp(name, nested, sizeof nested - 1))
			memmove(name + sizeof plain - 1, rest, strlen(rest) + 1);
	}
	test_checkpoint_make(&c, "qwen3_5", source);
	write_text_config("qwen3_5");
	assert_converts(other);
	assert_string_equal(conversion.config.model_type, "qwen3_5_text");
	assert_same_stores();
}

static void vision_tensors_are_skipped_by_name_and_no_others(void **state)
{
	(void)state;
	static const char *const names[] = {"model.vision.x", "visual.x", "mtp_x",
					    "model.language_model.visual.x",
					    "model.layers.0.input_layernorm.weight"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		read_fixture("qwen3_5");
		test_tensor_copy(&c, "model.visual.patch_embed.proj.bias", names[i]);
		test_checkpoint_make(&c, "qwen3_5", source);
		assert_int_equal(convert(store), -EINVAL);
		assert_non_null(strstr(e.text, names[i]));
		test_checkpoint_free(&c);
	}
}

/* ---- drafts ---- */

static void remove_draft(void)
{
	for (size_t i = c.count; i-- > 0;)
		if (!strncmp(c.tensors[i].name, "mtp.", 4))
			test_tensor_remove(&c, c.tensors[i].name);
}

static void recipe_of_store(struct recipe *r)
{
	struct store *s;
	assert_int_equal(store_open(&s, store, NULL, &e), 0);
	assert_true(recipe_from_text(r, store_info(s)->key.recipe));
	store_close(s);
}

static void a_draft_that_is_wholly_absent_is_not_missed(void **state)
{
	(void)state;
	struct recipe r;
	for (int absent = 0; absent < 2; absent++) {
		read_fixture("qwen3_5_moe");
		if (absent)
			remove_draft();
		test_checkpoint_make(&c, "qwen3_5_moe", source);
		assert_converts(store);
		recipe_of_store(&r);
		assert_int_equal(r.draft, !absent);
		test_folder_remove(store);
		test_checkpoint_free(&c);
	}
}

static void the_missing_tensor_of_a_partial_draft_layer_is_named(void **state)
{
	(void)state;
	static const char *const names[] = {"mtp.fc.weight",
					    "mtp.norm.weight",
					    "mtp.pre_fc_norm_hidden.weight",
					    "mtp.layers.0.self_attn.q_norm.weight",
					    "mtp.layers.0.mlp.shared_expert_gate.weight",
					    "mtp.layers.0.mlp.experts.gate_up_proj"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		read_fixture("qwen3_5_moe");
		test_tensor_remove(&c, names[i]);
		test_checkpoint_make(&c, "qwen3_5_moe", source);
		assert_int_equal(convert(store), -ENOENT);
		if (!strstr(e.text, names[i]))
			fail_msg("%s: %s", names[i], e.text);
		test_checkpoint_free(&c);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_spelling_of_a_config_is_the_same_model),
		TEST(qwen2_moe_has_a_shared_expert_in_its_routed_layers),
		TEST(granitemoe_has_multipliers_and_weighs_the_chosen_experts_alone),
		TEST(mixtral_always_normalises_and_may_have_windows),
		TEST(olmoe_has_norms_over_all_heads_together),
		TEST(the_hybrids_name_the_mixer_of_each_layer),
		TEST(an_interval_says_the_same_as_a_list_of_mixers),
		TEST(what_a_hybrid_says_that_is_not_so_is_refused_by_its_key),
		TEST(a_delta_net_beyond_the_kernels_is_refused_before_anything_is_converted),
		TEST(no_two_tensors_of_a_family_have_the_same_name_in_its_store),
		TEST(fused_projections_are_taken_apart_head_by_head),
		TEST(stacked_experts_lie_one_after_the_other_gate_above_up),
		TEST(a_latents_projections_are_taken_apart_head_by_head),
		TEST(a_latent_beyond_the_kernels_is_refused_before_anything_is_converted),
		TEST(experts_may_lie_across_with_gate_and_up_in_turn),
		TEST(the_fixtures_checkpoints_are_used_to_the_last_tensor),
		TEST(a_draft_layer_that_is_not_computed_is_left_out_by_its_name),
		TEST(a_correction_beside_a_list_is_left_out),
		TEST(stacked_experts_make_the_store_of_single_ones),
		TEST(fused_projections_make_the_store_of_single_ones),
		TEST(a_checkpoint_of_the_text_part_alone_makes_the_same_store),
		TEST(vision_tensors_are_skipped_by_name_and_no_others),
		TEST(a_draft_that_is_wholly_absent_is_not_missed),
		TEST(the_missing_tensor_of_a_partial_draft_layer_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
