/* The forward pass against the exact reference: every fixture of the supported families, layer by
 * layer in exact mode, and promise 2 (one answer whatever the chunk, the threads and the cache) in
 * exact mode and in the default recipe. */
#include "golden_run.h"
#include "memory_help.h"
#include "store_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

/* gated_attention is a hybrid's attention alone: a gate, zero-centred norms, a partial rotation,
 * and stacked experts beside a shared one. */
static const char *const fixtures[] = {"qwen2", "qwen3", "qwen3_moe", "qwen2_moe", "granitemoe",
				       "mixtral", "olmoe", "gated_attention", "qwen3_5",
				       "qwen3_5_moe", "qwen3_next", "glm4_moe", "minimax_m2",
				       "gpt_oss", "gemma4_moe", "deepseek_v3", "llama", "smollm3",
				       "gemma3", "phi3", "gemma4_ple", "phi3_partial",
				       "gemma3_linear",
				       /* recurrent: */
				       "lfm2_moe", "granitemoehybrid", "nemotron_h",
				       "kimi_linear", "lfm2", "granite_dense", "granite_groups",
				       "nemotron_latent",
				       /* several streams, chosen positions: */
				       "qwen4_exp", "glm_moe_dsa", "minimax_m3", "glm5_next",
				       "deepseek_v4",
				       /* encodings: */
				       "qwen3_moe_mlx4", "qwen3_moe_fp8", "tq3_native",
				       "tq3_native_sensitive4", "gpt_oss_mxfp4", "deepseek_v3_fp8"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

/* ---- a fixture ---- */

static void bench_open(struct golden_bench *b, const char *fixture,
		       const struct engine_options *options)
{
	char path[512], golden[600];
	snprintf(path, sizeof path, "%s", test_fixture(fixture));
	snprintf(golden, sizeof golden, "%s/golden.safetensors", path);
	struct engine_options o = *options;
	o.store = test_folder;
	golden_bench_open(b, path, golden, &o);
}

/* ---- tests ---- */

static void exact_mode_agrees_with_the_reference(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct golden_bench b;
		if (!test_fixture(fixtures[i]))
			continue;
		bench_open(&b, fixtures[i], &(struct engine_options){.exact = 1, .threads = 2});
		golden_worst = 0;
		struct golden_run r = golden_run_make(&b);
		golden_compare(&b, &r);
		printf("%s: worst relative error of any row %.1e\n", fixtures[i], golden_worst);
		golden_run_free(&r);
		golden_bench_close(&b);
	}
}

/* The default recipe keeps the file's weights if the kernels know their format, so only the 8-bit
 * inputs differ from the reference. (Encoded again in 3 bits, the logits are off by 6e-2 of their
 * power.) */
static void weights_as_published_compute_nearly_what_the_reference_does(void **state)
{
	(void)state;
	static const char *const kept[] = {"qwen3_moe_mlx4", "tq3_native", "tq3_native_sensitive4"};
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		struct golden_bench b;
		if (!test_fixture(kept[i]))
			continue;
		bench_open(&b, kept[i], &(struct engine_options){.threads = 2});
		struct golden_run r = golden_run_make(&b);
		double error = golden_logits_error(&b, &r);
		printf("%s: logits off by %.1e of their power\n", kept[i], error);
		assert_true(error < 2e-3);
		golden_run_free(&r);
		golden_bench_close(&b);
	}
}

static double golden_nll(const char *fixture)
{
	char name[512], text[8192];
	snprintf(name, sizeof name, "%s/golden.json", test_fixture(fixture));
	FILE *f = fopen(name, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	const char *at = strstr(text, "\"long_mean_nll\":");
	assert_non_null(at);
	return strtod(at + strlen("\"long_mean_nll\":"), NULL);
}

static void a_long_text_has_the_reference_likelihood(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct golden_bench b;
		if (!test_fixture(fixtures[i]))
			continue;
		bench_open(&b, fixtures[i], &(struct engine_options){.exact = 1, .threads = 2});
		golden_compare_long(&b, golden_nll(fixtures[i]));
		golden_bench_close(&b);
	}
}

