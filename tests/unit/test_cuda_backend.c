/* The backend for GPUs: the same logits as the CPU's, to the bit, wherever the experts lie, and whatever
 * becomes of contexts and steps. Without a GPU the kernels are run by the program
 * (tests/cuda/fake_driver.c); MOEFS_GPU=real uses the one that is there. */
#include "engine/cuda/cuda_experts.h"
#include "gpu_help.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>

/* What is done on a CPU that has all experts in memory, and on the GPU. Where the GPU is late, work is done
 * when it is waited for. */
typedef void deed(struct test_gpu *g, struct test_record *r);
typedef void likeness(const struct test_record *got, const struct test_record *want);
static const struct way {
	enum test_held held;
	const char *when, *size; /* size: of the GPU */
} ways[] = {{HELD_ALL, "late", "large"},  {HELD_SOME, "early", "small"}, {HELD_NONE, "late", "small"},
	    {HELD_ALL, "early", "small"}, {HELD_SOME, "late", "large"},  {HELD_NONE, "early", "large"}};
enum { TWO_WAYS = 2, ALL_WAYS = 6 };

static void compare_on(const struct way *w, deed *d, likeness *same, const struct test_record *cpus)
{
	struct test_record gpus = {0};
	struct test_gpu g;
	test_driver_be(w->when);
	test_driver_be(w->size);
	test_gpu_open(&g, w->held);
	d(&g, &gpus);
	if (!test_gpu_computes(&g))
		fail_msg("%s", test_gpu_no_card(&g).text);
	same(&gpus, cpus);
	if (w->held == HELD_ALL)
		assert_int_equal(gpus.misses, 0);
	test_record_free(&gpus);
	test_gpu_close(&g);
}

static void compare(deed *d, likeness *same, uint32_t count)
{
	struct test_record cpus = {0};
	if (!test_cpu.m.engine)
		skip();
	d(&test_cpu, &cpus);
	for (uint32_t i = 0; i < count; i++)
		compare_on(&ways[i], d, same, &cpus);
	test_record_free(&cpus);
}

/* ---- contexts ---- */

/* A prompt of more rows than a sequence has, an answer's rows one by one, drafts; over several blocks. */
static void text(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 1, 40, ROW_PROMPT);
	for (int i = 0; i < 3; i++)
		test_rows_of(g, r, &x, 1, 1, ROW_ANSWER);
	test_rows_of(g, r, &x, 1, 4, ROW_DRAFT);
	test_rows_of(g, r, &x, 1, 21, ROW_PROMPT);
	test_rows_of(g, r, &x, 1, 70, ROW_PROMPT);
	test_rows_of(g, r, &x, 1, 1, ROW_ANSWER);
	context_free(&x);
}

static void a_texts_logits_are_the_cpus(void **state)
{
	(void)state;
	compare(text, test_record_same, ALL_WAYS);
}

static void several(struct test_gpu *g, struct test_record *r)
{
	struct context x[3];
	for (int i = 0; i < 3; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 1, 40, ROW_PROMPT);
	test_rows_of(g, r, &x[1], 2, 62, ROW_PROMPT);
	for (int i = 0; i < 3; i++)
		test_step_of(g, r,
			     (struct test_rows[]){{&x[2], 3, 9 + 20 * i, ROW_PROMPT, {0}, NULL},
						  {&x[0], 1, 1, ROW_ANSWER, {0}, NULL},
						  {&x[1], 2, 4, ROW_DRAFT, {0}, NULL}},
			     3);
	context_rollback(&x[1], x[1].tokens.count - 2);
	for (int i = 0; i < 2; i++)
		test_step_of(g, r,
			     (struct test_rows[]){{&x[1], 4, 1, ROW_ANSWER, {0}, NULL},
						  {&x[0], 1, 2, ROW_DRAFT, {0}, NULL}},
			     2);
	for (int i = 0; i < 3; i++)
		context_free(&x[i]);
}

