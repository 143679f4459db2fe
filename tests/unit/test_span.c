/* The spans of a step end for themselves: one that is stopped, or whose expert cannot be read, is
 * as if it had never been in the step, and the others are to the bit what they are alone. And a
 * step can wait between two layers. */
#include "engine/admin/observe.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/layers.h"
#include "fault_io.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static struct test_model model;
static struct model_view view;
static struct err e;

static void load(const char *fixture, uint32_t threads)
{
	test_model_open(&model, test_fixture(fixture),
			&(struct engine_options){.threads = threads});
	test_wait_converted(model.model); /* until then experts may be made instead of read */
	test_model_load_calm(&model);
	observe_model(model.model, &view);
}

/* ---- three contexts, and the rows that follow ---- */

enum { SPANS = 3, ROWS = 8, POSITIONS = 48 };

static const struct part {
	uint32_t seed, held, rows, first; /* first row of the batch */
	enum row_kind kind;
} parts[SPANS] = {
	{11, 40, 4, 0, ROW_ANSWER}, /* verifies three drafts */
	{5, 20, 3, 4, ROW_PROMPT},
	{23, 33, 1, 7, ROW_ANSWER},
};

static void text_of(const struct part *p, uint32_t text[POSITIONS])
{
	for (uint32_t i = 0; i < POSITIONS; i++)
		text[i] = (i * i * 7 + i * p->seed + p->seed) % 380;
}

static uint32_t certain(const struct part *p)
{
	return p->kind == ROW_PROMPT ? p->rows : 1;
}

struct company {
	struct context x[SPANS];
	struct step_account account[SPANS];
	struct step_batch batch;
	float *logits; /* [ROWS][vocabulary] */
};

static size_t vocabulary(void)
{
	return view.config->vocabulary;
}

static void company_open(struct company *c)
{
	uint32_t text[POSITIONS];
	*c = (struct company){.logits = calloc(ROWS * vocabulary(), sizeof(float))};
	for (int i = 0; i < SPANS; i++) {
		context_init(&c->x[i], view.context_budget, view.config, view.kv);
		text_of(&parts[i], text);
		if (test_step(view.forward, &c->x[i], text, parts[i].held, NULL, &e) ||
		    test_add(&c->batch, &c->x[i], text + parts[i].held, parts[i].rows,
			     parts[i].kind, true, &e))
			fail_msg("%s", e.text);
		context_checkpoint(&c->x[i], parts[i].held);
		for (uint32_t t = parts[i].first; t < c->batch.count; t++)
			c->batch.rows[t].account = &c->account[i];
	}
}

static void company_close(struct company *c)
{
	for (int i = 0; i < SPANS; i++)
		context_free(&c->x[i]);
	step_batch_free(&c->batch);
	free(c->logits);
}

/* ---- what each row gives alone ---- */

static float *alone; /* [ROWS][vocabulary] */
static float *next;  /* [SPANS][vocabulary]: of a token after all of a span's rows */

static void one_more(struct context *x, const struct part *p, float *to)
{
	uint32_t text[POSITIONS], at = p->held + p->rows;
	text_of(p, text);
	assert_int_equal(x->tokens.count, at);
	if (test_step(view.forward, x, text + at, 1, NULL, &e))
		fail_msg("%s", e.text);
	memcpy(to, view.forward->logits, vocabulary() * sizeof *to);
}

/* Computes a span's rows, alone. */
static void rows_alone(struct context *x, const struct part *p, float *to)
{
	uint32_t text[POSITIONS];
	text_of(p, text);
	if ((p->kind == ROW_PROMPT ? test_step : test_verify)(view.forward, x, text + p->held,
							      p->rows, to, &e))
		fail_msg("%s", e.text);
}

static void compute_alone(void)
{
	struct company c;
	alone = calloc(ROWS * vocabulary(), sizeof *alone);
	next = calloc(SPANS * vocabulary(), sizeof *next);
	company_open(&c);
	for (int i = 0; i < SPANS; i++) {
		rows_alone(&c.x[i], &parts[i], alone + parts[i].first * vocabulary());
		one_more(&c.x[i], &parts[i], next + i * vocabulary());
	}
	company_close(&c);
}

static void forget_alone(void)
{
	free(alone);
	free(next);
}

