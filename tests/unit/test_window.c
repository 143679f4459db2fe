/* Models whose layers see a window: a context holds the positions that the next row and the rows
 * after a checkpoint see; after going back to any position in any way it computes the same bits as
 * a context that was never elsewhere. */
#include "engine/compute/context_save.h"
#include "engine/admin/observe.h"
#include "forward_help.h"
#include "golden.h"
#include "session_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

enum { TOKENS = 400, WINDOW = 16 };

/* The last one has entries beside its windows: tests of what is saved leave it out. */
static const char *const fixtures[] = {"gpt_oss", "gemma4_moe", "deepseek_v4"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures, WINDOWS_ALONE = 2 };

static struct test_model model;
static struct model_view view;
static uint32_t tokens[TOKENS];
static float *want; /* logits of all of these, computed in one context: [TOKENS][vocabulary] */
static struct err e;

static size_t row_bytes(void)
{
	return view.config->vocabulary * sizeof(float);
}

static void begin(struct context *x)
{
	context_init(x, view.context_budget, view.config, view.kv);
}

/* Computes the next n tokens of the text in steps of `chunk`; each row's logits are as they were.
 */
static void compute(struct context *x, uint32_t n, uint32_t chunk)
{
	float *got = malloc(chunk * row_bytes());
	assert_non_null(got);
	for (uint32_t done = 0, count; done < n; done += count) {
		size_t position = x->tokens.count;
		count = n - done < chunk ? n - done : chunk;
		if (test_step(view.forward, x, tokens + position, count, got, &e))
			fail_msg("%s", e.text);
		assert_memory_equal(got, (char *)want + position * row_bytes(),
				    count * row_bytes());
	}
	free(got);
}

static void load(const char *fixture, bool exact)
{
	test_model_ready(&model, test_fixture(fixture),
			 &(struct engine_options){.quant = exact ? "bf16" : NULL, .exact = exact});
	test_wait_converted(model.model);
	observe_model(model.model, &view);
	assert_int_equal(view.config->window, WINDOW);
	for (uint32_t i = 0; i < TOKENS; i++)
		tokens[i] = (i * i * 3 + i * 37 + 11) % 380;
	want = malloc(TOKENS * row_bytes());
	assert_non_null(want);
	struct context x;
	begin(&x);
	for (uint32_t at = 0; at < TOKENS; at += 100) /* no step before it was ever given back */
		if (test_step(view.forward, &x, tokens + at, 100,
			      want + at * view.config->vocabulary, &e))
			fail_msg("%s", e.text);
	context_free(&x);
}

static void unload(void)
{
	free(want);
	test_model_close(&model);
}

static void for_first(int count, void (*test)(void))
{
	for (int i = 0; i < count; i++)
		for (int exact = 0; exact < 2; exact++) {
			if (!test_fixture(fixtures[i]))
				continue;
			load(fixtures[i], exact);
			test();
			unload();
		}
}

static void (*test_of_contexts)(void);

static void leaves_nothing(void)
{
	test_of_contexts();
	assert_int_equal(engine_context_used(model.engine), 0);
}

static void for_contexts(void (*test)(void))
{
	test_of_contexts = test;
	for_first(FIXTURES, leaves_nothing);
}

static void for_windows_alone(void (*test)(void))
{
	test_of_contexts = test;
	for_first(WINDOWS_ALONE, leaves_nothing);
}

static uint64_t bytes_of(const struct context *x, uint32_t all, uint32_t windowed)
{
	return all * (x->kv[KV_WHOLE].bytes + x->kv[KV_INDEX].bytes) +
	       windowed * x->kv[KV_WINDOWED].bytes;
}

/* ---- memory ---- */

static void hold_no_more_than_the_end(void)
{
	static const uint32_t chunks[] = {1, 7, 64};
	for (int i = 0; i < 3; i++) {
		struct context x;
		uint32_t chunk = chunks[i];
		begin(&x);
		while (x.tokens.count + chunk <= TOKENS) {
			size_t before = x.tokens.count, back = WINDOW - 1 + KV_BACK;
			compute(&x, chunk, chunk);
			uint32_t all = kv_blocks((uint32_t)x.tokens.count);
			size_t from = before > back ? (before - back) / KV_BLOCK : 0;
			assert_int_equal(engine_context_used(model.engine),
					 bytes_of(&x, all, all - (uint32_t)from));
			assert_true(all - from <= 2 + chunk / KV_BLOCK);
		}
		context_free(&x);
	}
}