/* Bytes of one expert in the pool. */
static uint64_t one_expert(const struct golden_bench *b)
{
	return pager_slot_bytes(b->view.plan->slot_bytes);
}

/* How many threads that setting has; 0: it is left out. ThreadSanitizer skips one thread, and chunks of one token, which every
 * run decodes at its end anyway, and has 16 and 64 threads in one fixture: in the others they would meet no other code. */
static uint32_t threads_of_setting(const char *fixture, uint32_t chunk, uint32_t threads)
{
	bool many = strcmp(fixture, "qwen3_moe") == 0;
	if (!THREADS_WATCHED)
		return threads;
	if (chunk == 1 || threads == 1 || (threads == 64 && !many))
		return 0;
	return threads == 16 && !many ? 3 : threads;
}

/* With CHECK=full all combinations; otherwise, and under a sanitizer, each chunk and each number
 * of threads once, with both caches. */
static void assert_same_under_all_settings(const char *fixture, const char *quant)
{
	static const uint32_t chunks[] = {1, 7, 64, 7, 64}, threads[] = {1, 2, 3, 16, 64};
	struct golden_bench b;
	bench_open(&b, fixture, &(struct engine_options){.quant = quant, .threads = 1});
	struct golden_run first = golden_run_make(&b);
	uint64_t budget = b.view.plan->routed_layers ? one_expert(&b) : 0;
	if (!quant && !b.view.plan->recipe.as_published) /* the default depends on the budget */
		quant = b.view.plan->recipe.quant;
	golden_bench_close(&b);
	for (int c = 0; c < 5; c++)
		for (int t = 0; t < 5; t++) {
			if ((SANITIZED || !test_full()) && t != (c + 1) % 5)
				continue;
			uint32_t count = threads_of_setting(fixture, chunks[c], threads[t]);
			for (int small = 0; count && small <= (budget != 0); small++) {
				struct engine_options o = {.quant = quant,
							   .chunk = chunks[c],
							   .threads = count,
							   .budget = small ? budget : 0};
				bench_open(&b, fixture, &o);
				struct golden_run r = golden_run_make(&b);
				golden_assert_same_bits(&first, &r);
				struct pager_stats st;
				engine_cache_stats(b.engine, &st);
				if (small)
					assert_true(st.peak <= budget && st.evictions > 0);
				golden_run_free(&r);
				golden_bench_close(&b);
			}
		}
	golden_run_free(&first);
}

static void exact_mode_is_the_same_for_any_chunk_threads_and_cache(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		if (test_fixture(fixtures[i]))
			assert_same_under_all_settings(fixtures[i], "bf16");
}

static void a_coded_store_computes_the_same_bits_as_a_plain_one(void **state)
{
	(void)state;
	static const char *const codecs[] = {"none", "zstd"};
	struct golden_run r[2];
	for (int i = 0; i < 2; i++) {
		struct golden_bench b;
		bench_open(&b, "qwen3_moe",
			   &(struct engine_options){.quant = "bf16", .codec = codecs[i]});
		assert_int_equal(store_info(b.view.store)->codec,
				 i == 0 ? STORE_PLAIN : STORE_CODED);
		r[i] = golden_run_make(&b);
		golden_bench_close(&b);
	}
	golden_assert_same_bits(&r[0], &r[1]);
	golden_run_free(&r[0]);
	golden_run_free(&r[1]);
}

static void the_default_recipe_is_the_same_for_any_chunk_threads_and_cache(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		if (test_fixture(fixtures[i]))
			assert_same_under_all_settings(fixtures[i], NULL);
}

static void every_kernel_table_gives_the_same_bits(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		for (int exact = 0; exact < 2 && test_fixture(fixtures[i]); exact++) {
			struct golden_bench b;
			bench_open(&b, fixtures[i],
				   &(struct engine_options){.quant = exact ? "bf16" : NULL});
			struct golden_run first = {0};
			for (const struct kernels *const *k = kernels_available(); *k; k++) {
				b.view.forward->env.kernels = *k;
				context_rollback(&b.context, 0);
				struct golden_run r = golden_run_make(&b);
				if (k == kernels_available()) {
					first = r;
					continue;
				}
				golden_assert_same_bits(&first, &r);
				golden_run_free(&r);
			}
			golden_run_free(&first);
			golden_bench_close(&b);
		}
}

