/* The forward pass against the exact reference: every fixture of the supported families, layer by
 * layer in exact mode, and promise 2 (one answer whatever the chunk, the threads and the cache) in
 * exact mode and in the default recipe. */
#include "engine/serve/internal.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <math.h>
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
				       "gpt_oss", "gemma4_moe", "deepseek_v3",
				       /* encodings: */
				       "qwen3_moe_mlx4", "qwen3_moe_fp8", "tq3_native",
				       "tq3_native_sensitive4", "gpt_oss_mxfp4", "deepseek_v3_fp8"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures, GREEDY = 24 };
static const double tolerance = 2e-5; /* L2, relative, of a row */

/* ---- a model with its forward pass laid open ---- */

struct bench {
	struct engine *engine;
	struct model *model;
	struct context context;
	struct golden *golden;
};

static char temporary[] = "/tmp/moefs-test-golden-XXXXXX";

static void bench_open(struct bench *b, const char *fixture, const struct engine_options *options)
{
	struct err e = {0};
	char path[512];
	snprintf(path, sizeof path, "%s", test_fixture(fixture));
	struct engine_options o = *options;
	o.store = temporary;
	if (engine_create(&b->engine, &o, &e) || model_open(&b->model, b->engine, path, &e))
		fail_msg("%s", e.text);
	test_wait_converted(b->model);
	context_init(&b->context, &b->engine->context_budget, &b->model->config,
		     b->engine->recipe.exact ? KV_F32 : KV_F16);
	snprintf(path + strlen(path), sizeof path - strlen(path), "/golden.safetensors");
	b->golden = golden_open(path);
}

static void bench_close(struct bench *b)
{
	golden_close(b->golden);
	context_free(&b->context);
	model_close(b->model);
	engine_destroy(b->engine);
}

/* Everything that a run over ids computes, to be compared bit by bit with another run. */
struct run {
	uint32_t tokens, width, layers, vocabulary, routed, top_k, experts;
	float *logits;	       /* [tokens][vocabulary] */
	float *states;	       /* [layers + 1][tokens][width] */
	float *normed;	       /* [tokens][width] */
	float *router_logits;  /* [routed][tokens][experts] */
	float *router_weights; /* [routed][tokens][top_k] */
	float *router_experts; /* likewise */
	uint32_t greedy[GREEDY];
};

/* A draft layer's experts are in the plan, but no text passes through them. */
static uint32_t routed_layers(const struct config *c)
{
	uint32_t count = 0;
	for (uint32_t layer = 0; layer < c->layers; layer++)
		count += config_routed(c, layer);
	return count;
}

static float *array(size_t count)
{
	float *a = calloc(count + 1, sizeof *a);
	assert_non_null(a);
	return a;
}

static void record(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		   uint32_t tokens, uint32_t width, const float *rows)
{
	struct run *r = ctx;
	if (position + tokens > r->tokens)
		return; /* the greedy continuation */
	float *const to[] = {[TAP_STATE] = r->states,
			     [TAP_NORMED] = r->normed,
			     [TAP_ROUTER_LOGITS] = r->router_logits,
			     [TAP_ROUTER_WEIGHTS] = r->router_weights,
			     [TAP_ROUTER_EXPERTS] = r->router_experts};
	memcpy(to[point] + ((size_t)layer * r->tokens + position) * width, rows,
	       (size_t)tokens * width * sizeof *rows);
}

/* Computes ids in the engine's chunks, logits of every row. */
static void compute(struct bench *b, const int32_t *ids, uint32_t n, float *logits)
{
	struct forward *f = &b->model->forward;
	struct err e = {0};
	uint32_t tokens[4096];
	for (uint32_t i = 0; i < n; i++)
		tokens[i] = (uint32_t)ids[i];
	for (uint32_t done = 0; done < n; done += f->chunk) {
		uint32_t count = n - done < f->chunk ? n - done : f->chunk;
		if (test_step(f, &b->context, tokens + done, count,
			      logits + (size_t)done * b->model->config.vocabulary, &e))
			fail_msg("%s", e.text);
	}
}

static void continue_greedily(struct bench *b, const float *last_row, uint32_t *greedy)
{
	struct err e = {0};
	const float *logits = last_row;
	for (int i = 0; i < GREEDY; i++) {
		greedy[i] = sampler_greedy(logits, b->model->config.vocabulary);
		if (test_step(&b->model->forward, &b->context, &greedy[i], 1, NULL, &e))
			fail_msg("%s", e.text);
		logits = b->model->forward.scratch.logits;
	}
}

