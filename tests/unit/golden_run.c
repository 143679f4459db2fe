/* Runs a model's forward pass and compares it with golden numbers (golden_run.h). */
#include "golden_run.h"
#include "forward_help.h"
#include "session_help.h"

#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double tolerance; /* L2, relative, of a row */

/* 2e-5, or what the reference itself moves when it computes token by token in place of all at once,
 * over the deviation of its logits (golden.json beside the numbers): 4.6e-5 of gemma4_ple, less of
 * all others. */
static void set_tolerance(const char *golden)
{
	char path[1024];
	const char *end = strrchr(golden, '/');
	struct json_object *checks, *moved, *deviation;
	(void)snprintf(path, sizeof path, "%.*sgolden.json", end ? (int)(end + 1 - golden) : 0,
		       golden);
	struct json_object *all = json_object_from_file(path);
	tolerance = 2e-5;
	if (json_object_object_get_ex(all, "checks", &checks) &&
	    json_object_object_get_ex(checks, "cached_logits_differ_by", &moved) &&
	    json_object_object_get_ex(checks, "logits_std", &deviation))
		tolerance = fmax(tolerance, json_object_get_double(moved) /
						    json_object_get_double(deviation));
	json_object_put(all);
}

/* ---- a model with its forward pass laid open ---- */

void golden_bench_open(struct golden_bench *b, const char *model, const char *golden,
		       const struct engine_options *options)
{
	struct err e = {0};
	if (engine_create(&b->engine, options, &e) || model_open(&b->model, b->engine, model, &e))
		fail_msg("%s", e.text);
	test_wait_converted(b->model);
	observe_model(b->model, &b->view);
	context_init(&b->context, b->view.context_budget, b->view.config, b->view.kv);
	b->golden = golden_open(golden);
	set_tolerance(golden);
}

void golden_bench_close(struct golden_bench *b)
{
	golden_close(b->golden);
	context_free(&b->context);
	model_close(b->model);
	engine_destroy(b->engine);
}

/* A draft layer's experts are in the plan, but no text passes through them. */
static uint32_t routed_layers(const struct config *c)
{
	uint32_t count = 0;
	for (uint32_t layer = 0; layer < c->layers; layer++)
		count += config_routed(c, layer);
	return count;
}

float *golden_array(size_t count)
{
	float *a = calloc(count + 1, sizeof *a);
	assert_non_null(a);
	return a;
}

static void record(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
		   uint32_t tokens, uint32_t width, const float *rows)
{
	struct golden_run *r = ctx;
	if (position + tokens > r->tokens)
		return; /* the greedy continuation */
	if (point == TAP_INDEX_SCORES || point == TAP_INDEX_CHOICE) {
		golden_index_record(&r->index, point, layer, position, width, rows);
		return;
	}
	float *const to[] = {[TAP_STATE] = r->states,
			     [TAP_NORMED] = r->normed,
			     [TAP_ROUTER_LOGITS] = r->router_logits,
			     [TAP_ROUTER_WEIGHTS] = r->router_weights,
			     [TAP_ROUTER_EXPERTS] = r->router_experts};
	memcpy(to[point] + ((size_t)layer * r->tokens + position) * width, rows,
	       (size_t)tokens * width * sizeof *rows);
}

/* The same of a text that the context is for. */
static void golden_compute_more(struct golden_bench *b, const int32_t *ids, uint32_t n, float *logits)
{
	struct forward *f = b->view.forward;
	struct err e = {0};
	uint32_t tokens[4096];
	for (uint32_t i = 0; i < n; i++)
		tokens[i] = (uint32_t)ids[i];
	for (uint32_t done = 0; done < n; done += f->chunk) {
		uint32_t count = n - done < f->chunk ? n - done : f->chunk;
		if (test_step(f, &b->context, tokens + done, count,
			      logits + (size_t)done * b->view.config->vocabulary, &e))
			fail_msg("%s", e.text);
	}
}

