/* Models of which the GPU computes some parts of layers and the CPU the others: the CPU's logits, to the bit,
 * wherever the experts lie, and whatever becomes of contexts, rows and the GPU. */
#include "engine/compute/drafter.h"
#include "golden.h"
#include "gpu_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

/* What info/kernels says of each fixture: which parts the CPU computes, and why. */
#define EXPERTS "experts that are not on the GPU"
static const struct case_of {
	const char *fixture, *computes;
	uint32_t ways; /* in which it is computed, the first ones */
	bool fails;    /* the GPU also fails in the middle of a step */
} cases[] = {
	{"qwen3", "gpu: all layers", 1, false},
	{"smollm3", "gpu: all layers", 1, false},
	{"gemma3", "gpu: all layers", 1, false},
	{"qwen2_moe", "gpu: all layers; cpu: " EXPERTS, 2, false},
	{"olmoe", "gpu: all layers; cpu: " EXPERTS, 1, false},
	{"granitemoe", "gpu: all layers; cpu: " EXPERTS, 1, false},
	{"gpt_oss_mxfp4", "gpu: all layers; cpu: " EXPERTS, 3, false},
	{"qwen3_next", "gpu: all layers; cpu: " EXPERTS, 3, true},
	{"qwen3_5_moe", "gpu: all layers; cpu: the draft layer; " EXPERTS, 1, false},
	{"qwen3_5", "gpu: all layers; cpu: the draft layer", 1, false},
	{"lfm2_moe", "gpu: all else; cpu: mixers of layers 0-1, 3 (convolutions); " EXPERTS, 2, true},
	{"deepseek_v3_fp8", "gpu: all else; cpu: mixers of layers 0-2 (latent attention); " EXPERTS, 3, false},
	{"nemotron_h", "gpu: all else; cpu: mixers of layers 0, 2 (Mamba2); " EXPERTS, 3, true},
	{"nemotron_latent", "gpu: all else; cpu: mixers of layers 0 (Mamba2); " EXPERTS, 3, false},
	{"gemma4_moe", "gpu: all layers; cpu: " EXPERTS, 3, true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- what is compared ---- */

/* Prompts, an answer, drafts of which some do not stand, in two contexts; over a block's end. */
static void text(struct test_gpu *g, struct test_record *r)
{
	struct context x[2];
	for (uint32_t i = 0; i < 2; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 1, 34, ROW_PROMPT);
	test_rows_of(g, r, &x[1], 2, 61, ROW_PROMPT);
	for (uint32_t i = 0; i < 2; i++)
		test_step_of(g, r,
			     (struct test_rows[]){{&x[0], 1, 1, ROW_ANSWER, {0}, NULL},
						  {&x[1], 2, 4, ROW_DRAFT, {0}, NULL}},
			     2);
	context_rollback(&x[1], x[1].tokens.count - 2);
	test_step_of(g, r,
		     (struct test_rows[]){{&x[1], 4, 1, ROW_ANSWER, {0}, NULL},
					  {&x[0], 1, 9, ROW_PROMPT, {0}, NULL}},
		     2);
	/* Logits with a cap are bounded by the CPU. */
	const bool there = g != &test_cpu && test_gpu_computes(g) && g->v.config->logit_cap <= 0;
	assert_int_equal(test_draw(g, r, 5, UINT32_MAX), there ? 5 : 0);
	for (uint32_t i = 0; i < 2; i++)
		context_free(&x[i]);
}

static void go_on(struct test_gpu *g, struct forward_pass *p, uint32_t pieces, int more)
{
	struct err e;
	int result = forward_go_on(g->v.forward, p, pieces, &e);
	if (result < 0)
		fail_msg("%s", e.text);
	assert_int_equal(result, more);
}

/* A pass of two contexts waits after some layers, while another computes; then the rows of the first
 * context die. */
static void stop_after(struct test_gpu *g, struct test_record *r, uint32_t layers)
{
	struct context x[3];
	struct forward_pass p;
	struct test_step s;
	struct err e;
	_Atomic bool stop = false;
	for (uint32_t i = 0; i < 3; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[1], 1, 20, ROW_PROMPT);
	const struct test_rows rows[] = {{&x[0], 5, 3, ROW_PROMPT, {0}, &stop},
					 {&x[1], 1, 4, ROW_DRAFT, {0}, NULL}};
	if (forward_pass_init(&p, &g->v.forward->env, 64, &e))
		fail_msg("%s", e.text);
	test_step_begin(&s, g, r, rows, 2);
	assert_int_equal(forward_begin(g->v.forward, &p, &s.batch, s.logits, &e), 1);
	if (layers)
		go_on(g, &p, layers, 1);
	test_rows_of(g, r, &x[2], 3, 2, ROW_PROMPT);
	atomic_store(&stop, true);
	go_on(g, &p, UINT32_MAX, 0);
	assert_int_equal(s.account[0].end, SPAN_STOPPED);
	assert_int_equal(s.account[1].end, SPAN_DONE);
	test_step_end(&s);
	forward_pass_free(&p);
	test_rows_of(g, r, &x[1], 1, 1, ROW_ANSWER);
	for (uint32_t i = 0; i < 3; i++)
		context_free(&x[i]);
}

static void stops(struct test_gpu *g, struct test_record *r)
{
	for (uint32_t layers = 0; layers <= g->v.config->layers; layers++)
		stop_after(g, r, layers);
}

static void tapped(struct test_gpu *g, struct test_record *r)
{
	struct environment *env = &g->v.forward->env;
	struct context x;
	env->tap = test_tap;
	env->tap_ctx = r;
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 0, 9, ROW_PROMPT);
	test_rows_of(g, r, &x, 0, 1, ROW_ANSWER);
	env->tap = NULL;
	context_free(&x);
}

/* The draft layer's logits for two rows, the second after keys alone, and from the model's own norm. */
static void drafted(struct test_gpu *g, struct test_record *r)
{
	enum { ROWS = 3 };
	static const uint32_t tokens[ROWS] = {7, 3, 250};
	const size_t width = g->v.config->hidden_size, vocabulary = g->v.config->vocabulary;
	struct draft_layer d;
	struct context x, keys;
	struct err e;
	if (!g->v.plan->recipe.draft)
		return;
	float *logits = calloc(ROWS * vocabulary, sizeof *logits);
	float *hidden = calloc(ROWS * width, sizeof *hidden);
	assert_true(logits && hidden);
	drafter_layer_init(&d, g->v.forward);
	test_context_of(g, &x);
	context_init_draft(&keys, g->v.context_budget, g->v.config, g->v.kv);
	test_rows_of(g, r, &x, 6, ROWS, ROW_PROMPT);
	g->v.forward->env.backend->end(&g->v.forward->pass.step, TENSOR_FINAL_NORM, NULL, ROWS);
	memcpy(hidden, forward_normed(g->v.forward), ROWS * width * sizeof *hidden);
	assert_int_equal(drafter_layer_run(&d, &keys, tokens, hidden, ROWS, logits, &e), 0);
	test_record_floats(r, logits, ROWS * vocabulary);
	assert_int_equal(drafter_layer_keys(&d, &keys, tokens, hidden, 2, &e), 0);
	assert_int_equal(drafter_layer_run(&d, &keys, tokens, hidden, 1, NULL, &e), 0);
	test_record_floats(r, g->v.forward->logits, vocabulary);
	test_rows_of(g, r, &x, 6, 1, ROW_ANSWER);
	context_free(&keys);
	context_free(&x);
	free(logits);
	free(hidden);
}

/* A sum of what the observer sees, in any order: experts are computed as they come. */
static void saw(void *ctx, struct tensor_id id, const float *x, uint32_t cols, const uint32_t *rows,
		uint32_t n)
{
	uint64_t *sum = ctx, own = id.role * 31 + id.layer * 37 + id.expert * 41;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < cols; k++) {
			uint32_t bits;
			memcpy(&bits, &x[(size_t)(rows ? rows[i] : i) * cols + k], sizeof bits);
			own = (own ^ bits) * 0x100000001b3;
		}
	*sum += own;
}