static void several_contexts_in_one_batch_have_the_cpus_logits(void **state)
{
	(void)state;
	compare(several, test_record_same, TWO_WAYS);
}

static void copies(struct test_gpu *g, struct test_record *r)
{
	enum { COPIES = 4 };
	struct context x[COPIES];
	for (int i = 0; i < COPIES; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 1, 70, ROW_PROMPT);
	context_rollback(&x[0], 30);
	test_rows_of(g, r, &x[0], 5, 5, ROW_PROMPT);
	test_fork(&x[1], &x[0]);
	test_rows_of(g, r, &x[1], 6, 2, ROW_PROMPT);
	test_rows_of(g, r, &x[0], 5, 1, ROW_ANSWER);
	test_copy_saved(g, &x[2], &x[0]);
	for (int i = 0; i < 2; i++)
		test_step_of(g, r,
			     (struct test_rows[]){{&x[0], 7, 3, ROW_DRAFT, {0}, NULL},
						  {&x[1], 7, 1, ROW_ANSWER, {0}, NULL},
						  {&x[2], 7, 3, ROW_DRAFT, {0}, NULL}},
			     3);
	context_free(&x[0]); /* its number is not that of another one */
	test_context_of(g, &x[0]);
	test_rows_of(g, r, &x[0], 8, 20, ROW_PROMPT);
	context_move(&x[3], &x[1]);
	test_rows_of(g, r, &x[3], 9, 1, ROW_ANSWER);
	for (int i = 0; i < COPIES; i++)
		context_free(&x[i]);
}

static void contexts_that_go_back_fork_or_are_loaded_go_on(void **state)
{
	(void)state;
	compare(copies, test_record_same, TWO_WAYS);
}

/* More contexts than the GPU keeps copies of; then the first ones again. */
static void many(struct test_gpu *g, struct test_record *r)
{
	enum { CONTEXTS = 300, TOGETHER = 30 };
	static struct context x[CONTEXTS];
	struct test_rows rows[TOGETHER];
	for (uint32_t i = 0; i < CONTEXTS; i++)
		test_context_of(g, &x[i]);
	for (uint32_t first = 0; first < CONTEXTS + TOGETHER; first += TOGETHER) {
		for (uint32_t i = 0; i < TOGETHER; i++)
			rows[i] = (struct test_rows){.x = &x[(first + i) % CONTEXTS],
						     .seed = first + i,
						     .n = 1};
		test_step_of(g, r, rows, TOGETHER);
	}
	for (uint32_t i = 0; i < CONTEXTS; i++)
		context_free(&x[i]);
}

static void copies_that_were_given_up_are_made_again(void **state)
{
	(void)state;
	compare(many, test_record_same, TWO_WAYS);
}

/* ---- spans that are stopped ---- */

enum { SPANS = 3 };
static const struct part {
	uint32_t held, n; /* 0: as many as the test says */
	enum row_kind kind;
} parts[SPANS] = {{40, 4, ROW_DRAFT}, {20, 0, ROW_PROMPT}, {33, 1, ROW_ANSWER}};

/* Three contexts, and the rows that follow; n: of the prompt. */
struct company {
	struct context x[SPANS];
	struct test_rows rows[SPANS];
	_Atomic bool stop[SPANS];
};

static void company_open(struct test_gpu *g, struct test_record *r, struct company *c, uint32_t n)
{
	for (uint32_t i = 0; i < SPANS; i++) {
		atomic_init(&c->stop[i], false);
		test_context_of(g, &c->x[i]);
		test_rows_of(g, r, &c->x[i], i, parts[i].held, ROW_PROMPT);
		c->rows[i] = (struct test_rows){.x = &c->x[i],
						.seed = i,
						.n = parts[i].n ? parts[i].n : n,
						.kind = parts[i].kind,
						.stop = &c->stop[i]};
	}
}

