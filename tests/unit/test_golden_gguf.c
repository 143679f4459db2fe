/* GGUF files against exact references: those of the reference data, whose golden numbers come from
 * the dequantised weights; and every family's fixture as its published converter writes it, in
 * each version and type, whole and in parts. */
#include "checkpoint_help.h"
#include "gguf_convert.h"
#include "golden_run.h"
#include "store_help.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- files of the reference data ---- */

static const char *const types[] = {"Q4_K_M", "BF16", "Q8_0", "Q6_K",	"Q3_K_M", "Q2_K", "Q4_0",
				    "Q4_1",   "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "IQ3_S"};

/* The first is in the repository. */
static bool find(const char *type, const char *ending, char path[512])
{
	char name[64];
	bool own = !strcmp(type, types[0]);
	(void)snprintf(name, sizeof name, "fixtures/gguf/%s%s", type, ending);
	const char *at = own ? test_fixture("gguf") : shared_data(name);
	if (at)
		(void)snprintf(path, 512, own ? "%s/%s%s" : "%s", at, type, ending);
	return at;
}

static double golden_nll(const char *type)
{
	char path[512];
	struct json_object *models, *model, *nll;
	(void)snprintf(path, sizeof path, "%s/golden.json", test_fixture("gguf"));
	struct json_object *all = json_object_from_file(path);
	assert_true(all && json_object_object_get_ex(all, "models", &models) &&
		    json_object_object_get_ex(models, type, &model) &&
		    json_object_object_get_ex(model, "long_mean_nll", &nll));
	double value = json_object_get_double(nll);
	json_object_put(all);
	return value;
}

static void check(const char *name, const char *model, const char *golden, double nll)
{
	struct golden_bench b;
	golden_bench_open(&b, model, golden,
			  &(struct engine_options){.exact = 1, .threads = 2, .store = test_folder});
	golden_worst = 0;
	struct golden_run r = golden_run_make(&b);
	golden_compare(&b, &r);
	context_rollback(&b.context, 0);
	golden_compare_long(&b, nll);
	printf("%s: worst relative error of any row %.1e\n", name, golden_worst);
	golden_run_free(&r);
	golden_bench_close(&b);
}

static void every_type_of_the_reference_files_computes_their_dequantised_weights(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		char model[512], golden[512];
		if (find(types[i], ".gguf", model) && find(types[i], ".golden.safetensors", golden))
			check(types[i], model, golden, golden_nll(types[i]));
	}
}

/* By default only the 8-bit inputs differ. A file in 16 bits is not quantised, and is converted. */
static void every_quantised_type_is_computed_with_as_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		char model[512], golden[512], recipe[128];
		struct golden_bench b;
		if (!find(types[i], ".gguf", model) ||
		    !find(types[i], ".golden.safetensors", golden))
			continue;
		golden_bench_open(&b, model, golden,
				  &(struct engine_options){.threads = 2, .store = test_folder});
		struct golden_run r = golden_run_make(&b);
		double error = golden_logits_error(&b, &r);
		printf("%s: logits off by %.1e of their power\n", types[i], error);
		assert_int_equal(model_fact(b.model, FACT_RECIPE, recipe, sizeof recipe), 0);
		if (strcmp(types[i], "BF16") != 0) {
			assert_string_equal(recipe, "as published: GGUF, in place");
			assert_true(error < 2e-3);
		} else {
			assert_string_equal(recipe, "4bit, the default for models whose experts fit the budget");
		}
		golden_run_free(&r);
		golden_bench_close(&b);
	}
}

/* ---- fixtures, converted ---- */

/* Belongs to the layer after the last one, which is not computed. */
static void a_draft(struct test_gguf *g)
{
	static const float x[128];
	test_gguf_tensor(g, "blk.3.nextn.enorm.weight", 0, (const uint64_t[]){128}, 1, x, sizeof x);
}

