/* Answers that repeat themselves: when ids do, compared with a slow reading of the definition; and
 * what sessions make of it. */
#include "checkpoint_help.h"
#include "random.h"
#include "script_help.h"
#include "session_help.h"
#include "store_help.h"

#include "engine/turn/periods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- ids ---- */

enum { IDS = 4096 };
static uint32_t ids[IDS];

/* The definition: the last max(256, 8 p) tokens have a period p of at most 64. */
static bool slowly_repeats(size_t count)
{
	for (size_t p = 1; p <= 64; p++) {
		size_t tokens = 8 * p > 256 ? 8 * p : 256, i = count - tokens + p;
		if (count < tokens)
			continue;
		while (i < count && ids[i] == ids[i - p])
			i++;
		if (i == count)
			return true;
	}
	return false;
}

/* After how many of the tokens the answer first repeats itself; 0: never. */
static size_t first_repetition(size_t count)
{
	struct periods p;
	periods_begin(&p, 0);
	for (size_t n = 1; n <= count; n++) {
		periods_take(&p, ids, n);
		if (p.repeats)
			return n;
	}
	return 0;
}

static void fill(size_t from, size_t to, size_t period, uint32_t base)
{
	for (size_t i = from; i < to; i++)
		ids[i] = base + (uint32_t)((i - from) % period);
}

static void zeros_repeat_after_256_tokens(void **state)
{
	(void)state;
	fill(0, IDS, 1, 0);
	assert_int_equal(first_repetition(255), 0);
	assert_int_equal(first_repetition(256), 256);
}

static void a_table_of_equal_rows_repeats_and_a_table_that_counts_does_not(void **state)
{
	(void)state;
	fill(0, 300, 5, 7); /* 60 rows of 5 tokens */
	assert_int_equal(first_repetition(300), 256);
	for (uint32_t row = 0; row < 60; row++)
		ids[5 * row + 3] = 1000 + row;
	assert_int_equal(first_repetition(300), 0);
}

static void code_whose_lines_are_almost_alike_does_not_repeat(void **state)
{
	(void)state;
	enum { LINE = 12, LINES = 40 };
	fill(0, (size_t)LINE * LINES, LINE, 20);
	for (uint32_t line = 0; line < LINES; line += 15) /* another line after every 15 */
		ids[LINE * line + 6] = 900;
	assert_int_equal(first_repetition((size_t)LINE * LINES), 0);
}

static void every_period_up_to_64_repeats_after_8_of_it_and_256_tokens(void **state)
{
	(void)state;
	for (size_t p = 1; p <= 64; p++) {
		fill(0, IDS, p, 3);
		assert_int_equal(first_repetition(IDS), 8 * p > 256 ? 8 * p : 256);
	}
}

static void a_period_of_65_does_not_repeat(void **state)
{
	(void)state;
	fill(0, IDS, 65, 3);
	assert_int_equal(first_repetition(IDS), 0);
}

static void a_new_period_is_counted_from_where_it_begins(void **state)
{
	(void)state;
	fill(0, 200, 3, 10);
	fill(200, 450, 7, 50);
	fill(450, 800, 2, 90);
	assert_int_equal(first_repetition(800), 450 + 256);
}

static void what_comes_before_the_answer_does_not_count(void **state)
{
	(void)state;
	struct periods p;
	fill(0, 600, 4, 1);
	periods_begin(&p, 300);
	for (size_t n = 301; n <= 600; n++) {
		periods_take(&p, ids, n);
		assert_int_equal(p.repeats, n >= 300 + 256);
	}
}

/* Random texts that repeat themselves for a while, with random periods. */
static void it_is_the_definition(void **state)
{
	(void)state;
	struct random r = {5};
	size_t repeating = 0;
	for (int k = 0; k < 40; k++) {
		struct periods p;
		for (size_t at = 0; at < IDS;) {
			size_t period = 1 + random_u32(&r) % 70, n = random_u32(&r) % 900;
			size_t to = at + n < IDS ? at + n : IDS;
			fill(at, to, period, random_u32(&r) % 3);
			at = to;
		}
		periods_begin(&p, 0);
		for (size_t n = 1; n <= IDS; n++) {
			periods_take(&p, ids, n);
			assert_int_equal(p.repeats, slowly_repeats(n));
			repeating += p.repeats;
		}
	}
	assert_true(repeating > 1000);
}