/* Each goes on, the one that was stopped first with other tokens. */
static void company_close(struct test_gpu *g, struct test_record *r, struct company *c)
{
	for (uint32_t i = 0; i < SPANS; i++) {
		test_rows_of(g, r, &c->x[i], 50 + i, 2, ROW_PROMPT);
		test_rows_of(g, r, &c->x[i], i, 1, ROW_ANSWER);
		context_free(&c->x[i]);
	}
}

static void go_on(struct test_gpu *g, struct forward_pass *p, uint32_t pieces, int more)
{
	struct err e;
	int result = forward_go_on(g->v.forward, p, pieces, &e);
	if (result < 0)
		fail_msg("%s", e.text);
	assert_int_equal(result, more);
}

static void begin(struct test_gpu *g, struct forward_pass *p, struct test_step *s)
{
	struct err e;
	if (forward_begin(g->v.forward, p, &s->batch, s->logits, &e) != 1)
		fail_msg("%s", e.text);
}

static void open_pass(struct test_gpu *g, struct forward_pass *p)
{
	struct err e;
	if (forward_pass_init(p, &g->v.forward->env, 64, &e))
		fail_msg("%s", e.text);
}

/* Stops the spans of a set after some layers; the first that stopped computes something else before the
 * others end. */
static void stop_some(struct test_gpu *g, struct test_record *r, uint32_t layers, uint32_t set, uint32_t n)
{
	struct company c;
	struct forward_pass p;
	struct test_step s;
	uint32_t first = 0;
	company_open(g, r, &c, n);
	open_pass(g, &p);
	test_step_begin(&s, g, r, c.rows, SPANS);
	begin(g, &p, &s);
	if (layers)
		go_on(g, &p, layers, 1);
	for (uint32_t i = 0; i < SPANS; i++)
		atomic_store(&c.stop[i], set >> i & 1);
	go_on(g, &p, 0, 1);
	while (!(set >> first & 1))
		first++;
	test_rows_of(g, r, &c.x[first], 60, 5, ROW_PROMPT);
	go_on(g, &p, UINT32_MAX, 0);
	for (uint32_t i = 0; i < SPANS; i++)
		assert_int_equal(s.account[i].end, set >> i & 1 ? SPAN_STOPPED : SPAN_DONE);
	test_step_end(&s);
	forward_pass_free(&p);
	context_rollback(&c.x[first], c.x[first].tokens.count - 1);
	company_close(g, r, &c);
}

/* Without a tap a step of few rows is one sequence, and one of many sends keys and values in portions. */
static void stops(struct test_gpu *g, struct test_record *r)
{
	enum { FEW = 3, MANY = 36 };
	for (uint32_t layers = 0; layers <= g->v.config->layers; layers++)
		for (uint32_t set = 1; set < 7; set += layers == 1 ? 1 : 3) {
			stop_some(g, r, layers, set, FEW);
			stop_some(g, r, layers, set, MANY);
		}
}

static void spans_that_are_stopped_leave_the_others_as_they_are(void **state)
{
	(void)state;
	compare(stops, test_record_same, TWO_WAYS);
}

/* ---- passes that wait ---- */

/* Two prompts, one of them longer than a sequence, and an answer in between. */
static void waits(struct test_gpu *g, struct test_record *r)
{
	struct context x[SPANS];
	struct forward_pass p[2];
	struct test_step s[2];
	for (uint32_t i = 0; i < SPANS; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 0, 70, ROW_PROMPT);
	for (uint32_t i = 0; i < 2; i++) {
		const struct test_rows rows = {.x = &x[1 + i], .seed = 1 + i, .n = 20 + 20 * i};
		open_pass(g, &p[i]);
		test_step_begin(&s[i], g, r, &rows, 1);
		begin(g, &p[i], &s[i]);
		test_rows_of(g, r, &x[0], 0, 1, ROW_ANSWER);
		go_on(g, &p[i], 1, 1);
		test_rows_of(g, r, &x[0], 0, 1, ROW_ANSWER);
	}
	for (uint32_t layer = 1; layer < g->v.config->layers; layer++)
		for (uint32_t i = 2; i-- > 0;) {
			go_on(g, &p[i], 1, 1);
			test_rows_of(g, r, &x[0], 0, 3, ROW_DRAFT);
		}
	for (uint32_t i = 0; i < 2; i++) {
		go_on(g, &p[i], UINT32_MAX, 0);
		test_step_end(&s[i]);
		test_rows_of(g, r, &x[1 + i], 1 + i, 1, ROW_ANSWER);
		forward_pass_free(&p[i]);
	}
	for (uint32_t i = 0; i < SPANS; i++)
		context_free(&x[i]);
}