/* Computes ids in the engine's chunks, logits of every row. */
void golden_compute(struct golden_bench *b, const int32_t *ids, uint32_t n, float *logits)
{
	context_suit(&b->context, n);
	golden_compute_more(b, ids, n, logits);
}

/* A text that passes its limit with the next token is computed again, as one that is long. */
static void pass_limit(struct golden_bench *b, const uint32_t *greedy, uint32_t held)
{
	struct golden_tensor prompt = golden_get(b->golden, "input_ids", "I32");
	uint32_t n = (uint32_t)prompt.count + held;
	if (b->context.long_text || !context_is_long(&b->context, n + 1))
		return;
	int32_t *ids = calloc(n + 1, sizeof *ids);
	float *logits = golden_array((size_t)n * b->view.config->vocabulary);
	assert_non_null(ids);
	memcpy(ids, prompt.data, prompt.count * sizeof *ids);
	for (uint32_t i = 0; i < held; i++)
		ids[prompt.count + i] = (int32_t)greedy[i];
	tap_fn *tap = b->view.forward->env.tap;
	b->view.forward->env.tap = NULL; /* what it recorded is of the short text */
	context_suit(&b->context, n + 1);
	golden_compute_more(b, ids, n, logits);
	b->view.forward->env.tap = tap;
	free(logits);
	free(ids);
}

static void continue_greedily(struct golden_bench *b, const float *last_row, uint32_t *greedy)
{
	struct err e = {0};
	const float *logits = last_row;
	for (int i = 0; i < GOLDEN_GREEDY; i++) {
		greedy[i] = sampler_greedy(logits, b->view.config->vocabulary);
		pass_limit(b, greedy, (uint32_t)i);
		if (test_step(b->view.forward, &b->context, &greedy[i], 1, NULL, &e))
			fail_msg("%s", e.text);
		logits = b->view.forward->logits;
	}
}

struct golden_run golden_run_make(struct golden_bench *b)
{
	const struct config *c = b->view.config;
	struct golden_tensor ids = golden_get(b->golden, "input_ids", "I32");
	struct golden_run r = {
		.tokens = (uint32_t)ids.count,
		.width = c->hidden_size,
		.state_width = config_stream_width(c),
		.layers = c->layers,
		.vocabulary = c->vocabulary,
		.routed = routed_layers(b->view.config),
		.top_k = c->experts_per_token,
		.experts = c->experts,
	};
	r.logits = golden_array((size_t)r.tokens * r.vocabulary);
	r.states = golden_array((size_t)(r.layers + 1) * r.tokens * r.state_width);
	r.normed = golden_array((size_t)r.tokens * r.width);
	r.router_logits = golden_array((size_t)r.routed * r.tokens * r.experts);
	r.router_weights = golden_array((size_t)r.routed * r.tokens * r.top_k);
	r.router_experts = golden_array((size_t)r.routed * r.tokens * r.top_k);
	golden_index_open(&r.index, c, r.tokens);
	b->view.forward->env.tap = record;
	b->view.forward->env.tap_ctx = &r;
	golden_compute(b, ids.data, r.tokens, r.logits);
	continue_greedily(b, r.logits + (size_t)(r.tokens - 1) * r.vocabulary, r.greedy);
	b->view.forward->env.tap = NULL;
	return r;
}

void golden_run_free(struct golden_run *r)
{
	free(r->logits);
	free(r->states);
	free(r->normed);
	free(r->router_logits);
	free(r->router_weights);
	free(r->router_experts);
	golden_index_close(&r->index);
}

/* ---- comparisons ---- */

double golden_worst;

void golden_compare_rows(const char *what, const float *got, const float *want, size_t rows,
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
		if (relative > golden_worst)
			golden_worst = relative;
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

static void compare_routing(const struct golden_bench *b, const struct golden_run *r)
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
		/* Of MiniMax M3 the reference has them before the factor. */
		bool before = !strcmp(b->view.config->model_type, "minimax_m3_vl");
		for (size_t i = 0; i < picks && before; i++)
			r->router_weights[layer * picks + i] /= b->view.config->routed_scaling;
		golden_compare_rows(name, r->router_weights + layer * picks,
				    golden_get(b->golden, name, "F32").data, r->tokens, r->top_k);
		snprintf(name, sizeof name, "router.%u.logits", layer);
		float *logits = r->router_logits + (size_t)layer * r->tokens * r->experts;
		if (!strncmp(b->view.config->model_type, "gemma4", 6))
			make_probabilities(logits, r->tokens, r->experts);
		golden_compare_rows(name, logits, golden_get(b->golden, name, "F32").data,
				    r->tokens, r->experts);
	}
}