/* ---- sessions ---- */

/* A session that says nothing but this token, to a limit. */
static struct session *sayer(const char *token, const char *max_tokens)
{
	struct session *s = test_greedy_session(&fable);
	char bias[32];
	(void)snprintf(bias, sizeof bias, "%s 100", token);
	test_set(s, "logit_bias", bias);
	test_set(s, "max_tokens", max_tokens);
	return s;
}

static void expect_end(struct session *s, const char *finish, uint64_t tokens)
{
	assert_string_equal(test_stats(s).finish, finish);
	assert_int_equal(test_stats(s).output_tokens, tokens);
}

static char *again(struct session *s, enum session_again how)
{
	struct answer *a;
	struct err e;
	int code;
	if (session_again(s, how, &a, &e))
		fail_msg("%s", e.text);
	char *text = test_read(a, &code);
	assert_int_equal(code, 0);
	return text;
}

static const char TOKEN[] = "17", PROMPT[] = "Tell me a tale.";

static void an_answer_that_repeats_itself_ends_and_keeps_its_text(void **state)
{
	(void)state;
	struct session *s = sayer(TOKEN, "400"), *off = sayer(TOKEN, "256");
	char *text = test_ask(s, PROMPT);
	expect_end(s, "repetition", 256);
	test_set(off, "stop_repetition", "off");
	test_same_text(text, test_ask(off, PROMPT));
	expect_end(off, "length", 256);
	test_same_text(test_text(s, SESSION_MESSAGES), test_text(off, SESSION_MESSAGES));
	test_set(off, "max_tokens", "400");
	free(test_ask(off, PROMPT));
	expect_end(off, "length", 400);
	session_end(s);
	session_end(off);
}

static void after_repetition_an_answer_continues_and_is_counted_anew(void **state)
{
	(void)state;
	struct session *s = sayer(TOKEN, "0"), *off = sayer(TOKEN, "512");
	free(test_ask(s, PROMPT));
	expect_end(s, "repetition", 256);
	char *text = again(s, SESSION_AGAIN_CONTINUE);
	expect_end(s, "repetition", 256);
	test_set(off, "stop_repetition", "off");
	test_same_text(text, test_ask(off, PROMPT));
	free(again(s, SESSION_AGAIN_CONTINUE));
	expect_end(s, "repetition", 256);
	session_end(s);
	session_end(off);
}

static void an_answer_that_was_cut_short_ends_where_it_would_have(void **state)
{
	(void)state;
	struct session *s = sayer(TOKEN, "100"), *whole = sayer(TOKEN, "0");
	free(test_ask(s, PROMPT));
	free(again(s, SESSION_AGAIN_CONTINUE));
	expect_end(s, "length", 100);
	char *text = again(s, SESSION_AGAIN_CONTINUE);
	expect_end(s, "repetition", 56);
	test_same_text(text, test_ask(whole, PROMPT));
	session_end(s);
	session_end(whole);
}

static void under_a_grammar_an_answer_may_repeat_itself(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "format", "regex");
	test_set(s, "grammar", "(ha)+!");
	test_set(s, "max_tokens", "600");
	struct session *exact = test_greedy_session(&fable);
	test_set(exact, "format", "regex");
	test_set(exact, "grammar", "a{700}");
	free(test_ask(s, PROMPT));
	assert_string_not_equal(test_stats(s).finish, "repetition");
	char *text = test_ask(exact, PROMPT);
	assert_int_equal(strspn(text, "a"), 700);
	assert_string_equal(test_stats(exact).finish, "end");
	free(text);
	session_end(s);
	session_end(exact);
}