/* A step that an observer sees, between others. */
static void observed(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	struct test_step s;
	struct err e;
	uint64_t sum = 0;
	const struct observer observer = {saw, &sum};
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 8, 9, ROW_PROMPT);
	test_step_begin(&s, g, r, &(struct test_rows){.x = &x, .seed = 8, .n = 5}, 1);
	s.account[0].observer = &observer;
	assert_int_equal(forward_run(g->v.forward, &s.batch, s.logits, &e), 0);
	test_step_end(&s);
	test_rows_of(g, r, &x, 8, 1, ROW_ANSWER);
	for (int i = 0; i < 4; i++)
		test_record_floats(r, &(float){(float)(sum >> 16 * i & 0xffff)}, 1);
	context_free(&x);
}

/* A text that leaves blocks of its windows behind, over a span's end, and goes back to where they are needed
 * again. */
static void windowed(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	if (!g->v.config->window)
		return;
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 9, 140, ROW_PROMPT);
	context_checkpoint(&x, 140);
	test_rows_of(g, r, &x, 9, 130, ROW_PROMPT);
	test_rows_of(g, r, &x, 9, 1, ROW_ANSWER);
	context_rollback(&x, 269);
	test_rows_of(g, r, &x, 10, 2, ROW_PROMPT);
	assert_int_equal(context_rollback(&x, 140), 140);
	test_rows_of(g, r, &x, 11, 3, ROW_PROMPT);
	test_rows_of(g, r, &x, 11, 1, ROW_ANSWER);
	context_free(&x);
}