static const struct gguf_conversion conversions[] = {
	{.fixture = "qwen2", .architecture = "qwen2", .type = "BF16"},
	{.fixture = "qwen3", .architecture = "qwen3", .type = "F16", .version = 2},
	{.fixture = "qwen3_moe", .architecture = "qwen3moe", .type = "F32"},
	{.fixture = "qwen2_moe", .architecture = "qwen2moe", .type = "BF16", .parts = 3},
	{.fixture = "granitemoe", .architecture = "granitemoe", .type = "BF16"},
	{.fixture = "mixtral", .architecture = "llama", .type = "BF16", .version = 2, .parts = 2},
	{.fixture = "mixtral", .architecture = "llama", .type = "F16", .apart = true},
	{.fixture = "olmoe", .architecture = "olmoe", .type = "BF16"},
	{.fixture = "qwen3_5", .architecture = "qwen35", .type = "BF16"},
	{.fixture = "qwen3_5_moe", .architecture = "qwen35moe", .type = "BF16", .parts = 5},
	{.fixture = "qwen3_next", .architecture = "qwen3next", .type = "BF16"},
	{.fixture = "qwen3_next", .architecture = "qwen3next", .type = "F32", .fused = true},
	{.fixture = "gpt_oss", .architecture = "gpt-oss", .type = "BF16"},
	{.fixture = "gpt_oss_mxfp4", .architecture = "gpt-oss", .type = "BF16", .parts = 2},
	{.fixture = "deepseek_v3", .architecture = "deepseek2", .type = "BF16"},
	{.fixture = "deepseek_v3", .architecture = "deepseek2", .type = "F32", .fused = true},
	{.fixture = "glm4_moe", .architecture = "glm4moe", .type = "BF16", .change = a_draft},
	{.fixture = "minimax_m2", .architecture = "minimax-m2", .type = "F32"},
	{.fixture = "llama", .architecture = "llama", .type = "BF16"},
	{.fixture = "smollm3", .architecture = "smollm3", .type = "BF16"},
	{.fixture = "phi3", .architecture = "phi3", .type = "BF16"},
	{.fixture = "phi3_partial", .architecture = "phi3", .type = "BF16"},
	{.fixture = "gemma3_linear", .architecture = "gemma3", .type = "BF16"},
	{.fixture = "gemma4_ple", .architecture = "gemma4", .type = "BF16"},
	{.fixture = "gemma4_moe", .architecture = "gemma4", .type = "F32"},
	{.fixture = "lfm2_moe", .architecture = "lfm2moe", .type = "BF16"},
	{.fixture = "lfm2", .architecture = "lfm2", .type = "BF16"},
	{.fixture = "granitemoehybrid", .architecture = "granitehybrid", .type = "BF16"},
	{.fixture = "nemotron_h", .architecture = "nemotron_h_moe", .type = "BF16", .parts = 2},
	{.fixture = "nemotron_latent", .architecture = "nemotron_h_moe", .type = "BF16"},
	{.fixture = "kimi_linear", .architecture = "kimi-linear", .type = "BF16"},
	{.fixture = "glm_moe_dsa", .architecture = "glm-dsa", .type = "BF16"},
	{.fixture = "glm5_next", .architecture = "glm5-next", .type = "F32"},
	{.fixture = "qwen4_exp", .architecture = "qwen4exp", .type = "BF16"},
	{.fixture = "deepseek_v4", .architecture = "deepseek4", .type = "BF16"},
};
enum { CONVERSIONS = sizeof conversions / sizeof *conversions };

static double fixture_nll(const char *fixture)
{
	char path[512];
	struct json_object *nll;
	(void)snprintf(path, sizeof path, "%s/golden.json", test_fixture(fixture));
	struct json_object *all = json_object_from_file(path);
	assert_true(all && json_object_object_get_ex(all, "long_mean_nll", &nll));
	double value = json_object_get_double(nll);
	json_object_put(all);
	return value;
}

static void what_the_published_converter_makes_of_each_family_computes_the_same(void **state)
{
	(void)state;
	for (int i = 0; i < CONVERSIONS; i++) {
		char path[512], golden[600], name[32];
		const char *fixture = conversions[i].fixture;
		if (!test_fixture(fixture))
			continue;
		(void)snprintf(name, sizeof name, "%s-%d", conversions[i].architecture, i);
		test_gguf_convert(&conversions[i], test_folder, name, path);
		(void)snprintf(golden, sizeof golden, "%s/golden.safetensors",
			       test_fixture(fixture));
		check(name, path, golden, fixture_nll(fixture));
	}
}