/* Every expert that the router picked is fetched once per chunk and layer, no more and no fewer,
 * and a second pass over the same text finds all of them in memory. */
static void every_routed_expert_is_applied_and_then_cached(void **state)
{
	(void)state;
	struct golden_bench b;
	struct pager_stats cold, warm;
	bench_open(&b, "qwen3_moe",
		   &(struct engine_options){.quant = "bf16", .codec = "none", .chunk = 4096});
	struct golden_run r = golden_run_make(&b);
	engine_cache_stats(b.engine, &cold);
	uint64_t distinct = 0, picks = (uint64_t)GOLDEN_GREEDY * r.routed * r.top_k;
	for (uint32_t layer = 0; layer < r.routed; layer++) {
		bool seen[CONFIG_MAX_EXPERTS] = {false};
		for (size_t i = 0; i < (size_t)r.tokens * r.top_k; i++)
			seen[(int)r.router_experts[layer * (size_t)r.tokens * r.top_k + i]] = true;
		for (uint32_t x = 0; x < r.experts; x++)
			distinct += seen[x];
	}
	assert_int_equal(cold.hits + cold.misses, distinct + picks);
	assert_int_equal(cold.bytes_read >= cold.misses * b.view.plan->record_bytes, 1);
	context_rollback(&b.context, 0);
	struct golden_run again = golden_run_make(&b);
	engine_cache_stats(b.engine, &warm);
	assert_int_equal(warm.misses, cold.misses);
	assert_int_equal(warm.hits - cold.hits, distinct + picks);
	golden_assert_same_bits(&r, &again);
	golden_run_free(&r);
	golden_run_free(&again);
	golden_bench_close(&b);
}

/* The fixture's are all 1: doubling the last one doubles the state after it, and nothing before. */
static void a_layers_scale_multiplies_the_stream_at_its_end(void **state)
{
	(void)state;
	struct golden_bench b;
	bench_open(&b, "gemma4_moe", &(struct engine_options){.quant = "bf16"});
	struct golden_run once = golden_run_make(&b);
	size_t size = (size_t)once.tokens * once.width, last = once.layers * size;
	uint32_t layer = b.view.config->layers - 1;
	float *scale = (float *)b.view.weights->layer[layer].m[TENSOR_LAYER_SCALE].data;
	assert_true(*scale == 1);
	*scale = 2;
	context_rollback(&b.context, 0);
	struct golden_run twice = golden_run_make(&b);
	assert_memory_equal(once.states, twice.states, last * sizeof *once.states);
	for (size_t i = 0; i < size; i++)
		assert_true(twice.states[last + i] == 2 * once.states[last + i]);
	golden_run_free(&once);
	golden_run_free(&twice);
	golden_bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest numbers[] = {
		cmocka_unit_test(exact_mode_agrees_with_the_reference),
		cmocka_unit_test(weights_as_published_compute_nearly_what_the_reference_does),
		cmocka_unit_test(a_long_text_has_the_reference_likelihood),
		cmocka_unit_test(every_kernel_table_gives_the_same_bits),
		cmocka_unit_test(a_layers_scale_multiplies_the_stream_at_its_end),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_mode_is_the_same_for_any_chunk_threads_and_cache),
		cmocka_unit_test(a_coded_store_computes_the_same_bits_as_a_plain_one),
		cmocka_unit_test(the_default_recipe_is_the_same_for_any_chunk_threads_and_cache),
		cmocka_unit_test(every_routed_expert_is_applied_and_then_cached),
	};
	if (test_folder_setup_fast(NULL))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!THREADS_WATCHED) /* other builds check these: they add no new interplay of threads */
		failed += cmocka_run_group_tests(numbers, NULL, NULL);
	return failed + (test_folder_teardown(NULL) != 0);
}
