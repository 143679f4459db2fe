/* config.json and generation_config.json: published ones are read; a key that this program does
 * not compute, or an absurd value, is an error that names the key. */
#include "engine/family/config.h"
#include "golden.h"
#include "store_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

/* Overrides are appended: the last of several keys of the same name counts, and null stands for a
 * key that is not there. */
static const char older[] = "\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048,"
			    "\"num_hidden_layers\": 6, \"vocab_size\": 1000,"
			    "\"max_position_embeddings\": 40960, \"num_attention_heads\": 32,"
			    "\"num_key_value_heads\": 4, \"head_dim\": 128,"
			    "\"intermediate_size\": 6144, \"moe_intermediate_size\": 768,"
			    "\"num_experts\": 128, \"num_experts_per_tok\": 8,"
			    "\"norm_topk_prob\": true, \"rope_theta\": 1000000,"
			    "\"rope_scaling\": null, \"torch_dtype\": \"bfloat16\"";
static const char newer[] = "\"num_experts\": null, \"num_local_experts\": 128,"
			    "\"rope_theta\": null, \"torch_dtype\": null, \"dtype\": \"bfloat16\","
			    "\"rope_parameters\": {\"rope_theta\": 1000000.0, "
			    "\"rope_type\": \"default\"}";

static struct config c;
static struct err e;

static int parse(const char *overrides)
{
	char text[4096];
	int n = snprintf(text, sizeof text, "{%s%s%s}", older, *overrides ? "," : "", overrides);
	e = (struct err){0};
	return config_parse(&c, text, (size_t)n, "config.json", &e);
}

static void assert_parses(const char *overrides)
{
	if (parse(overrides))
		fail_msg("%s: %s", overrides, e.text);
}

/* The error has this code, names the file and contains `word`. */
static void assert_refused(const char *overrides, int code, const char *word)
{
	int failed = parse(overrides);
	if (failed != -code || !strstr(e.text, word) || !strstr(e.text, "config.json"))
		fail_msg("%s: gave %d, \"%s\"", overrides, failed, e.text);
}

static int parse_generation(const char *text)
{
	e = (struct err){0};
	assert_parses("");
	return config_parse_generation(&c, text, strlen(text), "generation_config.json", &e);
}

/* ---- valid configs ---- */

static void assert_is_the_routed_model(void)
{
	assert_string_equal(c.model_type, "qwen3_moe");
	assert_int_equal(c.hidden_size, 2048);
	assert_int_equal(c.layers, 6);
	assert_int_equal(c.vocabulary, 1000);
	assert_int_equal(c.max_positions, 40960);
	assert_int_equal(c.heads, 32);
	assert_int_equal(c.kv_heads, 4);
	assert_int_equal(c.head_dim, 128);
	assert_int_equal(c.intermediate_size, 6144);
	assert_int_equal(c.experts, 128);
	assert_int_equal(c.experts_per_token, 8);
	assert_int_equal(c.expert_size, 768);
	assert_true(c.normalise_top_k);
	assert_true(c.rope[0].theta == 1e6);
	for (uint32_t layer = 0; layer < c.layers; layer++)
		assert_true(config_routed(&c, layer));
}

static void the_older_and_the_newer_form_say_the_same(void **state)
{
	(void)state;
	assert_parses("");
	assert_is_the_routed_model();
	assert_parses(newer);
	assert_is_the_routed_model();
}

static void missing_keys_have_the_familys_defaults(void **state)
{
	(void)state;
	assert_parses("\"num_key_value_heads\": null, \"head_dim\": null, \"norm_topk_prob\": null,"
		      "\"rms_norm_eps\": null, \"tie_word_embeddings\": null");
	assert_int_equal(c.kv_heads, 32);
	assert_int_equal(c.head_dim, 64);
	assert_false(c.normalise_top_k);
	assert_true(c.rms_eps == 1e-6f);
	assert_false(c.tied_head);
	assert_int_equal(c.generation.end_count, 0);
}

