/* Sessions that share steps: each has the text that it has alone, whoever else is there, is stopped
 * or is gone. */
#include "session_help.h"

#include "engine/model/engine_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a session is asked, and how. */
struct guest {
	const char *prompt;
	const char *params[4]; /* name and value, name and value */
	bool scores;
};

static const struct guest GUESTS[] = {
	{"What is the capital of France?", {"draft", "off"}, false},
	{"What is 12 x 6?", {"draft", "lookup 3"}, false},
	{"Once upon a time there was a fox who lived", {"chat", "off", "max_tokens", "40"}, false},
	{"What is the capital of Peru?", {"temperature", "0.8", "seed", "7"}, false},
	{"What is the plural of leaf?", {"experts_per_token", "2"}, false},
	{"Say a number.", {"format", "regex", "grammar", "[0-9]{12}"}, false},
	{"One word after another stands in this text that is scored.", {NULL}, true},
	{"What is the opposite of hot?", {"logprobs", "3"}, false},
	{"A fox, a fox, a fox, a fox,", {"chat", "off", "max_tokens", "33"}, false},
};
enum { GUEST_COUNT = sizeof GUESTS / sizeof *GUESTS };

static struct session *guest_session(struct test_model *m, const struct guest *g)
{
	struct session *s = test_greedy_session(m);
	for (size_t i = 0; i < 4 && g->params[i]; i += 2)
		test_set(s, g->params[i], g->params[i + 1]);
	return s;
}

static struct answer *guest_ask(struct session *s, const struct guest *g)
{
	struct answer *a;
	struct err e;
	int failed = g->scores ? session_score(s, g->prompt, strlen(g->prompt), &a, &e)
			       : session_submit(s, g->prompt, strlen(g->prompt), &a, &e);
	if (failed)
		fail_msg("%s: %s", g->prompt, e.text);
	return a;
}

static char *guest_alone(const struct guest *g)
{
	int code;
	struct session *s = guest_session(&fable, g);
	char *text = test_read(guest_ask(s, g), &code);
	assert_int_equal(code, 0);
	assert_true(*text);
	session_end(s);
	return text;
}

/* All are asked while the first one is held before its first step, so that they run together. */
static void guests_begin(struct session *s[GUEST_COUNT], struct answer *a[GUEST_COUNT])
{
	for (size_t i = 0; i < GUEST_COUNT; i++)
		s[i] = guest_session(&fable, &GUESTS[i]);
	test_hold(s[0], 0);
	for (size_t i = 0; i < GUEST_COUNT; i++)
		a[i] = guest_ask(s[i], &GUESTS[i]);
	test_wait_held();
	test_most_together(); /* from now on */
	test_let_go();
}

static void guests_end(struct session *s[GUEST_COUNT], struct answer *a[GUEST_COUNT],
		       const bool gone[GUEST_COUNT])
{
	for (size_t i = 0; i < GUEST_COUNT; i++) {
		int code;
		char *together = test_read(a[i], &code);
		if (!gone[i]) {
			assert_int_equal(code, 0);
			test_same_text(together, guest_alone(&GUESTS[i]));
			session_end(s[i]);
		} else {
			free(together);
		}
	}
}

static void each_has_the_text_that_it_has_alone(void **state)
{
	(void)state;
	struct session *s[GUEST_COUNT];
	struct answer *a[GUEST_COUNT];
	static const bool none[GUEST_COUNT];
	guests_begin(s, a);
	for (size_t i = 0; i < GUEST_COUNT; i++)
		test_wait(a[i]);
	assert_true(test_most_together() >= 4);
	guests_end(s, a, none);
}

/* At every token of the fox's, another one is stopped or ends. */
static void who_leaves_changes_nobody_elses_text(void **state)
{
	(void)state;
	for (size_t leaves = 1; leaves < GUEST_COUNT; leaves++) {
		struct session *s[GUEST_COUNT];
		struct answer *a[GUEST_COUNT];
		bool gone[GUEST_COUNT] = {false};
		size_t other = leaves % 2 ? leaves : 0, fox = leaves == 2 ? 8 : 2;
		guests_begin(s, a);
		test_wait_bytes(a[fox], leaves * 4);
		gone[leaves] = gone[other] = true;
		session_end(s[leaves]);
		if (other != leaves) {
			session_stop(s[other]);
			test_wait(a[other]);
			session_end(s[other]);
		}
		guests_end(s, a, gone);
	}
}