/* ---- a dense llama, which no fixture is ---- */

/* Qwen2's fixture without its biases is one. */
static void make_llama(const char *at)
{
	static const char *const biased[] = {"q", "k", "v"};
	struct test_checkpoint c;
	char path[512], name[128];
	size_t n;
	test_checkpoint_read(&c, "qwen2");
	for (uint32_t i = 0; i < 6; i++) {
		(void)snprintf(name, sizeof name, "model.layers.%u.self_attn.%s_proj.bias", i / 3,
			       biased[i % 3]);
		test_tensor_remove(&c, name);
	}
	test_checkpoint_make(&c, "qwen2", at);
	test_checkpoint_free(&c);
	(void)snprintf(path, sizeof path, "%s/config.json", at);
	uint8_t *text = test_file_read(path, &n);
	uint8_t *type = memmem(text, n, "\"qwen2\"", 7);
	assert_non_null(type);
	memcpy(type, "\"llama\"", 7);
	test_file_write(path, text, n);
	free(text);
}

static struct golden_run run_of(const char *model, const char *golden)
{
	struct golden_bench b;
	golden_bench_open(&b, model, golden,
			  &(struct engine_options){.quant = "bf16", .threads = 2, .store = test_folder});
	struct golden_run r = golden_run_make(&b);
	golden_bench_close(&b);
	return r;
}

static void a_dense_llama_s_file_computes_what_its_checkpoint_does(void **state)
{
	(void)state;
	char at[64], path[512], golden[600];
	(void)snprintf(at, sizeof at, "%s/llama", test_folder);
	make_llama(at);
	test_gguf_convert(&(struct gguf_conversion){.fixture = "qwen2",
						    .architecture = "llama",
						    .type = "BF16",
						    .without = ".bias"},
			  test_folder, "dense", path);
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", test_fixture("qwen2"));
	struct golden_run published = run_of(at, golden), converted = run_of(path, golden);
	golden_assert_same_bits(&published, &converted);
	golden_run_free(&published);
	golden_run_free(&converted);
}

/* ---- Llama 3.1, whose rotations are slowed by numbers of a tensor ---- */

enum { PAIRS = 8 };
static const double slowed = 8, low = 1, high = 4, original = 64; /* of its config.json */

static void add_factors(struct test_gguf *g)
{
	float factor[PAIRS];
	for (int i = 0; i < PAIRS; i++) {
		double wave = 2 * acos(-1) * pow(10000, (double)i / PAIRS);
		double smooth = (original / wave - low) / (high - low);
		factor[i] = wave < original / high  ? 1.0F
			    : wave > original / low ? (float)slowed
						    : (float)(1 / ((1 - smooth) / slowed + smooth));
	}
	test_gguf_tensor(g, "rope_freqs.weight", 0, (const uint64_t[]){PAIRS}, 1, factor,
			 sizeof factor);
}

static void say_factors(const char *at)
{
	static const char was[] = "\"rope_type\": \"default\"";
	char path[128], text[8192];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/config.json", at);
	uint8_t *bytes = test_file_read(path, &n);
	uint8_t *found = memmem(bytes, n, was, sizeof was - 1);
	assert_non_null(found);
	int before = (int)(found - bytes), k = before + (int)sizeof was - 1;
	int m = snprintf(text, sizeof text,
			 "%.*s\"rope_type\": \"llama3\", \"factor\": %g, \"low_freq_factor\": %g, "
			 "\"high_freq_factor\": %g, \"original_max_position_embeddings\": %g%.*s",
			 before, bytes, slowed, low, high, original, (int)n - k, bytes + k);
	assert_true(m > 0 && m < (int)sizeof text);
	test_file_write(path, text, (size_t)m);
	free(bytes);
}

static void factors_of_rotations_are_read_from_their_tensor(void **state)
{
	(void)state;
	char at[64], path[512], golden[600];
	struct gguf_conversion c = {
		.fixture = "qwen2", .architecture = "llama", .type = "BF16", .without = ".bias"};
	(void)snprintf(at, sizeof at, "%s/llama31", test_folder);
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", test_fixture("qwen2"));
	make_llama(at);
	struct golden_run plain = run_of(at, golden);
	say_factors(at);
	c.change = add_factors;
	test_gguf_convert(&c, test_folder, "factors", path);
	struct golden_run published = run_of(at, golden), converted = run_of(path, golden);
	golden_compare_rows("logits", converted.logits, published.logits, published.tokens,
			    published.vocabulary);
	assert_memory_not_equal(plain.logits, published.logits,
				(size_t)plain.tokens * plain.vocabulary * sizeof(float));
	golden_run_free(&plain);
	golden_run_free(&published);
	golden_run_free(&converted);
}