static void passes_that_wait_are_what_they_are_at_once(void **state)
{
	(void)state;
	compare(waits, test_record_same, TWO_WAYS);
}

/* ---- a reader of the largest logits ---- */

/* Of 20 rows one needs all of its logits, so its group of HEAD_ROWS gets them. */
static void largest(struct test_gpu *g, struct test_record *r)
{
	enum { ROWS = 20, WHOLE = 10 };
	assert_int_equal(test_draw(g, r, ROWS, WHOLE), g == &test_cpu ? 0 : ROWS - HEAD_ROWS);
}

static void a_reader_gets_the_cpus_largest_logits(void **state)
{
	(void)state;
	compare(largest, test_record_same_logits, TWO_WAYS);
}

/* While a prompt waits, others use up what the GPU has for contexts. */
static void crowded(struct test_gpu *g, struct test_record *r)
{
	enum { CONTEXTS = 300, TOGETHER = 30 };
	static struct context x[CONTEXTS];
	struct context waiting;
	struct forward_pass p;
	struct test_step s;
	struct test_rows rows[TOGETHER];
	open_pass(g, &p);
	test_context_of(g, &waiting);
	for (uint32_t i = 0; i < CONTEXTS; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &waiting, 1, 70, ROW_PROMPT);
	test_step_begin(&s, g, r, &(struct test_rows){.x = &waiting, .seed = 1, .n = 40}, 1);
	begin(g, &p, &s);
	go_on(g, &p, 1, 1);
	for (uint32_t first = 0; first < CONTEXTS; first += TOGETHER) {
		for (uint32_t i = 0; i < TOGETHER; i++)
			rows[i] = (struct test_rows){.x = &x[first + i], .seed = i, .n = 1};
		test_step_of(g, r, rows, TOGETHER);
	}
	go_on(g, &p, UINT32_MAX, 0);
	test_step_end(&s);
	test_rows_of(g, r, &waiting, 1, 1, ROW_ANSWER);
	forward_pass_free(&p);
	context_free(&waiting);
	for (uint32_t i = 0; i < CONTEXTS; i++)
		context_free(&x[i]);
}

static void a_pass_that_waits_keeps_its_copies(void **state)
{
	(void)state;
	compare(crowded, test_record_same, TWO_WAYS);
}

/* A pass is given up after some layers, and computed anew in the same memory. */
static void giving_up(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	struct forward_pass p;
	struct test_step s;
	struct err why;
	err_set(&why, EIO, "enough");
	open_pass(g, &p);
	test_context_of(g, &x);
	for (uint32_t layers = 0; layers <= g->v.config->layers; layers++) {
		const struct test_rows rows = {.x = &x, .seed = layers, .n = 9};
		for (int again = 0; again < 2; again++) {
			test_step_begin(&s, g, r, &rows, 1);
			begin(g, &p, &s);
			if (layers)
				go_on(g, &p, layers, 1);
			if (again)
				go_on(g, &p, UINT32_MAX, 0);
			else
				forward_give_up(g->v.forward, &p, &why);
			test_step_end(&s);
		}
	}
	forward_pass_free(&p);
	context_free(&x);
}

static void a_pass_that_was_given_up_is_computed_anew(void **state)
{
	(void)state;
	/* Layers of what is given up may not be counted. */
	compare(giving_up, test_record_same_logits, TWO_WAYS);
}