/* What a session's stats count is its own. */
static void stats_count_a_sessions_own_experts(void **state)
{
	(void)state;
	struct session *s[GUEST_COUNT];
	struct answer *a[GUEST_COUNT];
	static const bool none[GUEST_COUNT];
	struct session *alone = guest_session(&fable, &GUESTS[0]);
	int code;
	free(test_read(guest_ask(alone, &GUESTS[0]), &code));
	struct session_stats want = test_stats(alone);
	session_end(alone);
	guests_begin(s, a);
	for (size_t i = 0; i < GUEST_COUNT; i++)
		test_wait(a[i]);
	struct session_stats is = test_stats(s[0]);
	assert_int_equal(is.output_tokens, want.output_tokens);
	assert_int_equal(is.expert_hits + is.expert_misses, want.expert_hits + want.expert_misses);
	guests_end(s, a, none);
}

/* The fox is told while a long prompt is read, and both are what they are alone. */
static void an_answer_continues_between_the_layers_of_a_prompt(void **state)
{
	(void)state;
	enum { BYTES = 2000 };
	char prompt[BYTES + 1] = {0}, *alone[2], *beside[2];
	for (size_t i = 0; i + 10 <= BYTES; i += 10)
		memcpy(prompt + i, "Words ask ", 10);
	const struct guest guests[] = {GUESTS[2], {prompt, {"max_tokens", "6"}, false}};
	for (size_t i = 0; i < 2; i++)
		alone[i] = guest_alone(&guests[i]);
	uint32_t bound = fable.engine->options.step_ms;
	fable.engine->options.step_ms = 0; /* after each layer */
	struct session *fox = guest_session(&fable, &guests[0]),
		       *reader = guest_session(&fable, &guests[1]);
	test_hold(fox, 10);
	struct answer *told = guest_ask(fox, &guests[0]);
	test_wait_held();
	struct answer *read = guest_ask(reader, &guests[1]);
	test_wait_prepared(fable.model);
	(void)test_between_layers(); /* from now on */
	test_let_go();
	int code;
	beside[0] = test_read(told, &code);
	assert_int_equal(code, 0);
	beside[1] = test_read(read, &code);
	assert_int_equal(code, 0);
	fable.engine->options.step_ms = bound;
	assert_true(test_between_layers() >= 7); /* of the demonstration model's 8 layers */
	for (size_t i = 0; i < 2; i++)
		test_same_text(alone[i], beside[i]);
	session_end(fox);
	session_end(reader);
}

/* Many turns at once, in contexts for three blocks of 64 tokens. Answers of 90 tokens grow while
 * others run, so contexts of running turns are given up and computed again. */
static void turns_that_find_no_room_wait_for_others(void **state)
{
	(void)state;
	enum { COUNT = 60, ROOM = 3 };
	static const struct guest kinds[] = {
		{"What is the capital of France?", {NULL}, false},
		{"Once upon a time there was a fox who lived",
		 {"chat", "off", "max_tokens", "90"},
		 false},
		{"What is 12 x 6?", {"draft", "lookup 3"}, false},
	};
	struct test_model small;
	struct session *s[COUNT];
	struct answer *a[COUNT];
	char *alone[3];
	uint64_t budget = (uint64_t)ROOM * TEST_BLOCK_BYTES;
	for (size_t i = 0; i < 3; i++)
		alone[i] = guest_alone(&kinds[i]);
	test_model_ready(&small, test_fable(), &(struct engine_options){.context_budget = budget});
	for (size_t i = 0; i < COUNT; i++) {
		s[i] = guest_session(&small, &kinds[i % 3]);
		a[i] = guest_ask(s[i], &kinds[i % 3]);
	}
	for (size_t i = 0; i < COUNT; i++) {
		int code;
		char *text = test_read(a[i], &code);
		assert_int_equal(code, 0);
		assert_string_equal(text, alone[i % 3]);
		free(text);
		assert_true(engine_context_used(small.engine) <= budget);
	}
	for (size_t i = 0; i < COUNT; i++)
		session_end(s[i]);
	for (size_t i = 0; i < 3; i++)
		free(alone[i]);
	model_close(small.model);
	assert_int_equal(engine_context_used(small.engine), 0);
	engine_destroy(small.engine);
}

/* No answer goes on between the layers of a prompt, unless a test says so: on a slow machine it could be over before
 * another one has begun. */
static int together_load(void **state)
{
	int failed = fable_load(state);
	fable.engine->options.step_ms = UINT32_MAX;
	return failed;
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_has_the_text_that_it_has_alone),
		TEST(who_leaves_changes_nobody_elses_text),
		TEST(stats_count_a_sessions_own_experts),
		TEST(an_answer_continues_between_the_layers_of_a_prompt),
		TEST(turns_that_find_no_room_wait_for_others),
	};
	return cmocka_run_group_tests(tests, together_load, fable_close);
}