/* ---- Gemma 3, of whose config the file says less ---- */

/* Links a fixture's files, with these members changed in its config.json. */
static void make_changed(const char *fixture, const char *at, const char *members)
{
	struct test_checkpoint c;
	char path[512];
	test_checkpoint_read(&c, fixture);
	test_checkpoint_make(&c, fixture, at);
	test_checkpoint_free(&c);
	(void)snprintf(path, sizeof path, "%s/config.json", at);
	struct json_object *all = json_object_from_file(path),
			   *changed = json_tokener_parse(members);
	assert_true(all && changed);
	json_object_object_foreach(changed, key, value)
		json_object_object_add(all, key, json_object_get(value));
	assert_int_equal(json_object_to_file(path, all), 0);
	json_object_put(changed);
	json_object_put(all);
}

/* Of six layers only the last sees all, and heads are 32 wide. */
static void gemma_3_s_file_computes_what_a_published_model_s_checkpoint_does(void **state)
{
	(void)state;
	char at[64], path[512], golden[600];
	if (!test_fixture("gemma3"))
		skip();
	(void)snprintf(at, sizeof at, "%s/gemma3", test_folder);
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", test_fixture("gemma3"));
	make_changed("gemma3", at,
		     "{\"query_pre_attn_scalar\": 32, \"layer_types\": null,"
		     "\"_sliding_window_pattern\": 6}");
	test_gguf_convert(&(struct gguf_conversion){.fixture = "gemma3",
						    .architecture = "gemma3",
						    .type = "BF16"},
			  test_folder, "gemma3", path);
	struct golden_run published = run_of(at, golden), converted = run_of(path, golden);
	golden_assert_same_bits(&published, &converted);
	golden_run_free(&published);
	golden_run_free(&converted);
}

static void windows_at_each_layer(struct test_gguf *g)
{
	static const uint8_t windows[] = {1, 1, 0, 1, 1, 0};
	test_gguf_array(g, "gemma3.attention.sliding_window_pattern", GGUF_BOOL, 6, windows,
			sizeof windows);
}
static void windows_at_intervals(struct test_gguf *g)
{
	test_gguf_u32(g, "gemma3.attention.sliding_window_pattern", 3);
}
static void no_windows(struct test_gguf *g)
{
	test_gguf_u32(g, "gemma3.attention.sliding_window_pattern", 1);
}
static void too_few_windows(struct test_gguf *g)
{
	static const uint8_t windows[] = {1, 1};
	test_gguf_array(g, "gemma3.attention.sliding_window_pattern", GGUF_BOOL, 2, windows,
			sizeof windows);
}

static void a_file_says_which_layers_see_a_window(void **state)
{
	(void)state;
	static const struct {
		void (*change)(struct test_gguf *g);
		bool refused, window[6];
	} cases[] = {{NULL, false, {1, 1, 1, 1, 1, 0}},
		     {windows_at_each_layer, false, {1, 1, 0, 1, 1, 0}},
		     {windows_at_intervals, false, {1, 1, 0, 1, 1, 0}},
		     {no_windows, false, {0}},
		     {too_few_windows, true, {0}}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases && test_fixture("gemma3"); i++) {
		static struct config config;
		char path[512];
		struct err e;
		test_gguf_convert(&(struct gguf_conversion){.fixture = "gemma3",
							    .architecture = "gemma3",
							    .type = "BF16",
							    .change = cases[i].change},
				  test_folder, "windows", path);
		int failed = config_read(&config, path, &e);
		assert_int_equal(failed, cases[i].refused ? -EINVAL : 0);
		for (uint32_t layer = 0; layer < 6 && !failed; layer++)
			assert_int_equal(config.layer[layer].window,
					 cases[i].window[layer] ? 12 : 0);
	}
}

