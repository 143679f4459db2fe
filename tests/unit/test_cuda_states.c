/* Recurrent states on the GPU: the CPU's logits, to the bit, whatever becomes of contexts whose state only
 * the GPU has; and a state that is lost with the GPU, or given up there, is computed again. */
#include "golden.h"
#include "gpu_help.h"

#include "engine/session/session_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

/* What is done on a CPU and on the GPU. */
typedef void deed(struct test_gpu *g, struct test_record *r);

static void compare(deed *d, uint64_t budget)
{
	static const char *const when[] = {"late", "early"};
	struct test_record want = {0};
	if (!test_cpu.m.engine)
		skip();
	d(&test_cpu, &want);
	for (size_t i = 0; i < sizeof when / sizeof *when; i++) {
		struct test_record got = {0};
		struct test_gpu g;
		test_driver_be(when[i]);
		test_gpu_begin(&g, budget);
		d(&g, &got);
		if (!test_gpu_computes(&g))
			fail_msg("%s", test_gpu_no_card(&g).text);
		test_record_same_logits(&got, &want);
		test_record_free(&got);
		test_gpu_close(&g);
	}
	test_record_free(&want);
}

/* On the GPU the state is away after a step, until it is brought. */
static void assert_copy(const struct test_gpu *g, const struct context *x, enum recurrent_copy copy)
{
	assert_int_equal(x->recurrent.copy, g == &test_cpu ? RECURRENT_NOT_COPIED : copy);
}

static void bring(struct test_gpu *g, struct context *x)
{
	forward_bring_state(g->v.forward, x);
	assert_copy(g, x, RECURRENT_COPIED);
	assert_false(recurrent_stale(&x->recurrent));
}

/* ---- one context ---- */

/* Drafts of which none, some and all stand. */
static void drafts(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 1, 40, ROW_PROMPT);
	assert_copy(g, &x, RECURRENT_AWAY);
	for (uint32_t refused = 0; refused < ANSWER_ROWS; refused++) {
		test_rows_of(g, r, &x, 1, ANSWER_ROWS, ROW_DRAFT);
		size_t held = x.tokens.count - refused;
		assert_int_equal(context_rollback(&x, held), held);
		assert_copy(g, &x, RECURRENT_AWAY);
		if (refused % 2)
			bring(g, &x);
	}
	test_rows_of(g, r, &x, 2, 19, ROW_PROMPT);
	test_rows_of(g, r, &x, 2, 1, ROW_ANSWER);
	context_free(&x);
}

static void drafts_stand_or_fall(void **state)
{
	(void)state;
	compare(drafts, 0);
}

/* Back to checkpoints, and on from there. */
static void checkpoints(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	test_context_of(g, &x);
	for (uint32_t i = 1; i <= 3; i++) {
		test_rows_of(g, r, &x, i, 20, ROW_PROMPT);
		bring(g, &x);
		context_checkpoint(&x, x.tokens.count);
	}
	test_rows_of(g, r, &x, 9, 3, ROW_DRAFT);
	assert_int_equal(context_rollback(&x, 59), 40);
	assert_copy(g, &x, RECURRENT_NOT_COPIED);
	test_rows_of(g, r, &x, 4, 2, ROW_PROMPT);
	assert_int_equal(context_rollback(&x, 40), 40);
	test_rows_of(g, r, &x, 5, 1, ROW_ANSWER);
	context_checkpoint(&x, 41); /* does nothing while the state is away */
	assert_int_equal(x.recurrent.checkpoint_count, g == &test_cpu ? 3 : 2);
	assert_int_equal(context_rollback(&x, 20), 20);
	test_rows_of(g, r, &x, 6, 1, ROW_ANSWER);
	context_rollback(&x, 0);
	test_rows_of(g, r, &x, 7, 30, ROW_PROMPT);
	context_free(&x);
}

static void texts_go_back_to_checkpoints(void **state)
{
	(void)state;
	compare(checkpoints, 0);
}

static void saw_nothing(void *ctx, struct tensor_id id, const float *x, uint32_t cols,
			const uint32_t *rows, uint32_t n)
{
	(void)ctx, (void)id, (void)x, (void)cols, (void)rows, (void)n;
}

/* A step that somebody observes is the CPU's. */
static void observed(struct test_gpu *g, struct test_record *r)
{
	const struct observer observer = {.saw = saw_nothing};
	struct context x;
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 1, 12, ROW_PROMPT);
	for (uint32_t i = 0; i < 3; i++) {
		const struct test_rows rows = {.x = &x, .seed = 2, .n = 5};
		struct test_step s;
		struct err e;
		test_step_begin(&s, g, r, &rows, 1);
		s.account[0].observer = i == 1 ? NULL : &observer;
		if (forward_run(g->v.forward, &s.batch, s.logits, &e))
			fail_msg("%s", e.text);
		test_step_end(&s);
		assert_copy(g, &x, i == 1 ? RECURRENT_AWAY : RECURRENT_NOT_COPIED);
	}
	bring(g, (test_rows_of(g, r, &x, 1, 1, ROW_ANSWER), &x));
	context_free(&x);
}

