/* GGUF files of recurrent and choosing families: what they say of their layers is checked before it is
 * used, quantised ones are computed with in place, and what they cannot say is the published
 * model's. */
#include "checkpoint_help.h"
#include "engine/family/config.h"
#include "gguf_convert.h"
#include "golden_run.h"
#include "store_help.h"

#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *fixture, *architecture;
} families[] = {
	{"lfm2_moe", "lfm2moe"},      {"granitemoehybrid", "granitehybrid"},
	{"nemotron_h", "nemotron_h_moe"}, {"kimi_linear", "kimi-linear"},
	{"glm_moe_dsa", "glm-dsa"},   {"glm5_next", "glm5-next"},
	{"qwen4_exp", "qwen4exp"},      {"deepseek_v4", "deepseek4"},
};
enum { FAMILIES = sizeof families / sizeof *families };

static void convert(int family, const char *type, void (*change)(struct test_gguf *g),
		    char path[512])
{
	struct gguf_conversion c = {.fixture = families[family].fixture,
				    .architecture = families[family].architecture,
				    .type = type,
				    .change = change};
	test_gguf_convert(&c, test_folder, families[family].architecture, path);
}

/* ---- computing ---- */

static void quantised_files_are_computed_with_in_place(void **state)
{
	(void)state;
	for (int i = 0; i < FAMILIES; i++) {
		char path[512], golden[600], recipe[128];
		struct golden_bench b;
		if (!test_fixture(families[i].fixture))
			continue;
		convert(i, "Q8_0", NULL, path);
		(void)snprintf(golden, sizeof golden, "%s/golden.safetensors",
			       test_fixture(families[i].fixture));
		golden_bench_open(&b, path, golden,
				  &(struct engine_options){.threads = 2, .store = test_folder});
		struct golden_run r = golden_run_make(&b);
		double error = golden_logits_error(&b, &r);
		printf("%s: logits off by %.1e of their power\n", families[i].architecture, error);
		assert_int_equal(model_fact(b.model, FACT_RECIPE, recipe, sizeof recipe), 0);
		assert_string_equal(recipe, "as published: GGUF, in place");
		assert_true(error < .3); /* random weights choose others now and then; 2 without sense */
		golden_run_free(&r);
		golden_bench_close(&b);
	}
}

/* MiniMax M3: the file has no limit of gated units, and 7 is the published model's. */
static void what_a_file_cannot_say_is_as_in_the_published_model(void **state)
{
	(void)state;
	char at[64], path[512], golden[600];
	struct test_checkpoint c;
	if (!test_fixture("minimax_m3"))
		skip();
	(void)snprintf(at, sizeof at, "%s/minimax", test_folder);
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", test_fixture("minimax_m3"));
	test_checkpoint_read(&c, "minimax_m3");
	test_checkpoint_make(&c, "minimax_m3", at);
	test_checkpoint_free(&c);
	(void)snprintf(path, sizeof path, "%s/config.json", at);
	struct json_object *all = json_object_from_file(path), *text = NULL;
	assert_true(all && json_object_object_get_ex(all, "text_config", &text));
	json_object_object_add(text, "swiglu_limit", json_object_new_int(7));
	assert_int_equal(json_object_to_file(path, all), 0);
	json_object_put(all);
	test_gguf_convert(&(struct gguf_conversion){.fixture = "minimax_m3",
						    .architecture = "minimax-m3",
						    .type = "BF16"},
			  test_folder, "minimax", path);
	const char *models[] = {at, path};
	struct golden_run runs[2];
	for (int i = 0; i < 2; i++) {
		struct golden_bench b;
		golden_bench_open(&b, models[i], golden,
				  &(struct engine_options){
					  .quant = "bf16", .threads = 2, .store = test_folder});
		runs[i] = golden_run_make(&b);
		golden_bench_close(&b);
	}
	golden_assert_same_bits(&runs[0], &runs[1]);
	golden_run_free(&runs[0]);
	golden_run_free(&runs[1]);
}

/* ---- what a file says ---- */

/* Writes over the bytes of a key's value, from byte `at` of it on: an array begins with its kind and
 * its count. */
static void patch(struct test_gguf *g, const char *key, size_t at, const void *bytes, size_t n)
{
	uint8_t *found = memmem(g->key_bytes.bytes, g->key_bytes.count, key, strlen(key));
	assert_non_null(found);
	memcpy(found + strlen(key) + 4 + at, bytes, n);
}

enum { ARRAY = 4 + 8 };

