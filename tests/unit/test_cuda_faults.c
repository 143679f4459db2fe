/* A GPU that fails or has no memory: the CPU computes the step again from its beginning, with the same
 * logits, and goes on; the reason is kept. And what is taken from the driver is given back. */
#include "gpu_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

/* The driver is as it is at first, whatever the test before this one left to go wrong. */
static void driver_or_skip(void)
{
	if (!test_cpu.m.engine || test_driver_is_real())
		skip();
	test_driver_be("early");
}

/* ---- a step that fails ---- */

static void begin_two(struct test_gpu *g, struct test_record *r, struct context x[2])
{
	for (uint32_t i = 0; i < 2; i++) {
		test_context_of(g, &x[i]);
		test_rows_of(g, r, &x[i], i, 20 + 50 * i, ROW_PROMPT);
	}
}

/* A step of two contexts; the first has more rows than a sequence, if `apart`. */
static void fail_in(struct test_gpu *g, struct test_record *r, const struct context x[2], bool apart)
{
	test_step_of(g, r,
		     (struct test_rows[]){{(struct context *)&x[0], 0, apart ? 40 : 3, ROW_PROMPT,
					   {0}, NULL},
					  {(struct context *)&x[1], 1, 4, ROW_DRAFT, {0}, NULL}},
		     2);
}

static void end_two(struct test_gpu *g, struct test_record *r, struct context x[2])
{
	for (uint32_t i = 0; i < 2; i++) {
		context_rollback(&x[i], x[i].tokens.count - 1);
		test_rows_of(g, r, &x[i], 5, 2, ROW_PROMPT);
		context_free(&x[i]);
	}
}

static void assert_off(const struct test_gpu *g, const char *words)
{
	struct err why;
	engine_gpu_failure(g->m.engine, &why);
	assert_false(test_gpu_computes(g));
	assert_int_not_equal(why.code, 0);
	assert_non_null(strstr(why.text, words));
	assert_string_equal(test_gpu_no_card(g).text, why.text);
}

/* The launch after `launches` others of a step fails. False: the step had no more. */
static bool fail_after(enum test_held held, bool apart, uint32_t launches,
		       const struct test_record *want)
{
	struct test_record got = {0};
	struct test_gpu g;
	struct context x[2];
	char word[32];
	test_gpu_open(&g, held);
	begin_two(&g, &got, x);
	(void)snprintf(word, sizeof word, "wild-after=%u", launches);
	test_driver_be(word);
	fail_in(&g, &got, x, apart);
	bool failed = !test_gpu_computes(&g);
	test_driver_be("");
	if (failed)
		assert_off(&g, "CUDA_ERROR_ILLEGAL_ADDRESS");
	end_two(&g, &got, x);
	if (held == HELD_ALL)
		test_record_same(&got, want);
	else /* layers that were computed twice are counted twice */
		test_record_same_logits(&got, want);
	test_record_free(&got);
	test_gpu_close(&g);
	return failed;
}

static void fail_everywhere(enum test_held held, const char *when, bool apart)
{
	struct test_record want = {0};
	struct context x[2];
	uint32_t launches = 0;
	begin_two(&test_cpu, &want, x);
	fail_in(&test_cpu, &want, x, apart);
	end_two(&test_cpu, &want, x);
	test_driver_be(when);
	while (fail_after(held, apart, launches, &want))
		launches += 7;
	assert_true(launches > 20);
	test_record_free(&want);
}

static void a_step_that_fails_is_computed_by_the_cpu(void **state)
{
	(void)state;
	driver_or_skip();
	fail_everywhere(HELD_ALL, "early", true);
	fail_everywhere(HELD_ALL, "late", false);
	fail_everywhere(HELD_SOME, "early", false);
}

/* ---- logits that are read ---- */

struct reader {
	struct test_record *r;
	size_t width;
	const char *word; /* what the driver does once the first logits are read */
};

static int read_logits(void *ctx, const uint32_t *rows, uint32_t n,
		       const struct step_logits *logits, struct err *e)
{
	struct reader *d = ctx;
	(void)rows, (void)e;
	test_record_floats(d->r, logits->all, n * d->width);
	if (d->word)
		test_driver_be(d->word);
	d->word = NULL;
	return 0;
}

