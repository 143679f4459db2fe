/* The plan of a turn: the tokens are those that the turn then has, and the times follow what was
 * measured. */
#include "engine/run/forecast.h"
#include "session_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char question[] = "What is the capital of France?";

static struct session_plan plan(struct session *s, const char *text)
{
	struct session_plan p;
	struct err e;
	if (session_plan(s, text, text ? strlen(text) : 0, &p, &e))
		fail_msg("%s", e.text);
	return p;
}

static void a_line_follows_what_was_measured(void **state)
{
	(void)state;
	struct forecast_line l = {0};
	double y, off;
	assert_false(forecast_at(&l, 1, &y, &off));
	for (int i = 0; i < 50; i++)
		forecast_learn(&l, 10 * (i % 7), 2 + 0.5 * 10 * (i % 7));
	assert_true(forecast_at(&l, 100, &y, &off));
	assert_true(fabs(y - 52) < 1e-6 && off < 1e-3);
	for (int i = 0; i < 200; i++) /* the machine is slower now */
		forecast_learn(&l, 10 * (i % 7), 4 + 10 * (i % 7));
	assert_true(forecast_at(&l, 100, &y, &off));
	assert_true(fabs(y - 104) < 1);
	forecast_learn(&l, 30, 34000); /* once it slept */
	assert_true(forecast_at(&l, 100, &y, &off));
	assert_true(fabs(y - 104) < 2);
}

static void one_point_is_a_level(void **state)
{
	(void)state;
	struct forecast_line l = {0};
	double y, off;
	forecast_learn(&l, 30, 3);
	assert_true(forecast_at(&l, 60, &y, &off));
	assert_true(y > 0 && isfinite(y));
	forecast_learn(&l, 60, 1); /* less time for more is noise: no slope below 0 */
	assert_true(forecast_at(&l, 1000, &y, &off));
	assert_true(y > 0);
}

static void a_plan_has_the_tokens_of_the_turn(void **state)
{
	(void)state;
	static const char *const prompts[] = {"What is the capital of France?", "What is 12 x 6?",
					      "Who are you? Tell me more than you should."};
	struct session *s = test_greedy_session(&fable);
	test_set(s, "max_tokens", "20");
	for (size_t i = 0; i < 3; i++) {
		struct session_plan p = plan(s, prompts[i]);
		char *messages = test_text(s, SESSION_MESSAGES);
		free(test_ask(s, prompts[i]));
		struct session_stats st = test_stats(s);
		assert_int_equal(p.prompt_tokens, st.prompt_tokens);
		assert_int_equal(p.kept_tokens, st.cached_tokens);
		assert_int_equal(p.new_tokens, st.prompt_tokens - st.cached_tokens);
		free(messages);
	}
	struct session_plan p = plan(s, NULL);
	assert_true(p.timed && p.first_token_seconds > 0 && p.token_seconds > 0);
	assert_true(p.kept_tokens > 0);
	session_end(s);
}

static void a_plan_changes_nothing(void **state)
{
	(void)state;
	struct session *s = test_session(&fable);
	(void)plan(s, question);
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	assert_int_equal(session_log_size(s), 0);
	assert_int_equal(session_status(s), SESSION_IDLE);
	session_end(s);
}

static void a_conversation_without_messages_has_no_plan(void **state)
{
	(void)state;
	struct session *s = test_session(&fable);
	struct session_plan p;
	struct err e;
	assert_int_equal(session_plan(s, NULL, 0, &p, &e), -ENODATA);
	assert_non_null(strstr(e.text, "no messages yet"));
	session_end(s);
}

static void without_chat_a_plan_is_of_the_prompt(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "chat", "off");
	test_set(s, "max_tokens", "3");
	struct session_plan p = plan(s, question);
	free(test_ask(s, question));
	assert_int_equal(p.prompt_tokens, test_stats(s).prompt_tokens);
	session_end(s);
}

static void a_plan_loads_no_weights(void **state)
{
	(void)state;
	struct test_model m;
	struct session_plan p;
	struct err e;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	struct session *s = test_session(&m);
	assert_int_equal(session_plan(s, NULL, 0, &p, &e), -EAGAIN);
	assert_string_equal(e.text, "model not loaded");
	p = plan(s, question);
	assert_true(p.prompt_tokens > 0 && !p.timed);
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	session_end(s);
	test_model_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_follows_what_was_measured),
		cmocka_unit_test(one_point_is_a_level),
		cmocka_unit_test(a_plan_has_the_tokens_of_the_turn),
		cmocka_unit_test(a_plan_changes_nothing),
		cmocka_unit_test(a_conversation_without_messages_has_no_plan),
		cmocka_unit_test(without_chat_a_plan_is_of_the_prompt),
		cmocka_unit_test(a_plan_loads_no_weights),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