static struct run run_make(struct bench *b)
{
	const struct config *c = &b->model->config;
	struct golden_tensor ids = golden_get(b->golden, "input_ids", "I32");
	struct run r = {
		.tokens = (uint32_t)ids.count,
		.width = c->hidden_size,
		.layers = c->layers,
		.vocabulary = c->vocabulary,
		.routed = routed_layers(&b->model->config),
		.top_k = c->experts_per_token,
		.experts = c->experts,
	};
	r.logits = array((size_t)r.tokens * r.vocabulary);
	r.states = array((size_t)(r.layers + 1) * r.tokens * r.width);
	r.normed = array((size_t)r.tokens * r.width);
	r.router_logits = array((size_t)r.routed * r.tokens * r.experts);
	r.router_weights = array((size_t)r.routed * r.tokens * r.top_k);
	r.router_experts = array((size_t)r.routed * r.tokens * r.top_k);
	b->model->forward.env.tap = record;
	b->model->forward.env.tap_ctx = &r;
	compute(b, ids.data, r.tokens, r.logits);
	continue_greedily(b, r.logits + (size_t)(r.tokens - 1) * r.vocabulary, r.greedy);
	b->model->forward.env.tap = NULL;
	return r;
}

static void run_free(struct run *r)
{
	free(r->logits);
	free(r->states);
	free(r->normed);
	free(r->router_logits);
	free(r->router_weights);
	free(r->router_experts);
}

/* ---- comparisons ---- */

static double worst; /* of one fixture, to be printed */

static void compare_rows(const char *what, const float *got, const float *want, size_t rows,
			 size_t width)
{
	for (size_t r = 0; r < rows; r++) {
		double error = 0, norm = 0;
		for (size_t i = 0; i < width; i++) {
			double w = want[r * width + i], d = (double)got[r * width + i] - w;
			error += d * d;
			norm += w * w;
		}
		double relative = sqrt(error / norm);
		if (relative > worst)
			worst = relative;
		if (!(relative < tolerance))
			fail_msg("%s, row %zu: relative error %.2e", what, r, relative);
	}
}

/* Of Gemma 4 the reference has the router's probabilities. */
static void make_probabilities(float *rows, uint32_t count, uint32_t width)
{
	for (float *row = rows; row < rows + (size_t)count * width; row += width) {
		double sum = 0;
		for (uint32_t i = 0; i < width; i++)
			sum += exp((double)row[i]);
		for (uint32_t i = 0; i < width; i++)
			row[i] = (float)(exp((double)row[i]) / sum);
	}
}

static void compare_routing(const struct bench *b, const struct run *r)
{
	char name[64];
	for (uint32_t layer = 0; layer < r->routed; layer++) {
		size_t picks = (size_t)r->tokens * r->top_k;
		snprintf(name, sizeof name, "router.%u.experts", layer);
		const int32_t *experts = golden_get(b->golden, name, "I32").data;
		for (size_t i = 0; i < picks; i++)
			if (r->router_experts[layer * picks + i] != (float)experts[i])
				fail_msg("layer %u, pick %zu: expert %.0f, not %d", layer, i,
					 (double)r->router_experts[layer * picks + i], experts[i]);
		snprintf(name, sizeof name, "router.%u.weights", layer);
		compare_rows(name, r->router_weights + layer * picks,
			     golden_get(b->golden, name, "F32").data, r->tokens, r->top_k);
		snprintf(name, sizeof name, "router.%u.logits", layer);
		float *logits = r->router_logits + (size_t)layer * r->tokens * r->experts;
		if (!strcmp(b->model->config.model_type, "gemma4_text"))
			make_probabilities(logits, r->tokens, r->experts);
		compare_rows(name, logits, golden_get(b->golden, name, "F32").data, r->tokens,
			     r->experts);
	}
}

static void compare_with_golden(const struct bench *b, const struct run *r)
{
	const float *states = golden_get(b->golden, "states", "F32").data;
	size_t layer_size = (size_t)r->tokens * r->width;
	for (uint32_t layer = 0; layer <= r->layers; layer++) {
		char name[32];
		snprintf(name, sizeof name, "state after layer %u", layer);
		compare_rows(name, r->states + layer * layer_size, states + layer * layer_size,
			     r->tokens, r->width);
	}
	compare_rows("normed", r->normed, golden_get(b->golden, "normed", "F32").data, r->tokens,
		     r->width);
	compare_rows("logits", r->logits, golden_get(b->golden, "logits", "F32").data, r->tokens,
		     r->vocabulary);
	compare_routing(b, r);
	const int32_t *greedy = golden_get(b->golden, "greedy_ids", "I32").data;
	for (int i = 0; i < GREEDY; i++)
		assert_int_equal(r->greedy[i], greedy[i]);
}