/* By itself, with drafts of each kind, and beside others: the same tokens, and no more. */
static void drafts_and_company_do_not_move_the_end(void **state)
{
	(void)state;
	static const char *const drafts[] = {"off", "lookup 1", "lookup 4", "auto"};
	enum { COUNT = sizeof drafts / sizeof *drafts };
	struct session *s[COUNT];
	struct answer *a[COUNT];
	struct session *alone = sayer(TOKEN, "0");
	char *text = test_ask(alone, PROMPT);
	for (size_t i = 0; i < COUNT; i++) {
		s[i] = sayer(TOKEN, "0");
		test_set(s[i], "draft", drafts[i]);
	}
	test_hold(s[0], 0);
	for (size_t i = 0; i < COUNT; i++)
		a[i] = test_submit(s[i], PROMPT);
	test_wait_held();
	test_most_together(); /* from now on */
	test_let_go();
	for (size_t i = 0; i < COUNT; i++) {
		int code;
		test_same_text(test_read(a[i], &code), strdup(text));
		expect_end(s[i], "repetition", 256);
	}
	assert_true(test_most_together() > 1);
	for (size_t i = 0; i < COUNT; i++)
		session_end(s[i]);
	free(text);
	session_end(alone);
}

/* ---- forms of answers, with a scripted model ---- */

#define TEMPLATE                                                                              \
	"{% for m in messages %}<|im_start|>{{ m.content }}<tool_call><|im_end|>{% endfor %}" \
	"{% if messages[-1].content == 'call' %}<|calls|>"                                    \
	"{% elif messages[-1].content == 'think' %}<|thinks|>{% else %}<|says|>{% endif %}"
#define ANSWERS                                                                 \
	"[[\"<|calls|>\", \"<tool_call>\", \"{\\\"name\\\": \\\"get\\\", "      \
	"\\\"arguments\\\": {\\\"a\\\": \\\"\", \"1\", \"1\"],"                 \
	" [\"<|thinks|>\", \"<think>\", \"so \", \"then \", \"or \", \"so \"]," \
	" [\"<|says|>\", \"|\", \" a\", \" |\\n\", \"|\"]]"

static void a_call_may_repeat_itself_and_thoughts_and_text_may_not(void **state)
{
	(void)state;
	static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"get\"}}]";
	struct test_model model;
	char folder[32], path[64];
	test_folder_make(folder);
	(void)snprintf(path, sizeof path, "%s/model", folder);
	test_script_make("{\"template\": \"" TEMPLATE "\", \"answers\": " ANSWERS "}", path);
	test_model_ready(&model, path, &(struct engine_options){.quant = "bf16"});
	struct session *s = test_greedy_session(&model);
	test_set(s, "max_tokens", "400");
	test_write_text(s, SESSION_TOOLS, tools);
	free(test_ask(s, "call"));
	expect_end(s, "length", 400);
	free(test_ask(s, "say"));
	expect_end(s, "repetition", 256);
	free(test_ask(s, "think"));
	expect_end(s, "repetition", 257);
	test_set(s, "format", "json");
	free(test_ask(s, "think"));
	expect_end(s, "repetition", 257);
	session_end(s);
	test_model_close(&model);
	test_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zeros_repeat_after_256_tokens),
		cmocka_unit_test(a_table_of_equal_rows_repeats_and_a_table_that_counts_does_not),
		cmocka_unit_test(code_whose_lines_are_almost_alike_does_not_repeat),
		cmocka_unit_test(every_period_up_to_64_repeats_after_8_of_it_and_256_tokens),
		cmocka_unit_test(a_period_of_65_does_not_repeat),
		cmocka_unit_test(a_new_period_is_counted_from_where_it_begins),
		cmocka_unit_test(what_comes_before_the_answer_does_not_count),
		cmocka_unit_test(it_is_the_definition),
		cmocka_unit_test(an_answer_that_repeats_itself_ends_and_keeps_its_text),
		cmocka_unit_test(after_repetition_an_answer_continues_and_is_counted_anew),
		cmocka_unit_test(an_answer_that_was_cut_short_ends_where_it_would_have),
		cmocka_unit_test(under_a_grammar_an_answer_may_repeat_itself),
		cmocka_unit_test(drafts_and_company_do_not_move_the_end),
		cmocka_unit_test(a_call_may_repeat_itself_and_thoughts_and_text_may_not),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