/* Draws greedily from all rows of a step, whose launch after `launches` others fails. False: it had no more. */
static bool draw_fails_after(uint32_t launches, const struct test_record *want)
{
	struct test_record got = {0};
	struct test_gpu g;
	char word[32];
	test_gpu_open(&g, HELD_ALL);
	(void)snprintf(word, sizeof word, "wild-after=%u", launches);
	test_driver_be(word);
	(void)test_draw(&g, &got, HEAD_ROWS, HEAD_ROWS);
	test_driver_be("");
	bool failed = !test_gpu_computes(&g);
	if (failed)
		assert_off(&g, "CUDA_ERROR_ILLEGAL_ADDRESS");
	test_record_same_logits(&got, want);
	test_record_free(&got);
	test_gpu_close(&g);
	return failed;
}

/* The last launch is the one that finds the largest logits. */
static void a_draw_that_fails_is_the_cpus(void **state)
{
	struct test_record want = {0};
	uint32_t fails = 0, stands = 256;
	(void)state;
	driver_or_skip();
	(void)test_draw(&test_cpu, &want, HEAD_ROWS, HEAD_ROWS);
	assert_true(draw_fails_after(fails, &want));
	assert_false(draw_fails_after(stands, &want));
	while (stands - fails > 1) {
		uint32_t middle = (fails + stands) / 2;
		if (draw_fails_after(middle, &want))
			fails = middle;
		else
			stands = middle;
	}
	assert_true(fails > 20);
	test_record_free(&want);
}

/* A prompt's logits, given to a reader in groups. */
static int read_prompt(struct test_gpu *g, struct test_record *r, struct context *x, uint32_t n,
		       const char *word)
{
	struct reader reader = {r, g->v.config->vocabulary, word};
	struct test_record none = {0};
	struct test_step s;
	struct err e;
	test_step_begin(&s, g, &none, &(struct test_rows){.x = x, .seed = 3, .n = n}, 1);
	s.batch.read = read_logits;
	s.batch.ctx = &reader;
	int failed = forward_run(g->v.forward, &s.batch, NULL, &e);
	s.account[0].end = SPAN_FAILED; /* all is recorded */
	test_step_end(&s);
	test_record_free(&none);
	return failed;
}

static void a_reader_gets_the_cpus_logits_or_an_error(void **state)
{
	struct test_record want = {0}, got = {0}, lost = {0};
	struct test_gpu g;
	struct context x;
	(void)state;
	driver_or_skip();
	for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
		struct test_gpu *on = on_gpu ? &g : &test_cpu;
		struct test_record *r = on_gpu ? &got : &want;
		if (on_gpu)
			test_gpu_open(&g, HELD_ALL);
		test_context_of(on, &x);
		assert_int_equal(read_prompt(on, r, &x, 20, NULL), 0);
		if (on_gpu)
			test_driver_be("wild");
		assert_int_equal(read_prompt(on, r, &x, 20, NULL), 0);
		context_free(&x);
	}
	assert_off(&g, "CUDA_ERROR_ILLEGAL_ADDRESS");
	test_record_same_logits(&got, &want);
	test_gpu_close(&g);
	test_gpu_open(&g, HELD_ALL); /* what was read cannot be taken back */
	test_context_of(&g, &x);
	assert_int_equal(read_prompt(&g, &lost, &x, 20, "wild"), -EIO);
	assert_int_equal(x.tokens.count, 0);
	test_record_free(&lost);
	for (int i = 0; i < 2; i++)
		assert_int_equal(read_prompt(&g, &lost, &x, 20, NULL), 0);
	test_record_same_logits(&lost, &want);
	context_free(&x);
	test_gpu_close(&g);
	test_record_free(&lost);
	test_record_free(&got);
	test_record_free(&want);
}

/* ---- passes that wait meanwhile ---- */

