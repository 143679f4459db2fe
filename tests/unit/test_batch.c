/* Rows of several contexts in one step: each has the same bits as alone, whatever the others are,
 * and all together read an expert once. */
#include "engine/admin/observe.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static struct test_model model;
static struct model_view view;
static struct err e;

static void load(const char *fixture, const char *quant, uint32_t threads, uint64_t budget)
{
	test_model_open(
		&model, test_fixture(fixture),
		&(struct engine_options){.quant = quant, .threads = threads, .budget = budget});
	test_wait_converted(model.model);
	observe_model(model.model, &view);
}

static void begin(struct context *x)
{
	context_init(x, view.context_budget, view.config, view.kv);
}

static float *array(size_t count)
{
	float *a = calloc(count, sizeof *a);
	assert_non_null(a);
	return a;
}

/* ---- contexts, and the rows that follow ---- */

enum { POSITIONS = 80, CONTEXTS = 3, WANTED = 7 };
enum { VERIFIED, PROMPT, ANSWER }; /* as they stand in the batch */

/* Different texts at unrelated positions. */
static const struct part {
	uint32_t seed, held, rows;
	enum row_kind kind;
} parts[CONTEXTS] = {
	[VERIFIED] = {11, 60, 4, ROW_ANSWER},
	[PROMPT] = {5, 20, 21, ROW_PROMPT},
	[ANSWER] = {23, 70, 1, ROW_ANSWER},
};

static void text_of(const struct part *p, uint32_t text[POSITIONS])
{
	for (uint32_t i = 0; i < POSITIONS; i++)
		text[i] = (i * i * 7 + i * p->seed + p->seed) % 380;
}

/* A context that holds the tokens before its rows. If `drafted`, the context has verified earlier
 * drafts whose last token was rejected: its recurrent state is behind. */
static void prepare(struct context *x, const struct part *p, bool drafted)
{
	struct forward *f = view.forward;
	uint32_t text[POSITIONS];
	uint32_t before = drafted && p == &parts[VERIFIED] ? ANSWER_ROWS - 1 : 0;
	text_of(p, text);
	begin(x);
	if (test_step(f, x, text, p->held - before, NULL, &e))
		fail_msg("%s", e.text);
	if (before && test_verify(f, x, text + p->held - before, ANSWER_ROWS, NULL, &e))
		fail_msg("%s", e.text);
	assert_int_equal(context_rollback(x, p->held), p->held);
}

static void add_rows(struct step_batch *b, struct context *x, const struct part *p)
{
	uint32_t text[POSITIONS], first = b->count;
	text_of(p, text);
	if (test_add(b, x, text + p->held, p->rows, p->kind, p->kind != ROW_PROMPT, &e))
		fail_msg("%s", e.text);
	if (p->kind == ROW_PROMPT)
		b->rows[first + 4].logits = b->rows[b->count - 1].logits = true;
}

/* ---- results of a step ---- */

struct result {
	uint32_t layers, width, state_width, vocabulary;
	float *states; /* [layers + 1][POSITIONS][state_width]: all residual streams */
	float *normed; /* [POSITIONS][width] */
	float *logits; /* [WANTED][vocabulary] */
	float *next;   /* [CONTEXTS][vocabulary]: of a row after the accepted ones */
};

static void record(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t n,
		   uint32_t width, const float *rows)
{
	struct result *r = ctx;
	float *to = point == TAP_STATE	  ? r->states + (size_t)layer * POSITIONS * width
		    : point == TAP_NORMED ? r->normed
					  : NULL;
	if (to)
		memcpy(to + (size_t)position * width, rows, (size_t)n * width * sizeof *rows);
}

static struct result result_new(void)
{
	const struct config *c = view.config;
	struct result r = {
		.layers = c->layers,
		.width = c->hidden_size,
		.state_width = config_stream_width(c),
		.vocabulary = c->vocabulary,
	};
	r.states = array((size_t)(r.layers + 1) * POSITIONS * r.state_width);
	r.normed = array((size_t)POSITIONS * r.width);
	r.logits = array((size_t)WANTED * r.vocabulary);
	r.next = array((size_t)CONTEXTS * r.vocabulary);
	return r;
}