static void a_text_of_many_windows_holds_no_more_than_its_end(void **state)
{
	(void)state;
	for_contexts(hold_no_more_than_the_end);
}

static void fit_into_less(void)
{
	struct context x;
	begin(&x);
	uint64_t before = engine_context_budget(model.engine);
	assert_int_equal(engine_set_context_budget(model.engine, bytes_of(&x, 7, 2), &e), 0);
	compute(&x, TOKENS, 16);
	assert_int_equal(engine_set_context_budget(model.engine, before, &e), 0);
	context_free(&x);
}

static void a_text_fits_that_did_not(void **state)
{
	(void)state;
	for_contexts(fit_into_less);
}

/* ---- going back ---- */

static void go_back_to_the_mark_before(void)
{
	struct context x;
	begin(&x);
	for (size_t to = TOKENS; to > 0; to -= to < 23 ? to : 23) {
		while (x.tokens.count < TOKENS) {
			size_t left = TOKENS - x.tokens.count;
			compute(&x, left < 50 ? (uint32_t)left : 50, 50);
			context_checkpoint(&x, x.tokens.count);
		}
		size_t left = context_rollback(&x, to);
		assert_int_equal(left, x.tokens.count);
		assert_true(left <= to && (left + 50 > to || left == 0));
		compute(&x, (uint32_t)(to - left), 9);
	}
	context_free(&x);
}

static void it_goes_back_to_the_mark_before_and_computes_the_same(void **state)
{
	(void)state;
	for_contexts(go_back_to_the_mark_before);
}

static void begin_anew(void)
{
	struct context x;
	begin(&x);
	compute(&x, 300, 20);
	assert_int_equal(context_rollback(&x, 299), 299);
	assert_int_equal(context_rollback(&x, 150), 0);
	assert_int_equal(engine_context_used(model.engine), 0);
	compute(&x, 200, 30);
	context_free(&x);
}

static void without_a_mark_it_begins_anew(void **state)
{
	(void)state;
	for_contexts(begin_anew);
}

/* A step that verifies four drafts, with each number of accepted drafts, at every place of a
 * block. */
static void verify_drafts(void)
{
	struct context x;
	float *got = malloc(5 * row_bytes());
	assert_non_null(got);
	begin(&x);
	compute(&x, 5, 5);
	for (uint32_t i = 0; x.tokens.count + 5 <= TOKENS; i++) {
		size_t before = x.tokens.count;
		uint32_t stand = i * 7 % 5, rows[5];
		for (uint32_t k = 0; k < 5; k++)
			rows[k] = tokens[before + k] + (k > stand);
		if (test_verify(view.forward, &x, rows, 5, got, &e))
			fail_msg("%s", e.text);
		assert_memory_equal(got, (char *)want + before * row_bytes(),
				    (stand + 1) * row_bytes());
		assert_int_equal(context_rollback(&x, before + 1 + stand), before + 1 + stand);
	}
	free(got);
	context_free(&x);
}

static void drafts_that_do_not_stand_leave_no_trace(void **state)
{
	(void)state;
	for_contexts(verify_drafts);
}

static void stop_a_step(void)
{
	struct forward *f = view.forward;
	struct context x;
	begin(&x);
	compute(&x, 200, 20);
	f->env.tap = test_stop_at_state;
	test_states_left = 2;
	assert_int_equal(test_step(f, &x, tokens + 200, 100, NULL, &e), -ECANCELED);
	f->env.tap = NULL;
	atomic_store(&test_stopped, false);
	assert_int_equal(x.tokens.count, 200);
	compute(&x, 100, 33);
	context_free(&x);
}

static void a_step_that_was_stopped_leaves_no_trace(void **state)
{
	(void)state;
	for_contexts(stop_a_step);
}

/* ---- forks and saved contexts ---- */

static void fork_and_go_on(void)
{
	struct context x, y;
	begin(&x);
	begin(&y);
	compute(&x, 150, 50);
	context_checkpoint(&x, 150);
	compute(&x, 150, 50);
	uint64_t before = engine_context_used(model.engine);
	assert_int_equal(context_fork(&y, &x, &e), 0);
	assert_int_equal(engine_context_used(model.engine), before);
	compute(&y, 50, 7);
	compute(&x, 40, 3);
	assert_int_equal(context_rollback(&x, 150), 150);
	assert_int_equal(context_rollback(&y, 150), 0); /* the checkpoint is not the fork's */
	compute(&x, 100, 11);
	compute(&y, 100, 64);
	context_free(&x);
	compute(&y, 100, 64);
	context_free(&y);
}

