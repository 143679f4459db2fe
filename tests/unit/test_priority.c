/* params/priority: whose prompts come first, who has places, who gives way for want of room; and
 * that low never starves. Each claim is about an order of events. */
#include "session_help.h"

#include "engine/model/engine_state.h"
#include "engine/run/run.h"
#include "engine/run/shares.h"
#include "engine/session/session_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- shares ---- */

static const bool ALL[SESSION_PRIORITIES] = {true, true, true};

/* Rows that each priority has got after `rounds` steps of `rows`. */
static void share_out(struct shares *s, const bool waits[SESSION_PRIORITIES], uint64_t ahead,
		      uint32_t rows, int rounds, uint32_t got[SESSION_PRIORITIES])
{
	memset(got, 0, SESSION_PRIORITIES * sizeof *got);
	while (rounds--) {
		enum session_priority p = shares_next(s, waits, ahead);
		shares_count(s, p, rows);
		got[p] += rows;
	}
}

static void rows_are_shared_as_four_two_and_one(void **state)
{
	(void)state;
	struct shares s = {0};
	uint32_t got[SESSION_PRIORITIES];
	share_out(&s, ALL, 0, 5, 700, got);
	assert_in_range(got[SESSION_HIGH], 5 * 398, 5 * 402);
	assert_in_range(got[SESSION_NORMAL], 5 * 198, 5 * 202);
	assert_in_range(got[SESSION_LOW], 5 * 98, 5 * 102);
}

static void high_comes_first_but_not_without_end(void **state)
{
	(void)state;
	enum { AHEAD = 100, ROWS = 10 };
	struct shares s = {0};
	uint32_t high = 0, normal = 0;
	enum session_priority p;
	while ((p = shares_next(&s, ALL, AHEAD)) == SESSION_HIGH) {
		shares_count(&s, p, ROWS);
		high += ROWS;
	}
	assert_in_range(high, AHEAD, AHEAD + ROWS);
	while ((p = shares_next(&s, ALL, AHEAD)) == SESSION_NORMAL) {
		shares_count(&s, p, ROWS);
		normal += ROWS;
	}
	assert_int_equal(p, SESSION_LOW);
	assert_in_range(normal, AHEAD / 2, AHEAD / 2 + ROWS);
	/* After each row of low: four of high, two of normal. */
	uint32_t got[SESSION_PRIORITIES];
	share_out(&s, ALL, AHEAD, ROWS, 700, got);
	assert_in_range(got[SESSION_LOW], ROWS * 98, ROWS * 102);
	assert_in_range(got[SESSION_HIGH], ROWS * 395, ROWS * 405);
}

static void who_was_not_there_saves_nothing_up(void **state)
{
	(void)state;
	static const bool low[SESSION_PRIORITIES] = {[SESSION_LOW] = true};
	static const bool high[SESSION_PRIORITIES] = {[SESSION_HIGH] = true};
	struct shares s = {0};
	uint32_t got[SESSION_PRIORITIES];
	share_out(&s, high, 0, 1, 100000, got);
	share_out(&s, ALL, 0, 1, 70, got); /* low and normal are new */
	assert_in_range(got[SESSION_LOW], 9, 11);
	assert_in_range(got[SESSION_HIGH], 38, 42);
	share_out(&s, low, 0, 1, 100000, got);
	share_out(&s, ALL, 0, 1, 70, got); /* high is new again */
	assert_in_range(got[SESSION_LOW], 9, 11);
	assert_in_range(got[SESSION_HIGH], 38, 42);
}

/* ---- sessions ---- */

static const char PROMPT[] = "What is the capital of France?";

static const char *answer_tokens = "24"; /* at most */

static struct session *ranked_session(struct test_model *m, const char *priority)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "priority", priority);
	/* Else answers of the same length have other numbers of steps, or take long. */
	test_set(s, "draft", "off");
	test_set(s, "max_tokens", answer_tokens);
	return s;
}

/* Sessions of these priorities are asked in their order while another one's step is held, so that
 * they wait together. */
static void ask_together(struct test_model *m, const char *const *priorities, size_t count,
			 const char *prompt, struct session *s[], struct answer *a[])
{
	struct session *held = ranked_session(m, "high");
	struct answer *first = test_submit_held(held, PROMPT, 0);
	for (size_t i = 0; i < count; i++) {
		s[i] = ranked_session(m, priorities[i]);
		a[i] = test_submit(s[i], prompt);
	}
	test_wait_prepared(m->model);
	test_record_places();
	free(test_read(first, &(int){0}));
	session_end(held);
}

static void assert_answered(struct answer *a, const char *want)
{
	int code;
	char *text = test_read(a, &code);
	assert_int_equal(code, 0);
	assert_string_equal(text, want);
	free(text);
}