static void result_free(struct result *r)
{
	free(r->states);
	free(r->normed);
	free(r->logits);
	free(r->next);
}

static void run(struct step_batch *b, struct result *r, float *logits)
{
	struct forward *f = view.forward;
	f->env.tap = record;
	f->env.tap_ctx = r;
	b->normed = true;
	if (forward_run(f, b, logits, &e))
		fail_msg("%s", e.text);
	f->env.tap = NULL;
	step_batch_clear(b);
}

/* Two of the verified rows are accepted. One more token of each context shows the state after the
 * step: it must equal that of a context that read the accepted tokens as a prompt. */
static void go_on(struct context *x, struct result *r)
{
	for (int i = 0; i < CONTEXTS; i++) {
		uint32_t text[POSITIONS], stands = parts[i].rows - (i == VERIFIED ? 2 : 0),
					  held = x ? parts[i].held + stands : 0,
					  n = parts[i].held + stands + 1 - held;
		struct forward *f = view.forward;
		struct context fresh, *at = x ? &x[i] : &fresh;
		begin(&fresh);
		text_of(&parts[i], text);
		assert_int_equal(context_rollback(at, held), held);
		if (test_step(f, at, text + held, n, NULL, &e))
			fail_msg("%s", e.text);
		memcpy(r->next + (size_t)i * r->vocabulary, f->logits,
		       r->vocabulary * sizeof *r->next);
		context_free(&fresh);
	}
}

static struct result compute(bool together)
{
	struct context x[CONTEXTS];
	struct result r = result_new();
	struct step_batch b = {0};
	uint32_t wanted = 0;
	for (int i = 0; i < CONTEXTS; i++)
		prepare(&x[i], &parts[i], together);
	for (int i = 0; i < CONTEXTS; i++) {
		uint32_t rows = parts[i].kind == ROW_PROMPT ? 2 : parts[i].rows;
		add_rows(&b, &x[i], &parts[i]);
		if (!together)
			run(&b, &r, r.logits + (size_t)wanted * r.vocabulary);
		wanted += rows;
	}
	assert_int_equal(wanted, WANTED);
	if (together)
		run(&b, &r, r.logits);
	go_on(together ? x : NULL, &r);
	for (int i = 0; i < CONTEXTS; i++)
		context_free(&x[i]);
	step_batch_free(&b);
	return r;
}

static void assert_same(const struct result *want, const struct result *got)
{
	size_t rows = (size_t)POSITIONS * want->width,
	       states = (size_t)POSITIONS * want->state_width * (want->layers + 1);
	assert_memory_equal(got->states, want->states, states * sizeof(float));
	assert_memory_equal(got->normed, want->normed, rows * sizeof(float));
	assert_memory_equal(got->logits, want->logits,
			    (size_t)WANTED * want->vocabulary * sizeof(float));
	assert_memory_equal(got->next, want->next,
			    (size_t)CONTEXTS * want->vocabulary * sizeof(float));
}

/* ---- tests ---- */

static const char *const fixtures[] = {"qwen3", "qwen3_moe", "qwen3_5", "qwen3_5_moe",
				       "qwen4_exp", "glm_moe_dsa", "minimax_m3", "glm5_next",
				       "deepseek_v4"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static uint64_t one_expert(void)
{
	const struct plan *p = view.plan;
	return p->routed_layers ? pager_slot_bytes(p->slot_bytes) : 0;
}

static void assert_same_in_company(const char *fixture, const char *quant)
{
	static const uint32_t threads[] = {1, 2, 4};
	load(fixture, quant, 1, 0);
	struct result alone = compute(false);
	uint64_t budget = one_expert();
	test_model_close(&model);
	for (int t = 0; t < 3; t++)
		for (int small = 0; small <= (budget != 0); small++) {
			load(fixture, quant, threads[t], small ? budget : 0);
			struct result r = compute(true);
			assert_same(&alone, &r);
			result_free(&r);
			test_model_close(&model);
		}
	result_free(&alone);
}

static void a_row_does_not_depend_on_its_company_in_exact_mode(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		assert_same_in_company(fixtures[i], "bf16");
}

static void a_row_does_not_depend_on_its_company_in_the_default_recipe(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++)
		assert_same_in_company(fixtures[i], NULL);
}