static void assert_same_bits(const struct run *a, const struct run *b)
{
	size_t tokens = a->tokens;
	assert_memory_equal(a->states, b->states,
			    (a->layers + 1) * tokens * a->width * sizeof(float));
	assert_memory_equal(a->router_experts, b->router_experts,
			    a->routed * tokens * a->top_k * sizeof(float));
	assert_memory_equal(a->logits, b->logits, tokens * a->vocabulary * sizeof(float));
	assert_memory_equal(a->greedy, b->greedy, sizeof a->greedy);
}

/* ---- tests ---- */

static void exact_mode_agrees_with_the_reference(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		struct bench b;
		if (!test_fixture(fixtures[i]))
			continue;
		bench_open(&b, fixtures[i],
			   &(struct engine_options){.quant = "bf16", .threads = 2});
		worst = 0;
		struct run r = run_make(&b);
		compare_with_golden(&b, &r);
		printf("%s: worst relative error of any row %.1e\n", fixtures[i], worst);
		run_free(&r);
		bench_close(&b);
	}
}

static double mean_nll(const float *logits, const int32_t *ids, uint32_t n, uint32_t vocabulary)
{
	double sum = 0;
	for (uint32_t t = 0; t + 1 < n; t++) {
		const float *row = logits + (size_t)t * vocabulary;
		double total = 0, largest = row[sampler_greedy(row, vocabulary)];
		for (uint32_t i = 0; i < vocabulary; i++)
			total += exp(row[i] - largest);
		sum += log(total) + largest - row[ids[t + 1]];
	}
	return sum / (n - 1);
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
		struct bench b;
		if (!test_fixture(fixtures[i]))
			continue;
		bench_open(&b, fixtures[i],
			   &(struct engine_options){.quant = "bf16", .threads = 2});
		struct golden_tensor ids = golden_get(b.golden, "long_input_ids", "I32");
		uint32_t n = (uint32_t)ids.count, vocabulary = b.model->config.vocabulary;
		float *logits = array((size_t)n * vocabulary);
		compute(&b, ids.data, n, logits);
		compare_rows("the last rows of the long text",
			     logits + (size_t)(n - 4) * vocabulary,
			     golden_get(b.golden, "long_logits_last4", "F32").data, 4, vocabulary);
		double nll = mean_nll(logits, ids.data, n, vocabulary),
		       want = golden_nll(fixtures[i]);
		if (!(fabs(nll - want) < 1e-5))
			fail_msg("%s: mean nll %.7f, not %.7f", fixtures[i], nll, want);
		free(logits);
		bench_close(&b);
	}
}

/* Bytes that one expert takes in the pool. */
static uint64_t one_expert(const struct bench *b)
{
	return pager_slot_bytes(b->model->plan.slot_bytes);
}

static void assert_same_under_all_settings(const char *fixture, const char *quant)
{
	static const uint32_t chunks[] = {1, 7, 64}, threads[] = {1, 2, 4};
	struct bench b;
	bench_open(&b, fixture, &(struct engine_options){.quant = quant, .threads = 1});
	struct run first = run_make(&b);
	uint64_t budget = b.model->plan.routed_layers ? one_expert(&b) : 0;
	bench_close(&b);
	for (int c = 0; c < 3; c++)
		for (int t = 0; t < 3; t++)
			for (int small = 0; small <= (budget != 0); small++) {
				struct engine_options o = {.quant = quant,
							   .chunk = chunks[c],
							   .threads = threads[t],
							   .budget = small ? budget : 0};
				bench_open(&b, fixture, &o);
				struct run r = run_make(&b);
				assert_same_bits(&first, &r);
				struct pager_stats st;
				engine_cache_stats(b.engine, &st);
				if (small)
					assert_true(st.peak <= budget && st.evictions > 0);
				run_free(&r);
				bench_close(&b);
			}
	run_free(&first);
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
	struct run r[2];
	for (int i = 0; i < 2; i++) {
		struct bench b;
		bench_open(&b, "qwen3_moe",
			   &(struct engine_options){.quant = "bf16", .codec = codecs[i]});
		assert_int_equal(store_info(b.model->store)->codec,
				 i == 0 ? STORE_PLAIN : STORE_CODED);
		r[i] = run_make(&b);
		bench_close(&b);
	}
	assert_same_bits(&r[0], &r[1]);
	run_free(&r[0]);
	run_free(&r[1]);
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
			struct bench b;
			bench_open(&b, fixtures[i],
				   &(struct engine_options){.quant = exact ? "bf16" : NULL});
			struct run first = {0};
			for (const struct kernels *const *k = kernels_available(); *k; k++) {
				b.model->forward.env.kernels = *k;
				context_rollback(&b.context, 0);
				struct run r = run_make(&b);
				if (k == kernels_available()) {
					first = r;
					continue;
				}
				assert_same_bits(&first, &r);
				run_free(&r);
			}
			run_free(&first);
			bench_close(&b);
		}
}