static void a_head_apart(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.head_offsets", ARRAY + 8, &(uint64_t){308}, 8);
}
static void a_prime_of_none(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.head_vocab_sizes", ARRAY + 7 * 8, &(uint64_t){0}, 8);
}
static void more_rows_than_there_are(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.head_vocab_sizes", ARRAY + 7 * 8, &(uint64_t){999}, 8);
}
static void longer_grams(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.ngram_size", 0, &(uint32_t){4}, 4);
}
static void grams_of_none(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.ngram_size", 0, &(uint32_t){0}, 4);
}
static void a_layer_beyond(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.layers", ARRAY, &(uint32_t){5}, 4);
}
static void grams_in_attention(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.layers", ARRAY, &(uint32_t){2}, 4);
}
static void many_layers(struct test_gguf *g)
{
	patch(g, "qwen4exp.block_count", 0, &(uint32_t){4000000000}, 4);
}
static void an_end_beyond(struct test_gguf *g)
{
	patch(g, "qwen4exp.ple.eos_token_id", 0, &(uint32_t){384}, 4);
}
static void two_limits(struct test_gguf *g)
{
	patch(g, "glm5-next.swiglu_clamp_shexp", ARRAY + 4, &(float){2}, 4);
}
static void another_epsilon(struct test_gguf *g)
{
	patch(g, "glm5-next.attention.layer_norm_epsilon", 0, &(float){1e-5F}, 4);
}
static void a_first_layer_that_shares(struct test_gguf *g)
{
	patch(g, "glm-dsa.attention.indexer.types", ARRAY, &(uint8_t){0}, 1);
}
static void a_part_of_a_head(struct test_gguf *g)
{
	patch(g, "granitehybrid.ssm.inner_size", 0, &(uint32_t){129}, 4);
}
static void no_heads(struct test_gguf *g)
{
	patch(g, "nemotron_h_moe.ssm.time_step_rank", 0, &(uint32_t){0}, 4);
}
static void another_router(struct test_gguf *g)
{
	patch(g, "lfm2moe.expert_gating_func", 0, &(uint32_t){1}, 4);
}
static void a_layer_without_convolutions(struct test_gguf *g)
{
	patch(g, "lfm2moe.attention.head_count_kv", ARRAY, &(int32_t){2}, 4);
}
static void two_sizes_of_entries(struct test_gguf *g)
{
	patch(g, "deepseek4.attention.compress_ratios", ARRAY, &(int32_t){32}, 4);
}
static void entries_of_three_layers(struct test_gguf *g)
{
	patch(g, "deepseek4.attention.compress_ratios", 4, &(uint64_t){3}, 8);
}
static void weighed_by_sigmoids(struct test_gguf *g)
{
	patch(g, "deepseek4.expert_gating_func", 0, &(uint32_t){2}, 4);
}
static void no_groups(struct test_gguf *g)
{
	patch(g, "deepseek4.attention.output_group_count", 0, &(uint32_t){0}, 4);
}
static void an_odd_count_of_heads(struct test_gguf *g)
{
	patch(g, "kimi-linear.attention.head_count_kv", 4, &(uint64_t){3}, 8);
}

static void what_a_file_says_is_checked_before_it_is_used(void **state)
{
	(void)state;
	static const struct {
		const char *architecture;
		void (*change)(struct test_gguf *g);
		int code;
		const char *words;
	} wrong[] = {
		{"qwen4exp", a_head_apart, EINVAL, "do not lie one after the other"},
		{"qwen4exp", a_prime_of_none, EINVAL, "ngram_primes"},
		{"qwen4exp", more_rows_than_there_are, EINVAL, "but their table has 2688"},
		{"qwen4exp", longer_grams, EINVAL, "ngram_multipliers has 3 numbers"},
		{"qwen4exp", grams_of_none, ENOTSUP, "n-grams of up to 0 tokens"},
		{"qwen4exp", a_layer_beyond, EINVAL, "ple_layer_ids"},
		{"qwen4exp", grams_in_attention, ENOTSUP, "ple_layer_ids"},
		{"qwen4exp", many_layers, EINVAL, "more than the 1024 supported"},
		{"qwen4exp", an_end_beyond, EINVAL, "ngram_end_token"},
		{"glm5-next", two_limits, ENOTSUP, "not one limit for all layers"},
		{"glm5-next", another_epsilon, ENOTSUP, "only 1e-06 is supported"},
		{"glm-dsa", a_first_layer_that_shares, EINVAL, "layer 0 has neither an index"},
		{"granitehybrid", a_part_of_a_head, EINVAL, "ssm.inner_size (129)"},
		{"nemotron_h_moe", no_heads, EINVAL, "ssm.time_step_rank (0)"},
		{"lfm2moe", another_router, ENOTSUP, "expert_gating_func is 1"},
		{"kimi-linear", an_odd_count_of_heads, EINVAL, ""},
		{"deepseek4", two_sizes_of_entries, ENOTSUP, "only one number is supported"},
		{"deepseek4", entries_of_three_layers, EINVAL, ""},
		{"deepseek4", weighed_by_sigmoids, ENOTSUP, "expert_gating_func is 2"},
		{"deepseek4", no_groups, EINVAL, "o_groups"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		static struct config config;
		char path[512];
		struct err e = {0};
		int family = 0;
		while (strcmp(families[family].architecture, wrong[i].architecture) != 0)
			family++;
		convert(family, "BF16", wrong[i].change, path);
		int failed = config_read(&config, path, &e);
		if (failed >= 0 || !strstr(e.text, wrong[i].words) ||
		    (*wrong[i].words && failed != -wrong[i].code))
			fail_msg("%s: gave %d, \"%s\", not \"%s\"", wrong[i].architecture, failed,
				 e.text, wrong[i].words);
	}
}

/* The config is one; but the tensors of such a layer are missing. */
static void layers_and_tensors_must_agree(void **state)
{
	(void)state;
	char path[512];
	struct err e = {0};
	struct engine *g;
	struct model *m;
	convert(0, "BF16", a_layer_without_convolutions, path);
	assert_int_equal(engine_create(&g, &(struct engine_options){.store = test_folder}, &e), 0);
	int failed = model_open(&m, g, path, &e);
	if (!failed) {
		failed = model_wait(m, &e);
		model_close(m);
	}
	engine_destroy(g);
	assert_int_equal(failed, -ENOENT);
	assert_non_null(strstr(e.text, "blk.0.attn_q.weight"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantised_files_are_computed_with_in_place),
		cmocka_unit_test(what_a_file_cannot_say_is_as_in_the_published_model),
		cmocka_unit_test(what_a_file_says_is_checked_before_it_is_used),
		cmocka_unit_test(layers_and_tensors_must_agree),
	};
	return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