/* ---- factors of rotations that are not such ---- */

static const float ones[PAIRS + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, zeros[PAIRS],
				nothing[PAIRS] = {NAN};

static void too_many(struct test_gguf *g)
{
	test_gguf_tensor(g, "rope_freqs.weight", 0, (const uint64_t[]){PAIRS + 1}, 1, ones,
			 sizeof ones);
}
static void none_of_them(struct test_gguf *g)
{
	test_gguf_tensor(g, "rope_freqs.weight", 0, (const uint64_t[]){PAIRS}, 1, zeros,
			 sizeof zeros);
}
static void not_numbers(struct test_gguf *g)
{
	test_gguf_tensor(g, "rope_freqs.weight", 0, (const uint64_t[]){PAIRS}, 1, nothing,
			 sizeof nothing);
}
static void in_16_bits(struct test_gguf *g)
{
	test_gguf_tensor(g, "rope_freqs.weight", 1, (const uint64_t[]){PAIRS}, 1, ones, 2 * PAIRS);
}
static void scaled_twice(struct test_gguf *g)
{
	add_factors(g);
	test_gguf_string(g, "llama.rope.scaling.type", "linear");
	test_gguf_f32(g, "llama.rope.scaling.factor", 4);
}

static void invalid_factors_are_refused(void **state)
{
	(void)state;
	static const struct {
		void (*change)(struct test_gguf *g);
		const char *words;
	} wrong[] = {{too_many, "9 factors of rotations, but a head has 8 pairs"},
		     {none_of_them, "\"factors\" must be"},
		     {not_numbers, "rope_freqs.weight holds a NaN or an infinity"},
		     {in_16_bits, "rope_freqs.weight is not a list of at most 512 numbers in F32"},
		     {scaled_twice, "rope_freqs.weight and a rope.scaling.type of linear"}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		static struct config config;
		char path[512];
		struct err e;
		test_gguf_convert(&(struct gguf_conversion){.fixture = "qwen2",
							    .architecture = "llama",
							    .type = "BF16",
							    .without = ".bias",
							    .change = wrong[i].change},
				  test_folder, "wrong", path);
		assert_true(config_read(&config, path, &e) < 0);
		if (!strstr(e.text, wrong[i].words))
			fail_msg("%s", e.text);
	}
}

/* ---- blocks of MXFP4 ---- */

static void experts_in_blocks_of_mxfp4_are_computed_with_as_they_are(void **state)
{
	(void)state;
	char path[512], golden[600], recipe[64];
	struct golden_bench b;
	if (!test_fixture("gpt_oss_mxfp4"))
		skip();
	test_gguf_convert(&(struct gguf_conversion){.fixture = "gpt_oss_mxfp4",
						    .architecture = "gpt-oss",
						    .type = "BF16"},
			  test_folder, "blocks", path);
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors",
		       test_fixture("gpt_oss_mxfp4"));
	golden_bench_open(&b, path, golden,
			  &(struct engine_options){.threads = 2, .store = test_folder});
	struct golden_run r = golden_run_make(&b);
	double error = golden_logits_error(&b, &r);
	printf("MXFP4: logits off by %.1e of their power\n", error);
	assert_int_equal(model_fact(b.model, FACT_RECIPE, recipe, sizeof recipe), 0);
	assert_string_equal(recipe, "as published: GGUF, in place");
	assert_true(error < 2e-3);
	golden_run_free(&r);
	golden_bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_the_published_converter_makes_of_each_family_computes_the_same),
		cmocka_unit_test(a_dense_llama_s_file_computes_what_its_checkpoint_does),
		cmocka_unit_test(factors_of_rotations_are_read_from_their_tensor),
		cmocka_unit_test(
			gemma_3_s_file_computes_what_a_published_model_s_checkpoint_does),
		cmocka_unit_test(a_file_says_which_layers_see_a_window),
		cmocka_unit_test(invalid_factors_are_refused),
		cmocka_unit_test(experts_in_blocks_of_mxfp4_are_computed_with_as_they_are),
		cmocka_unit_test(every_quantised_type_is_computed_with_as_it_is),
		cmocka_unit_test(
			every_type_of_the_reference_files_computes_their_dequantised_weights),
	};
	return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