/* Every expert that the router picked is fetched once per chunk and layer, no more and no fewer,
 * and a second pass over the same text finds all of them in memory. */
static void every_routed_expert_is_applied_and_then_cached(void **state)
{
	(void)state;
	struct bench b;
	struct pager_stats cold, warm;
	bench_open(&b, "qwen3_moe",
		   &(struct engine_options){.quant = "bf16", .codec = "none", .chunk = 4096});
	struct run r = run_make(&b);
	engine_cache_stats(b.engine, &cold);
	uint64_t distinct = 0, picks = (uint64_t)GREEDY * r.routed * r.top_k;
	for (uint32_t layer = 0; layer < r.routed; layer++) {
		bool seen[CONFIG_MAX_EXPERTS] = {false};
		for (size_t i = 0; i < (size_t)r.tokens * r.top_k; i++)
			seen[(int)r.router_experts[layer * (size_t)r.tokens * r.top_k + i]] = true;
		for (uint32_t x = 0; x < r.experts; x++)
			distinct += seen[x];
	}
	assert_int_equal(cold.hits + cold.misses, distinct + picks);
	assert_int_equal(cold.bytes_read >= cold.misses * b.model->plan.record_bytes, 1);
	context_rollback(&b.context, 0);
	struct run again = run_make(&b);
	engine_cache_stats(b.engine, &warm);
	assert_int_equal(warm.misses, cold.misses);
	assert_int_equal(warm.hits - cold.hits, distinct + picks);
	assert_same_bits(&r, &again);
	run_free(&r);
	run_free(&again);
	bench_close(&b);
}

/* The fixture's are all 1: doubling the last one doubles the state after it, and nothing before. */
static void a_layers_scale_multiplies_the_stream_at_its_end(void **state)
{
	(void)state;
	struct bench b;
	bench_open(&b, "gemma4_moe", &(struct engine_options){.quant = "bf16"});
	struct run once = run_make(&b);
	size_t size = (size_t)once.tokens * once.width, last = once.layers * size;
	uint32_t layer = b.model->config.layers - 1;
	float *scale = (float *)b.model->weights.layer[layer].m[TENSOR_LAYER_SCALE].data;
	assert_true(*scale == 1);
	*scale = 2;
	context_rollback(&b.context, 0);
	struct run twice = run_make(&b);
	assert_memory_equal(once.states, twice.states, last * sizeof *once.states);
	for (size_t i = 0; i < size; i++)
		assert_true(twice.states[last + i] == 2 * once.states[last + i]);
	run_free(&once);
	run_free(&twice);
	bench_close(&b);
}

static int make_store_folder(void **state)
{
	(void)state;
	return mkdtemp(temporary) ? 0 : -1;
}

static int remove_store_folder(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -rf '%s'", temporary);
	return system(command); /* NOLINT(cert-env33-c): our own name */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_mode_agrees_with_the_reference),
		cmocka_unit_test(a_long_text_has_the_reference_likelihood),
		cmocka_unit_test(exact_mode_is_the_same_for_any_chunk_threads_and_cache),
		cmocka_unit_test(a_coded_store_computes_the_same_bits_as_a_plain_one),
		cmocka_unit_test(the_default_recipe_is_the_same_for_any_chunk_threads_and_cache),
		cmocka_unit_test(every_kernel_table_gives_the_same_bits),
		cmocka_unit_test(every_routed_expert_is_applied_and_then_cached),
		cmocka_unit_test(a_layers_scale_multiplies_the_stream_at_its_end),
	};
	return cmocka_run_group_tests(tests, make_store_folder, remove_store_folder);
}