/* ---- losses, taps ---- */

static float *bias; /* [layers][experts] */

static void lossy(struct test_gpu *g, struct test_record *r)
{
	const uint32_t layers = g->v.config->layers, experts = g->v.config->experts;
	struct steering steer = {.layers = layers, .experts = experts};
	struct context x[SPANS];
	bias = calloc((size_t)layers * experts, sizeof *bias);
	assert_non_null(bias);
	for (uint32_t i = 0; i < layers * experts; i++)
		bias[i] = i % 5 == 0 ? -INFINITY : (float)(i % 3);
	steer.bias = bias;
	const struct losses losses[] = {{.experts_per_token = 2},
					{.steered = 7, .steering = &steer},
					{.drop_missing = 0.3F},
					{.substitute_keep = 1, .substitute_window = 12},
					{0}};
	for (uint32_t l = 0; l + SPANS <= sizeof losses / sizeof *losses; l++) {
		struct test_rows rows[SPANS];
		for (uint32_t i = 0; i < SPANS; i++) {
			test_context_of(g, &x[i]);
			rows[i] = (struct test_rows){
				.x = &x[i], .seed = i, .n = 5, .losses = losses[l + i]};
		}
		test_step_of(g, r, rows, SPANS);
		test_step_of(g, r, rows, 1);
		for (uint32_t i = 0; i < SPANS; i++)
			context_free(&x[i]);
	}
	free(bias);
}

/* All experts are in memory, here or there: nothing is dropped or substituted. */
static void losses_are_the_cpus(void **state)
{
	(void)state;
	compare(lossy, test_record_same, ALL_WAYS);
}

static void tapped(struct test_gpu *g, struct test_record *r)
{
	struct environment *env = &g->v.forward->env;
	struct context x[2];
	env->tap = test_tap;
	env->tap_ctx = r;
	for (uint32_t i = 0; i < 2; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 0, 40, ROW_PROMPT);
	for (int i = 0; i < 2; i++)
		test_step_of(g, r,
			     (struct test_rows[]){{&x[0], 0, 1, ROW_ANSWER, {0}, NULL},
						  {&x[1], 1, 7, ROW_PROMPT, {0}, NULL}},
			     2);
	env->tap = NULL;
	for (uint32_t i = 0; i < 2; i++)
		context_free(&x[i]);
}

static void taps_see_the_cpus_states_and_routers(void **state)
{
	(void)state;
	compare(tapped, test_record_same, TWO_WAYS);
}

/* ---- experts that change places ---- */

/* Waits until all that is to come has arrived, as far as there is room. */
static void await_changes(const struct test_gpu *g)
{
	const struct timespec moment = {0, 1000000};
	struct cuda_experts *x = g->v.forward->env.on_card->experts;
	for (bool comes = true; comes;) {
		pthread_mutex_lock(&x->lock);
		comes = x->busy || (x->wanted_count && x->pool.free);
		pthread_mutex_unlock(&x->lock);
		if (comes)
			(void)nanosleep(&moment, NULL);
	}
}

/* Experts that came to the GPU after the first filling, or are about to. */
static uint64_t changes(const struct test_gpu *g, const struct cuda_experts_state *first)
{
	struct engine_gpu_stats stats;
	engine_gpu_stats(g->m.engine, &stats);
	return stats.promotions - first->copied;
}

/* While a prompt waits after its first layer, a token is computed again and again: its experts come to the
 * GPU, and others leave it. */