static void the_cpu_goes_on_with_a_state(void **state)
{
	(void)state;
	compare(observed, 0);
}

/* ---- several contexts ---- */

/* A fork of a state that is away begins without one. */
static void copies(struct test_gpu *g, struct test_record *r)
{
	enum { COPIES = 5 };
	struct context x[COPIES];
	for (int i = 0; i < COPIES; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 1, 30, ROW_PROMPT);
	test_fork(&x[1], &x[0]);
	assert_true(g == &test_cpu || x[1].recurrent.spoiled);
	test_rows_of(g, r, &x[1], 6, 2, ROW_PROMPT);
	test_rows_of(g, r, &x[0], 5, 3, ROW_DRAFT);
	context_rollback(&x[0], x[0].tokens.count - 1);
	bring(g, &x[0]);
	test_fork(&x[2], &x[0]);
	test_copy_saved(g, &x[3], &x[0]);
	for (int i = 0; i < 2; i++)
		test_step_of(g, r,
			     (struct test_rows[]){{&x[0], 7, 3, ROW_DRAFT, {0}, NULL},
						  {&x[1], 7, 1, ROW_ANSWER, {0}, NULL},
						  {&x[2], 7, 12, ROW_PROMPT, {0}, NULL},
						  {&x[3], 8, 25, ROW_PROMPT, {0}, NULL}},
			     4);
	context_free(&x[0]);
	context_move(&x[4], &x[1]);
	assert_copy(g, &x[4], RECURRENT_AWAY);
	test_context_of(g, &x[0]);
	test_rows_of(g, r, &x[0], 8, 20, ROW_PROMPT);
	test_rows_of(g, r, &x[4], 9, 1, ROW_ANSWER);
	for (int i = 0; i < COPIES; i++)
		context_free(&x[i]);
}

static void contexts_that_fork_or_are_loaded_go_on(void **state)
{
	(void)state;
	compare(copies, 0);
}

/* Of a state that is away a saved context has the last checkpoint. */
static void what_is_away_is_not_saved(void **state)
{
	struct test_record r = {0};
	struct test_gpu g;
	struct context x, saved;
	(void)state;
	if (!test_cpu.m.engine)
		skip();
	test_gpu_begin(&g, 0);
	test_context_of(&g, &x);
	test_context_of(&g, &saved);
	test_rows_of(&g, &r, &x, 1, 10, ROW_PROMPT);
	bring(&g, &x);
	context_checkpoint(&x, 10);
	test_rows_of(&g, &r, &x, 1, 1, ROW_ANSWER);
	test_copy_saved(&g, &saved, &x);
	assert_int_equal(saved.tokens.count, 10);
	context_free(&saved);
	bring(&g, &x);
	test_context_of(&g, &saved);
	test_copy_saved(&g, &saved, &x);
	assert_int_equal(saved.tokens.count, 11);
	context_free(&saved);
	context_free(&x);
	test_record_free(&r);
	test_gpu_close(&g);
}

/* More contexts than the GPU keeps copies of; then the first ones again, whose states are lost. */
static void many(struct test_gpu *g, struct test_record *r)
{
	enum { CONTEXTS = 270, TOGETHER = 30 };
	static struct context x[CONTEXTS];
	struct test_rows rows[TOGETHER];
	for (uint32_t i = 0; i < CONTEXTS; i++)
		test_context_of(g, &x[i]);
	for (uint32_t first = 0; first < CONTEXTS + TOGETHER; first += TOGETHER) {
		for (uint32_t i = 0; i < TOGETHER; i++)
			rows[i] = (struct test_rows){
				.x = &x[(first + i) % CONTEXTS], .seed = first + i, .n = 1};
		test_step_of(g, r, rows, TOGETHER);
	}
	for (uint32_t i = 0; i < CONTEXTS; i++)
		context_free(&x[i]);
}

static void states_that_were_given_up_are_computed_again(void **state)
{
	(void)state;
	compare(many, 0);
}

/* ---- turns ---- */

static void ask(struct test_record *r, struct session *s, const char *prompt)
{
	char *text = test_ask(s, prompt);
	float letters[1024];
	size_t n = 0;
	for (; text[n] && n < 1024; n++)
		letters[n] = (float)text[n];
	test_record_floats(r, letters, n);
	free(text);
}

/* Two turns, of which the first is asked again in other words; and one that begins like the first. When a
 * turn has ended, main memory has its state. */
static void turns(struct test_gpu *g, struct test_record *r)
{
	static const char *const prompts[] = {"the cat and the dog", "and the bird"};
	struct session *s[2] = {test_greedy_session(&g->m), test_greedy_session(&g->m)};
	for (int i = 0; i < 2; i++) {
		test_set(s[i], "max_tokens", "9");
		test_set(s[i], "share_with", "both");
	}
	for (int i = 0; i < 2; i++) {
		ask(r, s[0], prompts[i]);
		assert_copy(g, &s[0]->context, RECURRENT_COPIED);
		ask(r, s[1], prompts[0]);
		assert_false(recurrent_stale(&s[1]->context.recurrent));
	}
	for (int i = 0; i < 2; i++)
		session_end(s[i]);
}