static void a_fork_goes_on_as_what_it_was_made_of(void **state)
{
	(void)state;
	for_contexts(fork_and_go_on);
}

static uint8_t *save(struct context *x, size_t *n)
{
	struct context_save s;
	if (context_save_open(&s, x, view.config, &e))
		fail_msg("%s", e.text);
	*n = context_save_bytes(&s);
	assert_int_equal(*n, context_save_size(x));
	uint8_t *bytes = malloc(*n);
	assert_non_null(bytes);
	context_save_read(&s, 0, bytes, *n);
	context_save_close(&s);
	return bytes;
}

static int load_from(struct context *x, const uint8_t *bytes, size_t n, size_t piece)
{
	struct context_load l;
	int failed = 0;
	begin(x);
	context_load_begin(&l, x, view.config, TOKENS, n);
	for (size_t at = 0, step; at < n && !failed; at += step) {
		step = n - at < piece ? n - at : piece;
		failed = context_load_feed(&l, bytes + at, step, &e);
	}
	if (!failed) {
		assert_true(context_load_done(&l));
		context_load_end(&l);
		context_move(x, &l.x);
	}
	context_load_free(&l);
	return failed;
}

static void save_and_load(void)
{
	struct context x, y;
	size_t n, again;
	begin(&x);
	compute(&x, 150, 50);
	context_checkpoint(&x, 150);
	compute(&x, 160, 20);
	uint8_t *bytes = save(&x, &n);
	/* Of 5 blocks the checkpoint's window is in 2 (135 … 149), and the end's in one (295 …
	 * 309). */
	size_t element = view.kv == KV_F32 ? 4 : 2;
	assert_int_equal(n, 32 + 16 + 8 + 310 * 4 +
				    KV_BLOCK * element *
					    (5 * view.config->kv_width[KV_WHOLE] +
					     2 * view.config->kv_width[KV_WINDOWED]));
	context_free(&x);
	assert_int_equal(load_from(&x, bytes, n, 1009), 0);
	assert_int_equal(load_from(&y, bytes, n, SIZE_MAX), 0);
	uint8_t *other = save(&y, &again);
	assert_int_equal(again, n);
	assert_memory_equal(other, bytes, n);
	compute(&x, 90, 13);
	assert_int_equal(context_rollback(&y, 150), 150);
	compute(&y, 250, 64);
	assert_int_equal(context_rollback(&x, 170), 170); /* what the checkpoint's block has */
	compute(&x, 100, 1);
	free(bytes);
	free(other);
	context_free(&x);
	context_free(&y);
}

static void what_is_saved_has_the_windows_and_goes_on(void **state)
{
	(void)state;
	for_windows_alone(save_and_load);
}

static void refused(uint8_t *bytes, size_t n, size_t at, size_t width, uint64_t value,
		    const char *words)
{
	struct context x;
	uint64_t before = 0, used = engine_context_used(model.engine);
	memcpy(&before, bytes + at, width);
	memcpy(bytes + at, &value, width);
	assert_int_equal(load_from(&x, bytes, n, 500), -EINVAL);
	memcpy(bytes + at, &before, width);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" lacks \"%s\"", e.text, words);
	context_free(&x);
	assert_int_equal(engine_context_used(model.engine), used);
}

static void forge_counts(void)
{
	struct context x;
	size_t n;
	begin(&x);
	compute(&x, 310, 31);
	context_checkpoint(&x, 300);
	context_checkpoint(&x, 310);
	uint8_t *bytes = save(&x, &n);
	refused(bytes, n, 32, 8, 0, "another model");
	refused(bytes, n, 32, 8, UINT64_MAX, "another model");
	refused(bytes, n, 40, 4, 0, "another model");
	refused(bytes, n, 40, 4, WINDOW + 1, "another model");
	refused(bytes, n, 44, 4, 0, "contradict");
	refused(bytes, n, 44, 4, 3, "contradict");
	refused(bytes, n, 44, 4, KV_CHECKPOINTS + 1, "contradict");
	refused(bytes, n, 44, 4, UINT32_MAX, "contradict");
	refused(bytes, n, 48, 8, 0, "contradict");
	refused(bytes, n, 48, 8, 310, "contradict");
	refused(bytes, n, 48, 8, 100, "contradict"); /* it would have other blocks */
	refused(bytes, n, 56, 8, 311, "contradict");
	refused(bytes, n, 56, 8, UINT64_MAX, "contradict");
	free(bytes);
	context_free(&x);
}