static void dense_layers_among_routed_ones_are_seen(void **state)
{
	(void)state;
	assert_parses("\"mlp_only_layers\": [0, 4]");
	for (uint32_t layer = 0; layer < 6; layer++)
		assert_int_equal(config_routed(&c, layer), layer != 0 && layer != 4);
	assert_parses("\"decoder_sparse_step\": 3");
	for (uint32_t layer = 0; layer < 6; layer++)
		assert_int_equal(config_routed(&c, layer), layer == 2 || layer == 5);
	assert_false(config_has_tensor(&c, TENSOR_ROUTER, 0));
	assert_true(config_has_tensor(&c, TENSOR_GATE, 0));
	assert_true(config_has_tensor(&c, TENSOR_ROUTER, 2));
	assert_false(config_has_tensor(&c, TENSOR_GATE, 2));
}

static void a_dense_model_needs_no_key_of_a_routed_one(void **state)
{
	(void)state;
	assert_parses("\"model_type\": \"qwen2\", \"num_experts\": null,"
		      "\"num_experts_per_tok\": null, \"moe_intermediate_size\": null");
	assert_false(config_routed(&c, 0));
	assert_int_equal(c.experts, 0);
	assert_true(config_has_tensor(&c, TENSOR_Q_BIAS, 0));
	assert_false(config_has_tensor(&c, TENSOR_O_BIAS, 0));
	assert_false(config_has_tensor(&c, TENSOR_Q_NORM, 0));
}

static void the_fixtures_read_as_they_were_made(void **state)
{
	(void)state;
	static const struct {
		const char *fixture;
		uint32_t hidden, layers, head_dim, experts;
		bool tied;
	} fixtures[] = {{"fixtures/qwen2", 64, 2, 16, 0, true},
			{"fixtures/qwen3", 64, 2, 32, 0, false},
			{"fixtures/qwen3_moe", 128, 3, 32, 16, false}};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		if (config_read(&c, test_data(fixtures[i].fixture), &e))
			fail_msg("%s", e.text);
		assert_int_equal(c.hidden_size, fixtures[i].hidden);
		assert_int_equal(c.layers, fixtures[i].layers);
		assert_int_equal(c.head_dim, fixtures[i].head_dim);
		assert_int_equal(c.experts, fixtures[i].experts);
		assert_int_equal(c.tied_head, fixtures[i].tied);
		assert_int_equal(c.generation.top_k, 20);
		assert_int_equal(c.generation.end_count, 2);
		assert_int_equal(c.generation.end_tokens[0], 383);
		assert_int_equal(c.generation.end_tokens[1], 381);
	}
}

/* ---- configs of published models ---- */

static int parse_shared(const char *name)
{
	char path[128], text[32768];
	(void)snprintf(path, sizeof path, "configs/%s.config.json", name);
	const char *found = shared_data(path);
	if (!found)
		skip();
	FILE *f = fopen(found, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof text, f);
	(void)fclose(f);
	e = (struct err){0};
	return config_parse(&c, text, n, found, &e);
}

