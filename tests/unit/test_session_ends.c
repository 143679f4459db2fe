/* Turns that end early or cannot be answered: stopped, session ended, model closed or not
 * loadable, and prompts that the model cannot take. */
#include "checkpoint_help.h"
#include "session_help.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

static const char capital[] = "What is the capital of France?";

/* ---- ending early ---- */

/* Begins a turn that would run longer than any test here. */
static const char fox[] = "Once upon a time there was a fox who lived";

static struct session *telling_session(struct test_model *m)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "chat", "off");
	return s;
}

static void stop_ends_a_turn_and_keeps_the_text(void **state)
{
	(void)state;
	int code;
	struct session *s = telling_session(&fable);
	struct answer *a = test_submit_held(s, fox, 10);
	session_stop(s);
	char *text = test_read(a, &code);
	assert_int_equal(code, 0);
	assert_true(strlen(text) >= 10 && text[strlen(text) - 1] == '\n');
	assert_int_equal(session_status(s), SESSION_STOPPED);
	assert_string_equal(test_stats(s).finish, "stopped");
	session_stop(s); /* nothing to stop: no effect */
	assert_int_equal(session_status(s), SESSION_STOPPED);
	test_set(s, "max_tokens", "4");
	free(test_ask(s, capital)); /* and the next turn works */
	free(text);
	session_end(s);
}

static void a_working_session_refuses_what_would_disturb_it(void **state)
{
	(void)state;
	struct err e;
	struct session *s = telling_session(&fable);
	struct answer *a = test_submit_held(s, fox, 10);
	assert_int_equal(session_submit(s, "x", 1, NULL, &e), -EBUSY);
	assert_non_null(strstr(e.text, "stop"));
	assert_int_equal(session_undo(s, &e), -EBUSY);
	assert_int_equal(session_reset(s, &e), -EBUSY);
	assert_true(session_working(s));
	session_stop(s);
	test_wait(a);
	answer_unref(a);
	assert_false(session_working(s));
	session_end(s);
}

static void ending_a_session_fails_its_answer(void **state)
{
	(void)state;
	struct err e;
	struct session *other = test_greedy_session(&fable);
	free(test_ask(other, capital));
	uint64_t used = test_context_used(&fable);
	for (uint64_t bytes = 0; bytes < 30; bytes += 10) {
		int code;
		struct session *s = telling_session(&fable);
		struct answer *a = test_submit_held(s, fox, bytes);
		session_end(s);
		char *text = test_read(a, &code); /* complete: this does not wait */
		assert_true(strlen(text) >= bytes);
		assert_int_equal(code, -EIO);
		free(text);
		/* A turn of another session comes after the step that was in progress, which frees
		 * what the ended one had. */
		assert_int_equal(session_reset(other, &e), 0);
		free(test_ask(other, capital));
		assert_int_equal(test_context_used(&fable), used);
	}
	session_end(other);
}

static void a_model_closes_while_the_turn_of_an_ended_session_runs(void **state)
{
	(void)state;
	int code;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	struct session *s = telling_session(&m), *waiting = telling_session(&m);
	struct answer *a = test_submit_held(s, fox, 1), *other = test_submit(waiting, fox);
	session_end(s);
	session_end(waiting);
	test_model_close(&m);
	free(test_read(a, &code)); /* answers outlive the engine */
	assert_int_equal(code, -EIO);
	free(test_read(other, &code));
	assert_int_equal(code, -EIO);
}

/* ---- turns that cannot be answered ---- */

static void invalid_prompts_are_refused_at_once(void **state)
{
	(void)state;
	struct err e;
	struct session *s = test_greedy_session(&fable);
	size_t most = model_max_prompt_bytes(fable.model);
	char *text = malloc(most + 2);
	memset(text, 'a', most + 2);
	assert_int_equal(session_submit(s, "", 0, NULL, &e), -EINVAL);
	assert_int_equal(session_submit(s, "\n", 1, NULL, &e), -EINVAL);
	assert_int_equal(session_submit(s, text, most + 1, NULL, &e), -EFBIG);
	assert_non_null(strstr(e.text, "max_prompt_bytes"));
	assert_false(session_working(s));
	assert_int_equal(session_status(s), SESSION_IDLE);
	free(text);
	session_end(s);
}