static char *alone(const char *prompt)
{
	struct session *s = test_greedy_session(&fable);
	char *text = test_ask(s, prompt);
	session_end(s);
	return text;
}

/* The step in which the session had its first place, or its last one. */
static size_t step_of(const struct session *s, bool last)
{
	size_t count, found;
	const struct test_place *p = test_places(&count);
	found = count;
	for (size_t i = 0; i < count && (last || found == count); i++)
		if (p[i].session == s)
			found = i;
	return found < count ? p[found].first : count;
}

static void higher_prompts_begin_first_and_within_a_priority_the_earlier_ones(void **state)
{
	(void)state;
	static const char *const priorities[] = {"low",	 "normal", "high", "normal",
						 "high", "low",	   "high"};
	static const size_t order[] = {2, 4, 6, 1, 3, 0, 5};
	enum { COUNT = sizeof order / sizeof *order };
	struct session *s[COUNT];
	struct answer *a[COUNT];
	char *want = alone(PROMPT);
	ask_together(&fable, priorities, COUNT, PROMPT, s, a);
	for (size_t i = 0; i < COUNT; i++)
		assert_answered(a[i], want);
	for (size_t i = 1; i < COUNT; i++)
		assert_true(step_of(s[order[i - 1]], false) < step_of(s[order[i]], false));
	for (size_t i = 0; i < COUNT; i++)
		session_end(s[i]);
	free(want);
}

static void a_change_of_priority_counts_from_the_next_turn_on(void **state)
{
	(void)state;
	static const char *const priorities[] = {"normal", "low"};
	struct session *s[2];
	struct answer *a[2];
	char *want = alone(PROMPT);
	struct session *held = ranked_session(&fable, "high");
	struct answer *first = test_submit_held(held, PROMPT, 0);
	for (size_t i = 0; i < 2; i++) {
		s[i] = ranked_session(&fable, priorities[i]);
		a[i] = test_submit(s[i], PROMPT);
	}
	test_set(s[1], "priority", "high"); /* its turn is asked: low */
	test_wait_prepared(fable.model);
	test_record_places();
	free(test_read(first, &(int){0}));
	for (size_t i = 0; i < 2; i++)
		assert_answered(a[i], want);
	assert_true(step_of(s[0], false) < step_of(s[1], false));
	session_end(held);
	session_end(s[0]);
	session_end(s[1]);
	free(want);
}

/* Of 32 places that 24 sessions of each priority wait for, high have 18, normal 9 and low 5, or one
 * more or less, in each step that is full. */
static void places_of_answers_are_shared_by_priority(void **state)
{
	(void)state;
	enum { EACH = 24, COUNT = 3 * EACH };
	const char *priorities[COUNT];
	struct session *s[COUNT];
	struct answer *a[COUNT];
	for (size_t i = 0; i < COUNT; i++)
		priorities[i] = session_priority_words[i % 3];
	uint32_t bound = fable.engine->options.step_ms;
	answer_tokens = "100"; /* so that none ends before all have begun */
	fable.engine->options.step_ms = UINT32_MAX; /* none has a step in the middle of a prompt */
	ask_together(&fable, priorities, COUNT, "Say hello to everybody who is here, please.", s,
		     a);
	for (size_t i = 0; i < COUNT; i++)
		test_wait(a[i]);
	fable.engine->options.step_ms = bound;
	answer_tokens = "24";
	size_t count, full = 0, begun = 0;
	const struct test_place *p = test_places(&count);
	for (size_t i = 0; i < count; i++)
		begun = p[i].begins ? i : begun;
	size_t ends = count; /* the first of them */
	for (size_t i = 0; i < COUNT; i++) {
		size_t end = step_of(s[i], true);
		ends = end < ends ? end : ends;
	}
	for (size_t i = begun; i + RUN_PLACES <= ends; i++) {
		size_t of[SESSION_PRIORITIES] = {0};
		if (p[i].first != i || p[i].together != RUN_PLACES)
			continue;
		for (size_t k = 0; k < RUN_PLACES; k++)
			for (size_t n = 0; n < COUNT; n++)
				of[n % 3] += p[i + k].session == s[n];
		assert_in_range(of[SESSION_HIGH], 17, 19);
		assert_in_range(of[SESSION_NORMAL], 8, 10);
		assert_in_range(of[SESSION_LOW], 4, 6);
		full++;
	}
	assert_true(full);
	for (size_t i = 0; i < COUNT; i++) {
		answer_unref(a[i]);
		session_end(s[i]);
	}
}

static void test_small(struct test_model *m, uint64_t blocks)
{
	const struct engine_options options = {.context_budget = blocks * TEST_BLOCK_BYTES};
	test_model_ready(m, test_fable(), &options);
}