static void the_published_configs_of_known_families_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *name, *type;
		uint32_t hidden, layers, heads, kv_heads, head_dim, experts, top_k, vocabulary, end;
		bool tied;
	} known[] = {
		{"Qwen2.5-0.5B-Instruct", "qwen2", 896, 24, 14, 2, 64, 0, 0, 151936, 151645, true},
		{"Qwen3-0.6B", "qwen3", 1024, 28, 16, 8, 128, 0, 0, 151936, 151645, true},
		{"Qwen3-30B-A3B", "qwen3_moe", 2048, 48, 32, 4, 128, 128, 8, 151936, 151645, false},
		{"Qwen3-Coder-30B-A3B-Instruct", "qwen3_moe", 2048, 48, 32, 4, 128, 128, 8, 151936,
		 151645, false},
		{"granite-3.1-1b-a400m-instruct", "granitemoe", 1024, 24, 16, 8, 64, 32, 8, 49155,
		 0, true},
		{"Mixtral-8x7B", "mixtral", 4096, 32, 32, 8, 128, 8, 2, 32000, 2, false},
		{"Qwen3.6-35B-A3B", "qwen3_5_moe", 2048, 40, 16, 2, 256, 256, 8, 248320, 248044,
		 false},
		{"Qwen3.8-27B.BigBIueWhale", "qwen3_5", 5120, 64, 24, 4, 256, 0, 0, 248320, 248044,
		 false},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (parse_shared(known[i].name))
			fail_msg("%s", e.text);
		assert_string_equal(c.model_type, known[i].type);
		assert_int_equal(c.hidden_size, known[i].hidden);
		assert_int_equal(c.layers, known[i].layers);
		assert_int_equal(c.heads, known[i].heads);
		assert_int_equal(c.kv_heads, known[i].kv_heads);
		assert_int_equal(c.head_dim, known[i].head_dim);
		assert_int_equal(c.experts, known[i].experts);
		assert_int_equal(c.experts_per_token, known[i].top_k);
		assert_int_equal(c.vocabulary, known[i].vocabulary);
		assert_int_equal(c.tied_head, known[i].tied);
		assert_int_equal(c.generation.end_count, 1);
		assert_int_equal(c.generation.end_tokens[0], known[i].end);
	}
}

static void a_published_config_without_a_needed_number_is_refused_by_its_key(void **state)
{
	(void)state;
	assert_int_equal(parse_shared("OLMoE-1B-7B"),
			 -EINVAL); /* the known part of it lacks keys */
	assert_non_null(strstr(e.text, "max_position_embeddings"));
}

/* ---- refused configs ---- */

static void what_is_not_computed_is_refused_by_its_key(void **state)
{
	(void)state;
	static const char *const unsupported[][2] = {
		{"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}", "yarn"},
		{"\"rope_scaling\": {\"rope_type\": \"linear\"}", "rope_type"},
		{"\"rope_parameters\": {\"rope_theta\": 1e6, \"rope_type\": \"yarn\"}", "yarn"},
		{"\"rope_parameters\": {\"rope_theta\": 1e6, \"type\": \"yarn\"}", "yarn"},
		{"\"rope_parameters\": {\"rope_theta\": 1e6, \"partial_rotary_factor\": 0.5}",
		 "partial_rotary_factor"},
		{"\"partial_rotary_factor\": 0.25", "partial_rotary_factor"},
		{"\"rope_parameters\": {\"rope_theta\": 1e6}, \"partial_rotary_factor\": 0.25",
		 "partial_rotary_factor"},
		{"\"use_sliding_window\": true", "use_sliding_window"},
		{"\"layer_types\": [\"full_attention\", \"sliding_attention\"]", "layer_types"},
		{"\"hidden_act\": \"gelu\"", "hidden_act"},
		{"\"quantization_config\": {\"bits\": 4}", "quantization_config"},
		{"\"quantization\": {\"bits\": 4}", "quantization"},
		{"\"model_type\": \"qwen3_5_moe\", \"text_config\": {\"quantization\": {}}",
		 "quantization"},
		{"\"model_type\": \"gpt2\"", "gpt2"},
	};
	for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
		assert_refused(unsupported[i][0], ENOTSUP, unsupported[i][1]);
}

static void absurd_numbers_are_refused_by_their_key(void **state)
{
	(void)state;
	static const char *const keys[] = {"hidden_size",
					   "num_hidden_layers",
					   "vocab_size",
					   "max_position_embeddings",
					   "num_attention_heads",
					   "num_key_value_heads",
					   "head_dim",
					   "intermediate_size",
					   "num_experts",
					   "num_experts_per_tok",
					   "moe_intermediate_size"};
	static const char *const values[] = {"0",   "-1",    "4294967296", "99999999999999999999",
					     "1.5", "\"8\"", "[8]",	   "{}",
					     "true"};
	char text[128];
	for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
		for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
			(void)snprintf(text, sizeof text, "\"%s\": %s", keys[k], values[v]);
			assert_refused(text, EINVAL, keys[k]);
		}
}