static void invalid_utf8_is_an_error_in_words(void **state)
{
	(void)state;
	static const char *const prompts[] = {"\xff", "abc\xc3", "\xed\xa0\x80", "caf\xe9 au lait"};
	struct session *s = test_greedy_session(&fable);
	for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
		test_ask_refused(s, prompts[i], "UTF-8");
	assert_string_equal(test_stats(s).finish, "error");
	test_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
}

static void a_prompt_longer_than_the_context_is_an_error_in_words(void **state)
{
	(void)state;
	struct test_model small;
	char text[1024];
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 64});
	struct session *s = test_greedy_session(&small);
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	test_ask_refused(s, text, "64");
	/* Prompts that fit are answered until the context is full; undo makes room. */
	test_set(s, "on_full", "error");
	test_answer(s, capital, "The capital of France is Paris.\n");
	free(test_ask(s, "What is 12 x 6?"));
	test_ask_refused(s, "What is the capital of Lithuania, please?", "reset");
	struct err e;
	assert_int_equal(session_reset(s, &e), 0);
	test_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
	test_model_close(&small);
}

static void an_answer_ends_where_the_context_does(void **state)
{
	(void)state;
	int code;
	struct test_model small;
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 40});
	struct session *s = telling_session(&small);
	free(test_read(test_submit(s, fox), &code));
	assert_int_equal(code, 0);
	assert_string_equal(test_stats(s).finish, "length");
	assert_int_equal(test_stats(s).context_tokens, 40);
	session_end(s);
	test_model_close(&small);
}

static void a_context_budget_that_is_used_up_is_an_error_in_words(void **state)
{
	(void)state;
	struct err e;
	struct test_model small;
	test_model_open(&small, test_fable(),
			&(struct engine_options){.context_budget = TEST_BLOCK_BYTES});
	struct session *s = test_greedy_session(&small), *other = test_greedy_session(&small);
	test_answer(s, capital, "The capital of France is Paris.\n");
	test_answer(other, capital, "The capital of France is Paris.\n"); /* a block of one at rest */
	assert_int_equal(engine_set_context_budget(small.engine, TEST_BLOCK_BYTES - 1, &e), 0);
	test_ask_refused(s, capital, "context_budget");
	assert_int_equal(engine_set_context_budget(small.engine, 1 << 20, &e), 0);
	test_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
	session_end(other);
	model_close(small.model);
	assert_int_equal(engine_context_used(small.engine), 0);
	engine_destroy(small.engine);
}

/* It goes when the model is mounted already. Many times, since asking again at once meets the end
 * of the load that failed. */
static void a_missing_tokenizer_is_an_error_in_words_until_it_is_there(void **state)
{
	(void)state;
	char folder[32], path[64];
	struct test_checkpoint c;
	struct test_model m;
	size_t n;
	test_folder_make(folder);
	(void)snprintf(path, sizeof path, "%s/tokenizer.json", folder);
	test_checkpoint_read(&c, "qwen3");
	test_checkpoint_make(&c, "qwen3", folder);
	uint8_t *tokenizer = test_file_read(path, &n);
	for (int i = 0; i < 30; i++) {
		test_model_open(&m, folder, &(struct engine_options){0});
		(void)unlink(path);
		struct session *s = test_greedy_session(&m);
		test_set(s, "max_tokens", "1");
		test_ask_refused(s, "Hello", "tokenizer");
		assert_int_equal(model_state(m.model), MODEL_FAILED);
		test_file_write(path, tokenizer, n);
		free(test_ask(s, "Hello")); /* asking again loads again */
		assert_int_equal(model_state(m.model), MODEL_READY);
		session_end(s);
		test_model_close(&m);
	}
	test_checkpoint_free(&c);
	test_folder_remove(folder);
	free(tokenizer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stop_ends_a_turn_and_keeps_the_text),
		cmocka_unit_test(a_working_session_refuses_what_would_disturb_it),
		cmocka_unit_test(ending_a_session_fails_its_answer),
		cmocka_unit_test(a_model_closes_while_the_turn_of_an_ended_session_runs),
		cmocka_unit_test(invalid_prompts_are_refused_at_once),
		cmocka_unit_test(invalid_utf8_is_an_error_in_words),
		cmocka_unit_test(a_prompt_longer_than_the_context_is_an_error_in_words),
		cmocka_unit_test(an_answer_ends_where_the_context_does),
		cmocka_unit_test(a_context_budget_that_is_used_up_is_an_error_in_words),
		cmocka_unit_test(a_missing_tokenizer_is_an_error_in_words_until_it_is_there),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