/* More turns than contexts have room for. Their ends are in this order. */
static void assert_order_without_room(const char *const *priorities, const size_t *order,
				      size_t count)
{
	struct test_model small;
	struct session *s[64];
	struct answer *a[64];
	char *want = alone(PROMPT);
	test_small(&small, 3);
	ask_together(&small, priorities, count, PROMPT, s, a);
	for (size_t i = 0; i < count; i++)
		assert_answered(a[i], want);
	for (size_t i = 1; i < count; i++)
		if (step_of(s[order[i]], true) < step_of(s[order[i - 1]], true))
			fail_msg("%zu (%s) ends before %zu (%s)", order[i], priorities[order[i]],
				 order[i - 1], priorities[order[i - 1]]);
	for (size_t i = 0; i < count; i++)
		session_end(s[i]);
	test_model_close(&small);
	free(want);
}

static void turns_without_room_are_answered_as_they_were_asked(void **state)
{
	(void)state;
	enum { COUNT = 60 };
	const char *priorities[COUNT];
	size_t order[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		priorities[i] = session_priority_words[SESSION_HIGH - i * 3 / COUNT];
		order[i] = i;
	}
	assert_order_without_room(priorities, order, COUNT);
}

static void a_higher_turn_gets_room_first(void **state)
{
	(void)state;
	static const char *const priorities[] = {"low",	   "low",  "low", "normal",
						 "normal", "high", "high"};
	static const size_t order[] = {5, 6, 3, 4, 0, 1, 2};
	assert_order_without_room(priorities, order, sizeof order / sizeof *order);
}

/* A long answer of low priority has the room when a high one comes: low gives way, and has the same
 * text afterwards. */
static void the_lowest_priority_gives_way(void **state)
{
	(void)state;
	static const char story[] = "Once upon a time there was a fox who lived";
	struct test_model small;
	struct session *s[3];
	struct answer *a[3];
	test_small(&small, 2);
	static const char *const priorities[] = {"low", "normal", "high"};
	char *want = alone(PROMPT);
	for (size_t i = 0; i < 3; i++) {
		s[i] = ranked_session(&small, priorities[i]);
		if (i < 2) {
			test_set(s[i], "chat", "off");
			test_set(s[i], "max_tokens", "40");
		}
	}
	test_hold(s[0], 0);
	a[0] = test_submit(s[0], story);
	a[1] = test_submit(s[1], story);
	test_wait_held();
	test_hold(s[1], 20);
	test_wait_held();
	a[2] = test_submit(s[2], PROMPT);
	test_wait_prepared(small.model);
	test_record_places();
	test_wait(a[2]);
	assert_answered(a[2], want);
	int code[2];
	char *text[2] = {test_read(a[0], &code[0]), test_read(a[1], &code[1])};
	assert_int_equal(code[0], 0);
	assert_int_equal(code[1], 0);
	assert_true(step_of(s[2], true) < step_of(s[0], true));
	assert_true(step_of(s[1], true) < step_of(s[0], true));
	test_same_text(text[0], text[1]);
	for (size_t i = 0; i < 3; i++)
		session_end(s[i]);
	test_model_close(&small);
	free(want);
}

/* High turns come without end, and take all room: low is answered all the same, after no more of
 * them than run.h says. */
static void low_never_starves(void **state)
{
	(void)state;
	enum { HIGH = 4, ROOM = 2, MOST = RUN_AHEAD / 16 + HIGH * RUN_PASSES };
	struct test_model small;
	struct session *s[HIGH], *low;
	struct answer *a[HIGH], *told;
	size_t asked = 0;
	bool complete = false;
	test_small(&small, ROOM);
	low = ranked_session(&small, "low");
	for (size_t i = 0; i < HIGH; i++)
		s[i] = ranked_session(&small, "high");
	test_hold(s[0], 0);
	a[0] = test_submit(s[0], PROMPT);
	test_wait_held();
	told = test_submit(low, PROMPT);
	for (size_t i = 1; i < HIGH; i++)
		a[i] = test_submit(s[i], PROMPT);
	while (!complete && asked <= MOST) {
		size_t i = asked++ % HIGH;
		free(test_read(a[i], &(int){0}));
		(void)session_reset(s[i], NULL);
		a[i] = test_submit(s[i], PROMPT);
		(void)answer_size(told, &complete);
	}
	assert_true(complete);
	char *want = alone(PROMPT);
	assert_answered(told, want);
	for (size_t i = 0; i < HIGH; i++) {
		test_wait(a[i]);
		answer_unref(a[i]);
		session_end(s[i]);
	}
	session_end(low);
	test_model_close(&small);
	free(want);
}