static void wait_and_fail(struct test_gpu *g, struct test_record *r, uint32_t layers)
{
	struct context x[2];
	struct forward_pass p;
	struct test_step s;
	struct err e;
	begin_two(g, r, x);
	const struct test_rows rows = {.x = &x[0], .seed = 0, .n = 9};
	if (forward_pass_init(&p, &g->v.forward->env, 64, &e))
		fail_msg("%s", e.text);
	test_step_begin(&s, g, r, &rows, 1);
	assert_int_equal(forward_begin(g->v.forward, &p, &s.batch, s.logits, &e), 1);
	if (layers)
		assert_int_equal(forward_go_on(g->v.forward, &p, layers, &e), 1);
	test_driver_be("wild");
	test_rows_of(g, r, &x[1], 1, 4, ROW_DRAFT);
	int more = forward_go_on(g->v.forward, &p, 1, &e);
	test_rows_of(g, r, &x[1], 1, 1, ROW_ANSWER);
	if (more > 0)
		more = forward_go_on(g->v.forward, &p, UINT32_MAX, &e);
	if (more)
		fail_msg("%s", e.text);
	test_step_end(&s);
	forward_pass_free(&p);
	end_two(g, r, x);
}

static void a_pass_that_waits_while_the_gpu_fails_goes_on(void **state)
{
	(void)state;
	driver_or_skip();
	for (uint32_t layers = 0; layers <= test_cpu.v.config->layers; layers++) {
		struct test_record want = {0}, got = {0};
		struct test_gpu g;
		wait_and_fail(&test_cpu, &want, layers);
		test_driver_be(layers % 2 ? "early" : "late");
		test_gpu_open(&g, layers % 2 ? HELD_ALL : HELD_SOME);
		wait_and_fail(&g, &got, layers);
		assert_off(&g, "CUDA_ERROR_ILLEGAL_ADDRESS");
		test_record_same_logits(&got, &want);
		test_record_free(&got);
		test_record_free(&want);
		test_gpu_close(&g);
	}
}

/* The pass has a step before the GPU fails and one after it. */
static void idle_and_fail(struct test_gpu *g, struct test_record *r)
{
	struct context x[2];
	struct forward_pass p;
	struct err e;
	begin_two(g, r, x);
	const struct test_rows rows = {.x = &x[0], .seed = 0, .n = 9};
	if (forward_pass_init(&p, &g->v.forward->env, 64, &e))
		fail_msg("%s", e.text);
	for (int i = 0; i < 2; i++) {
		struct test_step s;
		test_step_begin(&s, g, r, &rows, 1);
		assert_int_equal(forward_begin(g->v.forward, &p, &s.batch, s.logits, &e), 1);
		assert_int_equal(forward_go_on(g->v.forward, &p, UINT32_MAX, &e), 0);
		test_step_end(&s);
		if (i == 0)
			test_driver_be("wild");
		test_rows_of(g, r, &x[1], 1, 4, ROW_DRAFT);
	}
	forward_pass_free(&p);
	end_two(g, r, x);
}

static void a_pass_that_was_idle_when_the_gpu_failed_has_a_stream_of_the_cpus(void **state)
{
	(void)state;
	struct test_record want = {0}, got = {0};
	struct test_gpu g;
	driver_or_skip();
	idle_and_fail(&test_cpu, &want);
	test_driver_be("late");
	test_gpu_open(&g, HELD_SOME);
	idle_and_fail(&g, &got);
	assert_off(&g, "CUDA_ERROR_ILLEGAL_ADDRESS");
	test_record_same_logits(&got, &want);
	test_record_free(&got);
	test_record_free(&want);
	test_gpu_close(&g);
}

/* ---- no memory ---- */

static void a_driver_without_memory_leaves_the_model_to_the_cpu(void **state)
{
	enum { MOST = 12 };
	struct test_record want = {0};
	uint32_t by_cpu = 0;
	struct context x[2];
	(void)state;
	driver_or_skip();
	begin_two(&test_cpu, &want, x);
	end_two(&test_cpu, &want, x);
	test_driver_be("early");
	for (uint32_t pieces = 0; pieces < MOST; pieces++) {
		const long before = test_driver_taken();
		struct test_record got = {0};
		struct test_gpu g;
		char word[32];
		(void)snprintf(word, sizeof word, "memory-after=%u", pieces);
		test_driver_be(word);
		test_gpu_begin(&g, 0);
		if (!test_gpu_computes(&g))
			assert_int_equal(test_gpu_no_card(&g).code, ENOMEM);
		by_cpu += !test_gpu_computes(&g);
		begin_two(&g, &got, x);
		end_two(&g, &got, x);
		test_record_same(&got, &want);
		test_record_free(&got);
		test_gpu_close(&g);
		test_driver_be("");
		assert_int_equal(test_driver_taken(), before);
	}
	assert_in_range(by_cpu, 3, MOST - 1);
	test_record_free(&want);
}