static void assert_rows(const float *got, uint32_t first, uint32_t n)
{
	assert_memory_equal(got + first * vocabulary(), alone + first * vocabulary(),
			    n * vocabulary() * sizeof *got);
}

/* The first `rows` of a span stand: those and all that follows are what they are alone. If none do,
 * the context is where the span began, and the span can be computed again. */
static void assert_span(struct company *c, int i, uint32_t rows)
{
	const struct part *p = &parts[i];
	struct context *x = &c->x[i];
	float *one = calloc(vocabulary(), sizeof *one);
	uint32_t text[POSITIONS];
	text_of(p, text);
	assert_int_equal(c->account[i].rows, rows);
	assert_int_equal(x->tokens.count, p->held + rows);
	assert_rows(c->logits, p->first, rows);
	if (!rows)
		rows_alone(x, p, c->logits + p->first * vocabulary());
	else if (rows < p->rows &&
		 test_step(view.forward, x, text + p->held + rows, p->rows - rows, NULL, &e))
		fail_msg("%s", e.text);
	else if (rows < p->rows)
		memcpy(c->logits + (p->first + p->rows - 1) * vocabulary(), view.forward->logits,
		       vocabulary() * sizeof *one);
	assert_rows(c->logits, p->first + p->rows - 1, 1);
	one_more(x, p, one);
	assert_memory_equal(one, next + i * vocabulary(), vocabulary() * sizeof *one);
	free(one);
}

/* ---- which rows chose an expert ---- */

enum { MOST = 64 };
static uint32_t chosen[MOST][MOST]; /* [layer][expert]: a bit for each row of the batch */

static void choice(void *ctx, const struct picks *p)
{
	(void)ctx;
	for (uint32_t row = 0; row < p->span->n; row++)
		for (uint32_t i = 0; i < p->kept[row]; i++)
			chosen[p->layer][p->chosen[row * p->stride + i]] |=
				1U << (p->span->origin + row);
}

static void find_choice(void)
{
	struct company c;
	memset(chosen, 0, sizeof chosen);
	company_open(&c);
	for (int i = 0; i < SPANS; i++)
		c.account[i].picked = choice;
	if (forward_run(view.forward, &c.batch, c.logits, &e))
		fail_msg("%s", e.text);
	assert_rows(c.logits, 0, ROWS);
	company_close(&c);
}

/* The first row of a span that chose the expert; rows: none did. */
static uint32_t first_of(const struct part *p, uint32_t layer, uint32_t expert)
{
	uint32_t row = 0;
	while (row < p->rows && !(chosen[layer][expert] >> (p->first + row) & 1))
		row++;
	return row;
}

/* ---- experts that cannot be read ---- */

static void fail_from_here(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			   uint32_t n, uint32_t width, const float *rows)
{
	(void)ctx, (void)layer, (void)position, (void)n, (void)width, (void)rows;
	faults.fail_code = EIO;
	faults.fail_at = 0;
	if (point == TAP_STATE) /* the embedding has been read */
		faults.fail_on = OP_READ;
}

/* How many distinct experts a span's rows chose. */
static uint64_t choices_of(const struct part *p)
{
	uint64_t sum = 0;
	for (uint32_t layer = 0; layer < MOST; layer++)
		for (uint32_t expert = 0; expert < MOST; expert++)
			sum += first_of(p, layer, expert) < p->rows;
	return sum;
}

static void evict(uint32_t layer, uint32_t expert)
{
	const struct pager_id id = {view.plan->routed_of[layer], expert};
	if (pager_evict(view.experts, &id, 1, &e))
		fail_msg("%s", e.text);
}

static uint32_t cuts; /* spans that continued without some of their drafted rows */