/* A cache of one expert: a batch reads exactly the experts that its rows need. Two contexts with
 * the same text need the same. */
static void an_expert_that_several_rows_chose_is_read_once(void **state)
{
	(void)state;
	struct pager_stats before, after;
	uint64_t misses[2];
	load("qwen3_moe", "bf16", 2, 0);
	uint64_t budget = one_expert();
	test_model_close(&model);
	test_model_open(&model, test_fixture("qwen3_moe"),
			&(struct engine_options){.quant = "bf16", .budget = budget});
	test_model_load_calm(&model);
	observe_model(model.model, &view);
	for (int contexts = 1; contexts <= 2; contexts++) {
		struct context x[2];
		struct step_batch b = {0};
		for (int i = 0; i < contexts; i++) {
			prepare(&x[i], &parts[ANSWER], false);
			add_rows(&b, &x[i], &parts[ANSWER]);
		}
		engine_cache_stats(model.engine, &before);
		if (forward_run(view.forward, &b, NULL, &e))
			fail_msg("%s", e.text);
		engine_cache_stats(model.engine, &after);
		misses[contexts - 1] = after.misses - before.misses;
		for (int i = 0; i < contexts; i++)
			context_free(&x[i]);
		step_batch_free(&b);
	}
	assert_true(misses[0] > 1);
	assert_int_equal(misses[1], misses[0]);
	test_model_close(&model);
}

/* Logits of one row that passes through two experts, alone or beside one that passes through all.
 */
static float *logits_with(struct losses losses, bool company)
{
	struct context x[2];
	struct step_batch b = {0};
	float *logits = array(2 * (size_t)view.config->vocabulary);
	prepare(&x[0], &parts[ANSWER], false);
	prepare(&x[1], &parts[VERIFIED], false);
	add_rows(&b, &x[0], &parts[ANSWER]);
	b.rows[0].losses = losses;
	if (company) {
		add_rows(&b, &x[1], &parts[VERIFIED]);
		for (uint32_t t = 1; t < b.count; t++)
			b.rows[t].logits = t == 1;
	}
	if (forward_run(view.forward, &b, logits, &e))
		fail_msg("%s", e.text);
	context_free(&x[0]);
	context_free(&x[1]);
	step_batch_free(&b);
	return logits;
}

static void losses_are_of_the_rows_that_ask_for_them(void **state)
{
	(void)state;
	load("qwen3_moe", "bf16", 2, 0);
	size_t row = view.config->vocabulary * sizeof(float);
	struct losses few = {.experts_per_token = 2}, none = {0};
	float *alone = logits_with(few, false), *lossless = logits_with(none, true),
	      *beside = logits_with(few, true);
	assert_memory_equal(beside, alone, row);
	assert_memory_not_equal(beside, lossless, row);
	/* The other rows are computed without loss. */
	assert_memory_equal(beside + view.config->vocabulary, lossless + view.config->vocabulary,
			    row);
	free(alone);
	free(lossless);
	free(beside);
	test_model_close(&model);
}