double golden_logits_error(const struct golden_bench *b, const struct golden_run *r)
{
	const float *want = golden_get(b->golden, "logits", "F32").data;
	double error = 0, power = 0;
	for (size_t i = 0; i < (size_t)r->tokens * r->vocabulary; i++) {
		double d = (double)r->logits[i] - (double)want[i];
		error += d * d;
		power += (double)want[i] * (double)want[i];
	}
	return error / power;
}

void golden_compare(const struct golden_bench *b, const struct golden_run *r)
{
	const float *states = golden_get(b->golden, "states", "F32").data;
	size_t layer_size = (size_t)r->tokens * r->state_width;
	for (uint32_t layer = 0; layer <= r->layers; layer++) {
		char name[32];
		snprintf(name, sizeof name, "state after layer %u", layer);
		golden_compare_rows(name, r->states + layer * layer_size,
				    states + layer * layer_size, r->tokens, r->state_width);
	}
	golden_compare_rows("normed", r->normed, golden_get(b->golden, "normed", "F32").data,
			    r->tokens, r->width);
	golden_compare_rows("logits", r->logits, golden_get(b->golden, "logits", "F32").data,
			    r->tokens, r->vocabulary);
	compare_routing(b, r);
	golden_index_compare(&r->index, b->golden);
	const int32_t *greedy = golden_get(b->golden, "greedy_ids", "I32").data;
	for (int i = 0; i < GOLDEN_GREEDY; i++)
		assert_int_equal(r->greedy[i], greedy[i]);
}

void golden_assert_same_bits(const struct golden_run *a, const struct golden_run *b)
{
	size_t tokens = a->tokens;
	assert_memory_equal(a->states, b->states,
			    (a->layers + 1) * tokens * a->state_width * sizeof(float));
	assert_memory_equal(a->router_experts, b->router_experts,
			    a->routed * tokens * a->top_k * sizeof(float));
	assert_memory_equal(a->logits, b->logits, tokens * a->vocabulary * sizeof(float));
	assert_memory_equal(a->greedy, b->greedy, sizeof a->greedy);
}

/* ---- a long text ---- */

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

static void record_index(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			 uint32_t tokens, uint32_t width, const float *rows)
{
	(void)tokens;
	if (point == TAP_INDEX_SCORES || point == TAP_INDEX_CHOICE)
		golden_index_record(ctx, point, layer, position, width, rows);
}

void golden_compare_long(struct golden_bench *b, double want)
{
	struct golden_tensor ids = golden_get(b->golden, "long_input_ids", "I32");
	uint32_t n = (uint32_t)ids.count, vocabulary = b->view.config->vocabulary;
	float *logits = golden_array((size_t)n * vocabulary);
	struct golden_index index;
	golden_index_open(&index, b->view.config, n);
	b->view.forward->env.tap = record_index;
	b->view.forward->env.tap_ctx = &index;
	golden_compute(b, ids.data, n, logits);
	b->view.forward->env.tap = NULL;
	golden_index_compare_last(&index, b->golden);
	golden_index_close(&index);
	golden_compare_rows("the last rows of the long text", logits + (size_t)(n - 4) * vocabulary,
			    golden_get(b->golden, "long_logits_last4", "F32").data, 4, vocabulary);
	double nll = mean_nll(logits, ids.data, n, vocabulary);
	if (!(fabs(nll - want) < 1e-5))
		fail_msg("%s: mean nll %.7f, not %.7f", model_name(b->model), nll, want);
	free(logits);
}