static void all(struct test_gpu *g, struct test_record *r)
{
	windowed(g, r);
	observed(g, r);
	drafted(g, r);
	text(g, r);
	stops(g, r);
	tapped(g, r);
}

/* A step of two contexts in which the GPU may fail, after a text of several steps. */
static void fail_in(struct test_gpu *g, struct test_record *r, const char *word)
{
	struct context x[2];
	for (uint32_t i = 0; i < 2; i++) {
		test_context_of(g, &x[i]);
		test_rows_of(g, r, &x[i], i, 9, ROW_PROMPT);
		test_rows_of(g, r, &x[i], i, 3, ROW_DRAFT);
		context_rollback(&x[i], 11);
	}
	test_driver_be(word);
	test_step_of(g, r,
		     (struct test_rows[]){{&x[0], 0, 2, ROW_PROMPT, {0}, NULL},
					  {&x[1], 1, 3, ROW_DRAFT, {0}, NULL}},
		     2);
	for (uint32_t i = 0; i < 2; i++) {
		test_rows_of(g, r, &x[i], i, 1, ROW_ANSWER);
		context_free(&x[i]);
	}
}

/* ---- on the CPU and on the GPU ---- */

static const struct way {
	enum test_held held;
	const char *when, *size; /* size: of the GPU */
} ways[] = {{HELD_ALL, "late", "large"}, {HELD_SOME, "early", "small"}, {HELD_NONE, "late", "small"}};

static void assert_computes(const struct test_gpu *g, const char *want)
{
	char text[512];
	assert_int_equal(model_fact(g->m.model, FACT_COMPUTES, text, sizeof text) < 0, 0);
	assert_string_equal(text, want);
}

/* Of experts that the CPU computes. */
static void assert_refuses_pins(const struct test_gpu *g)
{
	struct err e;
	assert_int_equal(model_experts_pin_gpu(g->m.model, &(struct pager_id){1, 2}, 1, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "the CPU computes the experts of layer 1: the GPU cannot compute "));
}

static void compare_on(const struct way *w, const struct case_of *c, const struct test_record *want)
{
	struct test_record got = {0};
	struct test_gpu g;
	test_driver_be(w->when);
	test_driver_be(w->size);
	test_gpu_open(&g, w->held);
	all(&g, &got);
	if (!test_gpu_computes(&g))
		fail_msg("%s", test_gpu_no_card(&g).text);
	test_record_same(&got, want);
	assert_computes(&g, c->computes);
	if (g.v.plan->routed_layers && !strstr(c->computes, EXPERTS))
		assert_refuses_pins(&g);
	test_record_free(&got);
	test_gpu_close(&g);
}

/* The launch after `launches` others fails. False: there were no more. */
static bool fail_after(uint32_t launches, const struct test_record *want)
{
	struct test_record got = {0};
	struct test_gpu g;
	char word[32];
	(void)snprintf(word, sizeof word, "wild-after=%u", launches);
	test_gpu_open(&g, HELD_ALL);
	fail_in(&g, &got, word);
	bool failed = !test_gpu_computes(&g);
	test_driver_be("");
	test_record_same_logits(&got, want);
	test_record_free(&got);
	test_gpu_close(&g);
	return failed;
}

static void fail_everywhere(void)
{
	struct test_record want = {0};
	uint32_t launches = 0;
	if (test_driver_is_real())
		return;
	fail_in(&test_cpu, &want, "late");
	while (fail_after(launches, &want))
		launches += 11;
	assert_true(launches > 11);
	test_record_free(&want);
}

static void compare(const struct case_of *c)
{
	struct test_record want = {0};
	all(&test_cpu, &want);
	for (uint32_t i = 0; i < c->ways; i++)
		compare_on(&ways[i], c, &want);
	test_record_free(&want);
}

static void what_the_gpu_cannot_compute_the_cpu_does(void **state)
{
	for (uint32_t i = 0; i < CASES; i++) {
		if (!test_fixture(cases[i].fixture))
			continue;
		print_message("%s\n", cases[i].fixture);
		assert_int_equal(test_gpu_setup_of(state, cases[i].fixture), 0);
		compare(&cases[i]);
		if (cases[i].fails)
			fail_everywhere();
		assert_int_equal(test_gpu_teardown(state), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_gpu_cannot_compute_the_cpu_does),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