/* Returns how many spans lost rows. */
static uint32_t lose_expert(uint32_t layer, uint32_t expert)
{
	struct company c;
	uint32_t lost = 0;
	uint64_t reads = 0;
	company_open(&c);
	evict(layer, expert);
	view.forward->env.tap = fail_from_here;
	if (forward_run(view.forward, &c.batch, c.logits, &e))
		fail_msg("%s", e.text);
	view.forward->env.tap = NULL;
	faults.fail_on = 0;
	for (int i = 0; i < SPANS; i++) {
		const struct part *p = &parts[i];
		uint32_t row = first_of(p, layer, expert);
		bool fails = row < certain(p);
		assert_int_equal(c.account[i].end, fails ? SPAN_FAILED : SPAN_DONE);
		assert_int_equal(c.account[i].error.code, row < p->rows ? EIO : 0);
		if (row < p->rows)
			assert_non_null(strstr(c.account[i].error.text, " expert "));
		assert_int_equal(c.account[i].misses, row < p->rows);
		if (row == p->rows)
			assert_int_equal(c.account[i].hits, choices_of(p));
		reads += c.account[i].reads;
		lost += row < p->rows;
		cuts += row < p->rows && !fails;
		assert_span(&c, i, fails ? 0 : row);
	}
	assert_int_equal(reads, 1);
	company_close(&c);
	return lost;
}

static void lose_each_expert(const char *fixture, uint32_t threads)
{
	cuts = 0;
	uint32_t losers[SPANS + 1] = {0};
	load(fixture, threads);
	compute_alone();
	find_choice();
	for (uint32_t layer = 0; layer < view.config->layers; layer++)
		for (uint32_t expert = 0; expert < view.config->experts; expert++)
			if (chosen[layer][expert])
				losers[lose_expert(layer, expert)]++;
	assert_true(losers[1] && losers[2] && cuts);
	forget_alone();
	test_model_close(&model);
}

static void an_expert_that_cannot_be_read_fails_only_rows_that_need_it(void **state)
{
	(void)state;
	lose_each_expert("qwen3_moe", 1);
	lose_each_expert("qwen3_moe", 3);
}

static void so_it_does_with_recurrent_states(void **state)
{
	(void)state;
	lose_each_expert("qwen3_5_moe", 2);
}

/* ---- stops ---- */

static _Atomic bool stop[SPANS];
static uint32_t stop_layer, stop_span;

static void stop_one(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t n,
		     uint32_t width, const float *rows)
{
	(void)ctx, (void)position, (void)n, (void)width, (void)rows;
	if (point == TAP_STATE && layer == stop_layer)
		atomic_store(&stop[stop_span], true);
}

static void stop_after(uint32_t layer, uint32_t span)
{
	struct company c;
	company_open(&c);
	for (int i = 0; i < SPANS; i++) {
		c.account[i].stop = &stop[i];
		atomic_store(&stop[i], false);
	}
	stop_layer = layer;
	stop_span = span;
	view.forward->env.tap = stop_one;
	if (forward_run(view.forward, &c.batch, c.logits, &e))
		fail_msg("%s", e.text);
	view.forward->env.tap = NULL;
	for (uint32_t i = 0; i < SPANS; i++) {
		assert_int_equal(c.account[i].end, i == span ? SPAN_STOPPED : SPAN_DONE);
		assert_int_equal(c.account[i].error.code, i == span ? ECANCELED : 0);
		assert_span(&c, (int)i, i == span ? 0 : parts[i].rows);
	}
	company_close(&c);
}

static void a_stop_ends_one_span_wherever_the_step_is(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe", "qwen3_5_moe", "qwen3"};
	for (int i = 0; i < 3; i++) {
		load(fixtures[i], 2);
		compute_alone();
		for (uint32_t layer = 0; layer <= view.config->layers; layer++)
			for (uint32_t span = 0; span < SPANS; span++)
				stop_after(layer, span);
		forget_alone();
		test_model_close(&model);
	}
}

static void *stop_when_it_hangs(void *arg)
{
	struct pager_batch none;
	(void)arg;
	while (!faults.held)
		(void)nanosleep(&fault_moment, NULL);
	atomic_store(&stop[stop_span], true);
	if (!pager_begin(&none, view.experts, 0, NULL, NULL, 0, 0, NULL)) /* wakes who waits */
		pager_end(&none);
	return NULL;
}

static void hang_from_here(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			   uint32_t n, uint32_t width, const float *rows)
{
	(void)ctx, (void)position, (void)n, (void)width, (void)rows;
	if (point != TAP_STATE || layer)
		return;
	faults.reads = 0;
	faults.hold_at = 1;
}