/* Turns that wait for room, or for such a turn, are stopped: the others get the room. */
static void a_stopped_turn_waits_no_longer(void **state)
{
	(void)state;
	enum { COUNT = 6 };
	struct test_model small;
	struct session *s[COUNT];
	struct answer *a[COUNT];
	char *want = alone(PROMPT);
	test_small(&small, 1);
	for (size_t i = 0; i < COUNT; i++)
		s[i] = ranked_session(&small, "normal");
	test_hold(s[0], 0);
	for (size_t i = 0; i < COUNT; i++)
		a[i] = test_submit(s[i], PROMPT);
	test_wait_held();
	test_hold(s[0], 20);
	test_wait_held(); /* by now the next one has begun, and found no room */
	assert_int_equal(test_stats(s[1]).waits, SESSION_WAITS_ROOM);
	for (size_t i = 1; i < COUNT; i += 2)
		session_stop(s[i]);
	for (size_t i = 0; i < COUNT; i += 2)
		assert_answered(a[i], want);
	for (size_t i = 1; i < COUNT; i += 2) {
		test_wait(a[i]);
		answer_unref(a[i]);
		assert_int_equal(session_status(s[i]), SESSION_STOPPED);
	}
	for (size_t i = 0; i < COUNT; i++)
		session_end(s[i]);
	test_model_close(&small);
	free(want);
}

/* The lines that session_each_waiting gives, in one text. */
static void waiting_add(void *ctx, const struct session_waiting *w)
{
	char *text = ctx;
	size_t n = strlen(text);
	(void)snprintf(text + n, 200 - n, "%s %s %s, ", w->session,
		       session_priority_words[w->priority], session_wait_words[w->waits]);
	assert_true(w->seconds >= 0);
}

static void assert_waiting(const struct test_model *m, const char *want)
{
	char text[200] = "";
	session_each_waiting(m->model, waiting_add, text);
	assert_string_equal(text, want);
}

static void assert_waits(const struct session *s, enum session_wait want)
{
	assert_int_equal(test_stats(s).waits, want);
}

static void it_is_seen_who_waits_and_for_what(void **state)
{
	(void)state;
	static const char *const priorities[] = {"high", "normal", "low"};
	static const char *const names[] = {"a", "b c", "d"};
	struct test_model small;
	struct session *s[3];
	struct answer *a[3];
	test_small(&small, 1);
	assert_waiting(&small, "");
	for (size_t i = 0; i < 3; i++) {
		s[i] = ranked_session(&small, priorities[i]);
		session_name(s[i], 0, names[i]);
	}
	test_hold(s[0], 0);
	for (size_t i = 0; i < 3; i++)
		a[i] = test_submit(s[i], PROMPT);
	test_wait_held();
	assert_waiting(&small, "b\\040c normal turn, d low turn, ");
	assert_waits(s[1], SESSION_WAITS_TURN);
	assert_true(test_stats(s[1]).queued_seconds > 0);
	assert_int_equal(test_stats(s[2]).priority, SESSION_LOW);
	test_hold(s[0], 20);
	test_wait_held();
	assert_waits(s[0], SESSION_WAITS_NOT);
	assert_waits(s[1], SESSION_WAITS_ROOM);
	assert_waits(s[2], SESSION_WAITS_TURN);
	for (size_t i = 0; i < 3; i++) {
		test_wait(a[i]);
		answer_unref(a[i]);
		assert_waits(s[i], SESSION_WAITS_NOT);
	}
	assert_waiting(&small, "");
	for (size_t i = 0; i < 3; i++)
		session_end(s[i]);
	test_model_close(&small);
}

static void a_turn_waits_for_the_model_while_it_is_loaded(void **state)
{
	(void)state;
	struct test_model small;
	test_model_open(&small, test_fable(), &(struct engine_options){0});
	struct session *s = ranked_session(&small, "low");
	struct answer *a = test_submit(s, PROMPT);
	enum session_wait waits = test_stats(s).waits; /* perhaps it is loaded already */
	assert_true(waits == SESSION_WAITS_MODEL || session_status(s) != SESSION_LOADING);
	test_wait(a);
	answer_unref(a);
	assert_waits(s, SESSION_WAITS_NOT);
	session_end(s);
	test_model_close(&small);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_are_shared_as_four_two_and_one),
		TEST(high_comes_first_but_not_without_end),
		TEST(who_was_not_there_saves_nothing_up),
		TEST(higher_prompts_begin_first_and_within_a_priority_the_earlier_ones),
		TEST(a_change_of_priority_counts_from_the_next_turn_on),
		TEST(places_of_answers_are_shared_by_priority),
		TEST(turns_without_room_are_answered_as_they_were_asked),
		TEST(a_higher_turn_gets_room_first),
		TEST(the_lowest_priority_gives_way),
		TEST(low_never_starves),
		TEST(a_stopped_turn_waits_no_longer),
		TEST(it_is_seen_who_waits_and_for_what),
		TEST(a_turn_waits_for_the_model_while_it_is_loaded),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