static void a_context_that_finds_no_gpu_memory_is_computed_by_the_cpu(void **state)
{
	struct test_record want = {0}, got = {0};
	struct test_gpu g;
	struct context x[2];
	(void)state;
	driver_or_skip();
	test_gpu_open(&g, HELD_ALL);
	test_driver_be("memory");
	begin_two(&g, &got, x);
	test_driver_be("");
	assert_off(&g, "CUDA_ERROR_OUT_OF_MEMORY");
	end_two(&g, &got, x);
	begin_two(&test_cpu, &want, x);
	end_two(&test_cpu, &want, x);
	test_record_same(&got, &want);
	test_record_free(&got);
	test_record_free(&want);
	test_gpu_close(&g);
}

/* ---- loading and closing ---- */

static void what_a_model_takes_it_gives_back(void **state)
{
	(void)state;
	driver_or_skip();
	for (int late = 0; late < 2; late++) {
		const long before = test_driver_taken();
		struct test_record r = {0};
		struct test_gpu g;
		struct context x[2];
		test_driver_be(late ? "late" : "early");
		for (int i = 0; i < 5; i++) {
			test_gpu_begin(&g, 0); /* closed while experts are copied */
			test_gpu_close(&g);
			assert_int_equal(test_driver_taken(), before);
		}
		test_gpu_open(&g, HELD_SOME);
		begin_two(&g, &r, x);
		end_two(&g, &r, x);
		test_gpu_close(&g);
		test_record_free(&r);
		assert_int_equal(test_driver_taken(), before);
	}
}

/* Contexts outlive a load; their copies on the GPU do not. */
static void contexts_of_before_an_unload_go_on(void **state)
{
	struct test_record want = {0}, got = {0};
	struct err e;
	(void)state;
	driver_or_skip();
	const long before = test_driver_taken();
	for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
		struct test_gpu g;
		struct context x[3];
		test_driver_be("early");
		if (on_gpu)
			test_gpu_open(&g, HELD_ALL);
		else
			g = test_cpu;
		begin_two(&g, on_gpu ? &got : &want, x);
		if (on_gpu) {
			assert_int_equal(model_unload(g.m.model, &e), 0);
			assert_int_equal(test_driver_taken(), before);
			test_model_load_calm(&g.m);
			observe_model(g.m.model, &g.v);
			assert_true(test_gpu_computes(&g));
		}
		test_context_of(&g, &x[2]);
		test_rows_of(&g, on_gpu ? &got : &want, &x[2], 9, 60, ROW_PROMPT);
		test_rows_of(&g, on_gpu ? &got : &want, &x[2], 9, 60, ROW_PROMPT);
		end_two(&g, on_gpu ? &got : &want, x);
		context_free(&x[2]);
		if (on_gpu)
			test_gpu_close(&g);
	}
	test_record_same_logits(&got, &want);
	test_record_free(&got);
	test_record_free(&want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_that_fails_is_computed_by_the_cpu),
		cmocka_unit_test(a_draw_that_fails_is_the_cpus),
		cmocka_unit_test(a_reader_gets_the_cpus_logits_or_an_error),
		cmocka_unit_test(a_pass_that_waits_while_the_gpu_fails_goes_on),
		cmocka_unit_test(a_pass_that_was_idle_when_the_gpu_failed_has_a_stream_of_the_cpus),
		cmocka_unit_test(a_driver_without_memory_leaves_the_model_to_the_cpu),
		cmocka_unit_test(a_context_that_finds_no_gpu_memory_is_computed_by_the_cpu),
		cmocka_unit_test(what_a_model_takes_it_gives_back),
		cmocka_unit_test(contexts_of_before_an_unload_go_on),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, test_gpu_setup, test_gpu_teardown);
}