static void answers_are_the_cpus(void **state)
{
	(void)state;
	compare(turns, 0);
}

/* ---- a GPU that fails ---- */

/* Three contexts, the first of which has a checkpoint, and a step of two of them. */
static void fail_at(struct test_gpu *g, struct test_record *r, const char *word)
{
	struct context x[3];
	for (uint32_t i = 0; i < 3; i++) {
		test_context_of(g, &x[i]);
		test_rows_of(g, r, &x[i], i, 9 + i, ROW_PROMPT);
		if (!i) {
			bring(g, &x[0]);
			context_checkpoint(&x[0], 9);
		}
		test_rows_of(g, r, &x[i], i, 3, ROW_DRAFT);
		context_rollback(&x[i], x[i].tokens.count - 1);
	}
	test_driver_be(word);
	test_step_of(g, r,
		     (struct test_rows[]){{&x[0], 0, 2, ROW_PROMPT, {0}, NULL},
					  {&x[1], 1, 3, ROW_DRAFT, {0}, NULL}},
		     2);
	for (uint32_t i = 0; i < 3; i++)
		forward_bring_state(g->v.forward, &x[i]);
	for (uint32_t i = 0; i < 3; i++) {
		test_rows_of(g, r, &x[i], i, 1, ROW_ANSWER);
		context_free(&x[i]);
	}
}

static void states_that_are_lost_with_the_gpu_are_computed_again(void **state)
{
	struct test_record want = {0};
	uint32_t launches = 0;
	bool failed = true;
	(void)state;
	if (!test_cpu.m.engine || test_driver_is_real())
		skip();
	fail_at(&test_cpu, &want, "late");
	for (; failed; launches += 37) {
		struct test_record got = {0};
		struct test_gpu g;
		char word[32];
		(void)snprintf(word, sizeof word, "wild-after=%u", launches);
		test_gpu_begin(&g, 0);
		fail_at(&g, &got, word);
		failed = !test_gpu_computes(&g);
		test_driver_be("");
		test_record_same_logits(&got, &want);
		test_record_free(&got);
		test_gpu_close(&g);
	}
	assert_true(launches > 80);
	test_record_free(&want);
}

/* Contexts by turns, and then all in one step. */
static void crowd(struct test_gpu *g, struct test_record *r)
{
	enum { CONTEXTS = 12 };
	struct context x[CONTEXTS];
	struct test_rows rows[CONTEXTS];
	for (uint32_t i = 0; i < CONTEXTS; i++)
		test_context_of(g, &x[i]);
	for (uint32_t i = 0; i < 2 * CONTEXTS; i++)
		test_rows_of(g, r, &x[i % CONTEXTS], i, 3, ROW_PROMPT);
	for (uint32_t i = 0; i < CONTEXTS; i++)
		rows[i] = (struct test_rows){.x = &x[i], .seed = i, .n = 1, .kind = ROW_ANSWER};
	test_step_of(g, r, rows, CONTEXTS);
	for (uint32_t i = 0; i < CONTEXTS; i++)
		context_free(&x[i]);
}

/* Whether the GPU computes with a budget at the beginning, and at the end. */
static void crowd_with(uint64_t budget, const struct test_record *want, bool computes[2])
{
	struct test_record got = {0};
	struct test_gpu g;
	test_gpu_begin(&g, budget);
	computes[0] = test_gpu_computes(&g);
	crowd(&g, &got);
	computes[1] = test_gpu_computes(&g);
	test_record_same_logits(&got, want);
	test_record_free(&got);
	test_gpu_close(&g);
}

/* From a budget that is too little for the model to one with which nothing is lost. */
static void a_budget_for_a_few_states_is_enough(void **state)
{
	enum { COARSE = 2 << 20, FINE = 1 << 19 };
	struct test_record want = {0};
	bool computes[2] = {false, false};
	uint64_t budget = 64 << 20; /* less than attention alone takes */
	(void)state;
	if (!test_cpu.m.engine || test_driver_is_real())
		skip();
	crowd(&test_cpu, &want);
	for (; !computes[0]; budget += COARSE)
		crowd_with(budget, &want, computes);
	for (budget -= 2 * COARSE; !computes[1]; budget += FINE)
		crowd_with(budget, &want, computes);
	test_record_free(&want);
}

static int states_setup(void **state)
{
	return test_fixture("qwen3_next") ? test_gpu_setup_of(state, "qwen3_next") : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drafts_stand_or_fall),
		cmocka_unit_test(texts_go_back_to_checkpoints),
		cmocka_unit_test(the_cpu_goes_on_with_a_state),
		cmocka_unit_test(contexts_that_fork_or_are_loaded_go_on),
		cmocka_unit_test(what_is_away_is_not_saved),
		cmocka_unit_test(states_that_were_given_up_are_computed_again),
		cmocka_unit_test(answers_are_the_cpus),
		cmocka_unit_test(states_that_are_lost_with_the_gpu_are_computed_again),
		cmocka_unit_test(a_budget_for_a_few_states_is_enough),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, states_setup, test_gpu_teardown);
}