static void a_step_that_is_stopped_leaves_every_context_as_it_was(void **state)
{
	(void)state;
	load("qwen3_5_moe", "bf16", 2, 0);
	struct forward *f = view.forward;
	struct result alone = compute(false), r = result_new();
	struct context x[CONTEXTS];
	struct step_batch b = {0};
	struct step_account accounts[CONTEXTS] = {0};
	for (int i = 0; i < CONTEXTS; i++) {
		uint32_t first = b.count;
		prepare(&x[i], &parts[i], true);
		recurrent_checkpoint(&x[i].recurrent, x[i].tokens.count);
		add_rows(&b, &x[i], &parts[i]);
		accounts[i].stop = &test_stopped;
		for (uint32_t t = first; t < b.count; t++)
			b.rows[t].account = &accounts[i];
	}
	f->env.tap = test_stop_at_state;
	test_states_left = 2 * CONTEXTS; /* after the first layer */
	assert_int_equal(forward_run(f, &b, r.logits, &e), 0);
	atomic_store(&test_stopped, false);
	for (int i = 0; i < CONTEXTS; i++) {
		assert_int_equal(accounts[i].end, SPAN_STOPPED);
		assert_int_equal(x[i].tokens.count, parts[i].held);
	}
	run(&b, &r, r.logits);
	go_on(x, &r);
	assert_same(&alone, &r);
	for (int i = 0; i < CONTEXTS; i++)
		context_free(&x[i]);
	step_batch_free(&b);
	result_free(&r);
	result_free(&alone);
	test_model_close(&model);
}

static void refused(const struct step_batch *b)
{
	struct forward *f = view.forward;
	float *logits = array((size_t)(b->count + 1) * view.config->vocabulary);
	assert_int_equal(forward_run(f, b, logits, &e), -EINVAL);
	free(logits);
}

/* Changes one row of a valid batch, and back. */
#define REFUSED(b, change)                           \
	do {                                         \
		struct step_row kept[16];            \
		memcpy(kept, (b).rows, sizeof kept); \
		change;                              \
		refused(&(b));                       \
		memcpy((b).rows, kept, sizeof kept); \
	} while (0)

static void rows_that_do_not_follow_their_context_are_refused(void **state)
{
	(void)state;
	static const uint32_t ids[16] = {1, 2, 3, 4, 5, 6, 7};
	load("qwen3_5_moe", "bf16", 2, 0);
	struct context one, other;
	struct step_batch b = {0}, empty = {0};
	begin(&one);
	begin(&other);
	if (test_add(&b, &one, ids, ANSWER_ROWS, ROW_ANSWER, false, &e) ||
	    test_add(&b, &other, ids, 16 - ANSWER_ROWS, ROW_PROMPT, false, &e))
		fail_msg("%s", e.text);
	refused(&empty);
	REFUSED(b, b.rows[0].position = 1);
	REFUSED(b, b.rows[2].position = 3);
	REFUSED(b, b.rows[0].kind = ROW_DRAFT);
	REFUSED(b, b.rows[3].kind = ROW_ANSWER); /* after a draft */
	REFUSED(b, b.rows[8].kind = ROW_ANSWER); /* among a prompt's */
	REFUSED(b, b.rows[15] = b.rows[0]);	 /* not beside its others */
	REFUSED(b, b.rows[1].losses.experts_per_token = 1);
	REFUSED(b, for (int t = 7; t < 16; t++) b.rows[t].kind = ROW_DRAFT);
	for (int t = 0; t < 16; t++)
		b.rows[t].logits = true;
	assert_int_equal(forward_run(view.forward, &b, NULL, &e), -EINVAL);
	view.forward->chunk = 15;
	refused(&b);
	assert_int_equal(one.tokens.count + other.tokens.count, 0);
	context_free(&one);
	context_free(&other);
	step_batch_free(&b);
	test_model_close(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_does_not_depend_on_its_company_in_exact_mode),
		cmocka_unit_test(a_row_does_not_depend_on_its_company_in_the_default_recipe),
		cmocka_unit_test(an_expert_that_several_rows_chose_is_read_once),
		cmocka_unit_test(losses_are_of_the_rows_that_ask_for_them),
		cmocka_unit_test(a_step_that_is_stopped_leaves_every_context_as_it_was),
		cmocka_unit_test(rows_that_do_not_follow_their_context_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