/* An expert that only one span wants, in any layer; or fails. */
static void find_own_expert(uint32_t span, uint32_t *layer, uint32_t *expert)
{
	uint32_t own = ((1U << parts[span].rows) - 1) << parts[span].first;
	for (*layer = 0; *layer < view.config->layers; ++*layer)
		for (*expert = 0; *expert < view.config->experts; ++*expert)
			if (chosen[*layer][*expert] && !(chosen[*layer][*expert] & ~own))
				return;
	fail_msg("no expert of span %u alone", span);
}

/* Nobody else waits for what only a stopped span wants. */
static void a_stopped_span_lets_the_others_go_on_while_its_read_hangs(void **state)
{
	(void)state;
	struct company c;
	uint32_t layer = 0, expert = 0;
	pthread_t thread;
	load("qwen3_moe", 2);
	compute_alone();
	find_choice();
	for (stop_span = 0; stop_span < SPANS; stop_span++) {
		find_own_expert(stop_span, &layer, &expert);
		company_open(&c);
		evict(layer, expert);
		c.account[stop_span].stop = &stop[stop_span];
		atomic_store(&stop[stop_span], false);
		view.forward->env.tap = hang_from_here;
		assert_int_equal(pthread_create(&thread, NULL, stop_when_it_hangs, NULL), 0);
		if (forward_run(view.forward, &c.batch, c.logits, &e))
			fail_msg("%s", e.text);
		view.forward->env.tap = NULL;
		assert_true(faults.held);
		assert_int_equal(pthread_join(thread, NULL), 0);
		faults.hold_at = 0;
		while (faults.held) /* else the next hold could hold the same read once more */
			(void)nanosleep(&fault_moment, NULL);
		for (uint32_t i = 0; i < SPANS; i++) {
			assert_int_equal(c.account[i].end,
					 i == stop_span ? SPAN_STOPPED : SPAN_DONE);
			assert_span(&c, (int)i, i == stop_span ? 0 : parts[i].rows);
		}
		company_close(&c);
	}
	forget_alone();
	test_model_close(&model);
}

/* ---- logits in groups ---- */

enum { LONG = 2 * HEAD_ROWS + 3 };

struct reading {
	uint32_t rows, calls;
	float *logits;
	int ends_at; /* the call that returns an error */
};

static int take(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		struct err *why)
{
	struct reading *r = ctx;
	assert_true(n && n <= HEAD_ROWS);
	r->calls++;
	for (uint32_t i = 0; i < n; i++, r->rows++) {
		assert_int_equal(rows[i], r->rows);
		memcpy(r->logits + rows[i] * vocabulary(), logits->all + i * vocabulary(),
		       vocabulary() * sizeof *r->logits);
	}
	return (int)r->calls == r->ends_at ? err_set(why, EIO, "enough") : 0;
}

static void logits_come_in_groups_that_are_what_they_are_together(void **state)
{
	(void)state;
	load("qwen3_moe", 2);
	struct context x[2];
	struct step_batch b = {0};
	uint32_t text[POSITIONS];
	float *all = calloc(LONG * vocabulary(), sizeof *all);
	struct reading r = {.logits = calloc(LONG * vocabulary(), sizeof *all)};
	text_of(&parts[0], text);
	for (int i = 0; i < 2; i++)
		context_init(&x[i], view.context_budget, view.config, view.kv);
	if (test_step(view.forward, &x[0], text, LONG, all, &e) ||
	    test_add(&b, &x[1], text, LONG, ROW_PROMPT, true, &e))
		fail_msg("%s", e.text);
	b.read = take;
	b.ctx = &r;
	r.ends_at = 2;
	assert_int_equal(forward_run(view.forward, &b, NULL, &e), -EIO);
	assert_int_equal(x[1].tokens.count, 0);
	r.ends_at = r.calls = r.rows = 0;
	if (forward_run(view.forward, &b, NULL, &e))
		fail_msg("%s", e.text);
	assert_int_equal(r.calls, 3);
	assert_int_equal(r.rows, LONG);
	assert_memory_equal(r.logits, all, LONG * vocabulary() * sizeof *all);
	for (int i = 0; i < 2; i++)
		context_free(&x[i]);
	step_batch_free(&b);
	free(all);
	free(r.logits);
	test_model_close(&model);
}

/* ---- a step that waits ---- */