static void what_does_not_fit_together_is_refused(void **state)
{
	(void)state;
	static const char *const wrong[][2] = {
		{"\"num_key_value_heads\": 5", "num_key_value_heads"},
		{"\"num_key_value_heads\": 64", "num_key_value_heads"},
		{"\"head_dim\": 63", "63"},
		{"\"head_dim\": null, \"hidden_size\": 16", "head dim"},
		{"\"num_attention_heads\": 4096, \"head_dim\": 4096", "4096 heads of 4096"},
		{"\"num_experts\": 4", "8 experts per token"},
		{"\"num_hidden_layers\": 1025", "num_hidden_layers"},
		{"\"mlp_only_layers\": [1024]", "mlp_only_layers"},
		{"\"mlp_only_layers\": [-1]", "mlp_only_layers"},
		{"\"mlp_only_layers\": 3", "mlp_only_layers"},
		{"\"decoder_sparse_step\": 0", "decoder_sparse_step"},
		{"\"rope_theta\": null", "rope_theta"},
		{"\"rope_theta\": 0", "rope_theta"},
		{"\"rope_theta\": \"10000\"", "rope_theta"},
		{"\"rope_parameters\": 3", "rope_parameters"},
		{"\"rope_parameters\": {}", "rope_theta"},
		{"\"rms_norm_eps\": -1", "rms_norm_eps"},
		{"\"rms_norm_eps\": 2", "rms_norm_eps"},
		{"\"tie_word_embeddings\": 1", "tie_word_embeddings"},
		{"\"attention_bias\": \"no\"", "attention_bias"},
		{"\"norm_topk_prob\": 1", "norm_topk_prob"},
		{"\"hidden_act\": 3", "hidden_act"},
		{"\"layer_types\": [3]", "layer_types"},
		{"\"model_type\": null", "model_type"},
		{"\"model_type\": 3", "model_type"},
		{"\"eos_token_id\": -1", "eos_token_id"},
		{"\"eos_token_id\": [1, \"2\"]", "eos_token_id"},
		{"\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "end tokens"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_refused(wrong[i][0], EINVAL, wrong[i][1]);
}

static void what_is_no_object_is_refused(void **state)
{
	(void)state;
	static const char *const texts[] = {"",
					    "[]",
					    "3",
					    "null",
					    "\"x\"",
					    "{",
					    "{\"model_type\":",
					    "{\"model_type\": \"qwen2\"} x",
					    "\xff\xfe"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(config_parse(&c, texts[i], strlen(texts[i]), "config.json", &e),
				 -EINVAL);
		assert_non_null(strstr(e.text, "config.json"));
		assert_int_equal(
			config_parse_generation(&c, texts[i], strlen(texts[i]), "config.json", &e),
			-EINVAL);
	}
}

/* ---- generation_config.json ---- */

static void without_sampling_a_model_is_greedy(void **state)
{
	(void)state;
	assert_int_equal(parse_generation("{}"), 0);
	assert_true(c.generation.temperature == 0);
	assert_int_equal(parse_generation("{\"do_sample\": false, \"temperature\": 0.7}"), 0);
	assert_true(c.generation.temperature == 0);
	assert_true(c.generation.top_p == 1);
	assert_int_equal(c.generation.top_k, 0);
}

static void sampling_has_the_files_numbers_or_the_usual_ones(void **state)
{
	(void)state;
	assert_int_equal(parse_generation("{\"do_sample\": true, \"temperature\": 0.7,"
					  "\"top_p\": 0.8, \"top_k\": 20, \"max_new_tokens\": 99}"),
			 0);
	assert_true(c.generation.temperature == 0.7 && c.generation.top_p == 0.8);
	assert_int_equal(c.generation.top_k, 20);
	assert_int_equal(c.generation.max_new_tokens, 99);
	assert_int_equal(parse_generation("{\"do_sample\": true}"), 0);
	assert_true(c.generation.temperature == 1 && c.generation.top_p == 1);
	assert_int_equal(c.generation.top_k, 50);
	assert_int_equal(c.generation.max_new_tokens, 0);
}

static void end_tokens_of_both_files_count_once_each(void **state)
{
	(void)state;
	static const char generation[] = "{\"eos_token_id\": [7, 5, 9]}",
			  one[] = "{\"eos_token_id\": 6}";
	assert_parses("\"eos_token_id\": 5");
	assert_int_equal(config_parse_generation(&c, generation, strlen(generation), "g", &e), 0);
	assert_int_equal(c.generation.end_count, 3);
	assert_int_equal(c.generation.end_tokens[0], 5);
	assert_int_equal(c.generation.end_tokens[1], 7);
	assert_int_equal(c.generation.end_tokens[2], 9);
	assert_int_equal(config_parse_generation(&c, one, strlen(one), "g", &e), 0);
	assert_int_equal(c.generation.end_tokens[3], 6);
}

static void wrong_generation_values_are_refused_by_their_key(void **state)
{
	(void)state;
	static const char *const wrong[][2] = {
		{"{\"do_sample\": 1}", "do_sample"},
		{"{\"do_sample\": true, \"temperature\": -1}", "temperature"},
		{"{\"do_sample\": true, \"temperature\": \"hot\"}", "temperature"},
		{"{\"do_sample\": true, \"top_p\": 1.5}", "top_p"},
		{"{\"do_sample\": true, \"top_k\": -1}", "top_k"},
		{"{\"max_new_tokens\": 1e3}", "max_new_tokens"},
		{"{\"eos_token_id\": {}}", "eos_token_id"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(parse_generation(wrong[i][0]), -EINVAL);
		if (!strstr(e.text, wrong[i][1]))
			fail_msg("%s", e.text);
	}
}

/* ---- files ---- */

static void write_text(const char *folder, const char *name, const char *text)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void the_second_file_may_be_missing_but_not_wrong(void **state)
{
	(void)state;
	char folder[32], text[4096];
	test_folder_make(folder);
	assert_int_equal(config_read(&c, folder, &e), -ENOENT);
	assert_non_null(strstr(e.text, "config.json"));
	(void)snprintf(text, sizeof text, "{%s}", older);
	write_text(folder, "config.json", text);
	assert_int_equal(config_read(&c, folder, &e), 0);
	write_text(folder, "generation_config.json", "{");
	assert_int_equal(config_read(&c, folder, &e), -EINVAL);
	assert_non_null(strstr(e.text, "generation_config.json"));
	test_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_older_and_the_newer_form_say_the_same),
		cmocka_unit_test(missing_keys_have_the_familys_defaults),
		cmocka_unit_test(dense_layers_among_routed_ones_are_seen),
		cmocka_unit_test(a_dense_model_needs_no_key_of_a_routed_one),
		cmocka_unit_test(the_fixtures_read_as_they_were_made),
		cmocka_unit_test(the_published_configs_of_known_families_are_read),
		cmocka_unit_test(a_published_config_without_a_needed_number_is_refused_by_its_key),
		cmocka_unit_test(what_is_not_computed_is_refused_by_its_key),
		cmocka_unit_test(absurd_numbers_are_refused_by_their_key),
		cmocka_unit_test(what_does_not_fit_together_is_refused),
		cmocka_unit_test(what_is_no_object_is_refused),
		cmocka_unit_test(without_sampling_a_model_is_greedy),
		cmocka_unit_test(sampling_has_the_files_numbers_or_the_usual_ones),
		cmocka_unit_test(end_tokens_of_both_files_count_once_each),
		cmocka_unit_test(wrong_generation_values_are_refused_by_their_key),
		cmocka_unit_test(the_second_file_may_be_missing_but_not_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