static void forged_marks_are_refused_in_words(void **state)
{
	(void)state;
	for_windows_alone(forge_counts);
}

/* ---- sessions ---- */

/* As long as several windows and blocks, in ids of random models. */
static char *long_prompt(const char *end)
{
	static char text[600];
	size_t n = 0;
	for (int i = 0; i < 50; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "word %d ", i * i % 17);
	(void)snprintf(text + n, sizeof text - n, "%s", end);
	return text;
}

static struct session *session(void)
{
	struct session *s = test_greedy_session(&model);
	test_set(s, "max_tokens", "12");
	return s;
}

static char *answer_of(struct session *s, const char *prompt)
{
	char *text = test_ask(s, prompt);
	assert_true(test_stats(s).context_tokens > 2 * KV_BLOCK);
	return text;
}

static void undo_turns(void)
{
	struct session *s = session(), *other = session();
	free(answer_of(s, long_prompt("first")));
	free(answer_of(other, long_prompt("first")));
	free(answer_of(s, "something else"));
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(answer_of(s, "second"), answer_of(other, "second"));
	/* The first turn's prompt is not computed again. */
	assert_true(test_stats(s).cached_tokens > 2 * KV_BLOCK);
	assert_true(test_stats(s).cached_tokens >= test_stats(other).cached_tokens);
	session_end(s);
	session_end(other);
}

static void an_undone_turn_goes_back_to_where_it_began(void **state)
{
	(void)state;
	for_first(FIXTURES, undo_turns);
}

static void make_anew(void)
{
	struct session *s = session(), *other = session();
	char *first = answer_of(s, long_prompt("first"));
	uint64_t prompt = test_stats(s).prompt_tokens;
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(first, answer_of(s, long_prompt("first")));
	assert_in_range(test_stats(s).recomputed_tokens, 0, KV_BLOCK);
	assert_true(test_stats(s).cached_tokens + KV_BLOCK > prompt);
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(answer_of(s, long_prompt("other")), answer_of(other, long_prompt("other")));
	session_end(s);
	session_end(other);
}

static void an_answer_made_anew_is_the_same(void **state)
{
	(void)state;
	for_first(FIXTURES, make_anew);
}

static void draft_or_not(void)
{
	struct session *off = session(), *on = session();
	test_set(off, "draft", "off");
	test_set(on, "draft", "lookup");
	for (int turn = 0; turn < 3; turn++) {
		test_set(off, "max_tokens", "70");
		test_set(on, "max_tokens", "70");
		test_same_text(test_ask(off, "abc abc abc abc abc"),
			       test_ask(on, "abc abc abc abc abc"));
		assert_int_equal(test_stats(off).context_tokens, test_stats(on).context_tokens);
	}
	session_end(off);
	session_end(on);
}

static void drafted_or_not_the_text_is_the_same(void **state)
{
	(void)state;
	for_first(FIXTURES, draft_or_not);
}

static void a_session_says_what_it_takes_at_most(void **state)
{
	(void)state;
	for (int i = 0; i < FIXTURES; i++) {
		char text[32];
		const char *fixture = test_fixture(fixtures[i]);
		if (!fixture)
			continue; /* its line said which is missing */
		test_model_ready(&model, fixture, &(struct engine_options){.chunk = 32});
		observe_model(model.model, &view);
		assert_int_equal(model_fact(model.model, FACT_CONTEXT_BYTES, text, sizeof text), 0);
		assert_int_equal(strtoull(text, NULL, 10),
				 context_full_bytes(view.config, view.kv, view.context, 32));
		test_model_close(&model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_of_many_windows_holds_no_more_than_its_end),
		cmocka_unit_test(a_text_fits_that_did_not),
		cmocka_unit_test(it_goes_back_to_the_mark_before_and_computes_the_same),
		cmocka_unit_test(without_a_mark_it_begins_anew),
		cmocka_unit_test(drafts_that_do_not_stand_leave_no_trace),
		cmocka_unit_test(a_step_that_was_stopped_leaves_no_trace),
		cmocka_unit_test(a_fork_goes_on_as_what_it_was_made_of),
		cmocka_unit_test(what_is_saved_has_the_windows_and_goes_on),
		cmocka_unit_test(forged_marks_are_refused_in_words),
		cmocka_unit_test(an_undone_turn_goes_back_to_where_it_began),
		cmocka_unit_test(an_answer_made_anew_is_the_same),
		cmocka_unit_test(drafted_or_not_the_text_is_the_same),
		cmocka_unit_test(a_session_says_what_it_takes_at_most),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