static void experts_change_places_while_a_pass_waits(void **state)
{
	enum { TIMES = 120 };
	struct test_gpu g;
	struct test_record want = {0}, got = {0};
	struct cuda_experts_state first;
	uint64_t within = 0;
	(void)state;
	test_driver_be("late");
	test_gpu_open(&g, HELD_SOME);
	test_gpu_wait(&g, &first);
	for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
		struct test_gpu *on = on_gpu ? &g : &test_cpu;
		struct test_record *r = on_gpu ? &got : &want;
		struct context x[2];
		struct forward_pass p;
		open_pass(on, &p);
		for (uint32_t i = 0; i < 2; i++)
			test_context_of(on, &x[i]);
		for (uint32_t t = 0; t < TIMES; t++) {
			struct test_step s;
			const struct test_rows rows = {.x = &x[0], .seed = 0, .n = 12};
			test_step_begin(&s, on, r, &rows, 1);
			begin(on, &p, &s);
			go_on(on, &p, 1 + t % 2, 1);
			for (uint32_t i = 0; i < 2 + t % 2; i++) {
				if (on_gpu)
					await_changes(on);
				const uint64_t before = on_gpu ? changes(on, &first) : 0;
				test_rows_of(on, r, &x[1], t / 40, 1, ROW_ANSWER);
				context_rollback(&x[1], 0);
				within += on_gpu && changes(on, &first) > before;
			}
			go_on(on, &p, UINT32_MAX, 0);
			test_step_end(&s);
			context_rollback(&x[0], 0);
		}
		forward_pass_free(&p);
		for (uint32_t i = 0; i < 2; i++)
			context_free(&x[i]);
	}
	assert_true(within > 0);
	test_record_same(&got, &want);
	test_record_free(&got);
	test_record_free(&want);
	test_gpu_close(&g);
}

/* ---- another budget ---- */

/* A text as the CPU has it, and then how many experts are on the GPU. */
static uint32_t text_with(struct test_gpu *g, const struct test_record *want)
{
	struct test_record got = {0};
	struct cuda_experts_state now;
	text(g, &got);
	test_record_same_logits(&got, want);
	test_record_free(&got);
	test_gpu_wait(g, &now);
	return now.copied;
}

static void experts_leave_and_come_with_the_budget(void **state)
{
	struct test_gpu g;
	struct test_record want = {0};
	struct engine_gpu_stats stats;
	struct err e;
	(void)state;
	text(&test_cpu, &want);
	test_gpu_open(&g, HELD_ALL);
	const uint32_t all = text_with(&g, &want);
	engine_gpu_stats(g.m.engine, &stats);
	/* A part of the budget is kept for contexts. */
	assert_int_equal(engine_set_gpu_budget(g.m.engine,
					       stats.dense + stats.contexts + (4 << 20), &e),
			 0);
	assert_int_equal(text_with(&g, &want), 0);
	engine_gpu_stats(g.m.engine, &stats);
	assert_true(stats.dense + stats.contexts + stats.expert_bytes <= stats.budget);
	engine_automatic_gpu_budget(g.m.engine);
	(void)text_with(&g, &want);
	assert_int_equal(text_with(&g, &want), all);
	assert_true(test_gpu_computes(&g));
	test_record_free(&want);
	test_gpu_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(experts_leave_and_come_with_the_budget),
		cmocka_unit_test(a_texts_logits_are_the_cpus),
		cmocka_unit_test(several_contexts_in_one_batch_have_the_cpus_logits),
		cmocka_unit_test(contexts_that_go_back_fork_or_are_loaded_go_on),
		cmocka_unit_test(copies_that_were_given_up_are_made_again),
		cmocka_unit_test(spans_that_are_stopped_leave_the_others_as_they_are),
		cmocka_unit_test(passes_that_wait_are_what_they_are_at_once),
		cmocka_unit_test(a_reader_gets_the_cpus_largest_logits),
		cmocka_unit_test(a_pass_that_waits_keeps_its_copies),
		cmocka_unit_test(a_pass_that_was_given_up_is_computed_anew),
		cmocka_unit_test(losses_are_the_cpus),
		cmocka_unit_test(taps_see_the_cpus_states_and_routers),
		cmocka_unit_test(experts_change_places_while_a_pass_waits),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, test_gpu_setup, test_gpu_teardown);
}
