/* GGUF files against exact references: those of the reference data, whose golden numbers are of the
 * dequantised weights; and every family's fixture as its published converter would write it, in
 * each version and type, whole and in parts. */
#include "gguf_convert.h"
#include "golden_run.h"
#include "store_help.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[32];

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

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
			  &(struct engine_options){.quant = "bf16", .threads = 2, .store = folder});
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

/* By default: inputs in 8 bits are all that differs. In 16 bits it is no quantised file, and made
 * one. */
static void every_quantised_type_is_computed_with_as_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		char model[512], golden[512], recipe[64];
		struct golden_bench b;
		if (!find(types[i], ".gguf", model) ||
		    !find(types[i], ".golden.safetensors", golden))
			continue;
		golden_bench_open(&b, model, golden,
				  &(struct engine_options){.threads = 2, .store = folder});
		struct golden_run r = golden_run_make(&b);
		double error = golden_logits_error(&b, &r);
		printf("%s: logits off by %.1e of their power\n", types[i], error);
		assert_int_equal(model_fact(b.model, FACT_RECIPE, recipe, sizeof recipe), 0);
		if (strcmp(types[i], "BF16") != 0) {
			assert_string_equal(recipe, "as published: GGUF, in place");
			assert_true(error < 2e-3);
		} else {
			assert_string_equal(recipe, "tq3");
		}
		golden_run_free(&r);
		golden_bench_close(&b);
	}
}

/* ---- fixtures, converted ---- */

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
		(void)snprintf(name, sizeof name, "%s-%d", conversions[i].architecture, i);
		test_gguf_convert(&conversions[i], folder, name, path);
		(void)snprintf(golden, sizeof golden, "%s/golden.safetensors",
			       test_fixture(fixture));
		check(name, path, golden, fixture_nll(fixture));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_the_published_converter_makes_of_each_family_computes_the_same),
		cmocka_unit_test(every_quantised_type_is_computed_with_as_it_is),
		cmocka_unit_test(
			every_type_of_the_reference_files_computes_their_dequantised_weights),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