/* Runs the prompt's span in pieces, and the other two while it waits. */
static void interleave(uint32_t pieces)
{
	struct company c;
	struct forward_pass p;
	struct step_batch prompt = {0};
	float *logits = calloc(ROWS * vocabulary(), sizeof *logits);
	uint32_t waits = 0, text[POSITIONS];
	company_open(&c);
	text_of(&parts[1], text);
	if (forward_pass_init(&p, &view.forward->env, 16, &e) ||
	    test_add(&prompt, &c.x[1], text + parts[1].held, parts[1].rows, ROW_PROMPT, true, &e))
		fail_msg("%s", e.text);
	for (uint32_t t = 0; t < prompt.count; t++)
		prompt.rows[t].account = &c.account[1];
	int more = forward_begin(view.forward, &p, &prompt,
				 c.logits + parts[1].first * vocabulary(), &e);
	while (more > 0) {
		if (waits < 2) { /* the first and the last span */
			int i = waits ? 2 : 0;
			rows_alone(&c.x[i], &parts[i], c.logits + parts[i].first * vocabulary());
			c.account[i].rows = parts[i].rows;
		}
		waits++;
		more = forward_go_on(view.forward, &p, pieces, &e);
	}
	assert_int_equal(more, 0);
	assert_true(waits >= 2);
	assert_int_equal(p.bytes + p.stream->bytes,
			 forward_pass_bytes(&cpu_backend, view.config, 16));
	for (int i = 0; i < SPANS; i++)
		assert_span(&c, i, parts[i].rows);
	forward_pass_free(&p);
	step_batch_free(&prompt);
	free(logits);
	company_close(&c);
}

static void a_step_that_waits_between_layers_is_what_it_is_at_once(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe", "qwen3_5_moe", "qwen3"};
	for (int i = 0; i < 3; i++) {
		load(fixtures[i], 2);
		compute_alone();
		interleave(1);
		interleave(2);
		forget_alone();
		test_model_close(&model);
	}
}

static void a_step_that_waits_can_be_stopped_or_given_up(void **state)
{
	(void)state;
	struct err why;
	load("qwen3_5_moe", 2);
	compute_alone();
	for (int given_up = 0; given_up < 2; given_up++) {
		struct company c;
		struct forward_pass p;
		company_open(&c);
		for (int i = 0; i < SPANS; i++) {
			c.account[i].stop = &stop[i];
			atomic_store(&stop[i], false);
		}
		if (forward_pass_init(&p, &view.forward->env, ROWS, &e))
			fail_msg("%s", e.text);
		assert_int_equal(forward_begin(view.forward, &p, &c.batch, c.logits, &e), 1);
		assert_int_equal(forward_go_on(view.forward, &p, 1, &e), 1);
		err_set(&why, EIO, "the disk is gone");
		atomic_store(&stop[1], true);
		assert_int_equal(forward_go_on(view.forward, &p, 0, &e), 1);
		assert_int_equal(c.account[1].end, SPAN_STOPPED);
		if (given_up)
			forward_give_up(view.forward, &p, &why);
		atomic_store(&stop[0], true);
		atomic_store(&stop[2], true);
		if (!given_up)
			assert_int_equal(forward_go_on(view.forward, &p, 0, &e), 0);
		for (int i = 0; i < SPANS; i += 2) {
			assert_int_equal(c.account[i].end, given_up ? SPAN_FAILED : SPAN_STOPPED);
			assert_int_equal(c.account[i].error.code, given_up ? EIO : ECANCELED);
		}
		for (int i = 0; i < SPANS; i++)
			assert_span(&c, i, 0);
		forward_pass_free(&p);
		company_close(&c);
	}
	forget_alone();
	test_model_close(&model);
}

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_expert_that_cannot_be_read_fails_only_rows_that_need_it),
		cmocka_unit_test(so_it_does_with_recurrent_states),
		cmocka_unit_test(a_stop_ends_one_span_wherever_the_step_is),
		cmocka_unit_test(a_stopped_span_lets_the_others_go_on_while_its_read_hangs),
		cmocka_unit_test(logits_come_in_groups_that_are_what_they_are_together),
		cmocka_unit_test(a_step_that_waits_between_layers_is_what_it_is_at_once),
		cmocka_unit_test(a_step_that_waits_can_be_stopped_or_given_up),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
