/* However an answer is cut, and whatever it contains, in any form: the result is the same, and
 * bounded. */
#include "random.h"
#include "tests/unit/split_cases.h"
#include "tests/unit/tokenizer_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- any text, in any pieces ---- */

/* A form's marks, its cases, and a few words that any may have. */
static size_t words_of(const struct split_form *f, const char **words)
{
	static const char *const ANY[] = {
		"f",
		"g",
		" ",
		"\n",
		"[",
		"]",
		"{",
		"}",
		"f()",
		"'",
		"\"",
		"a",
		"(",
		")",
		",",
		"1",
		"<",
		":0",
		"```",
		">",
		"null",
		"s='x'",
		"a=1",
		"f\n",
		"```json",
		"\"s\"",
		"\xc3\xa9",
		"assistant",
		"analysis",
		"final",
		" to=f",
		"call:f{a:1}",
		"{\"a\": 1}",
		"{\"f\": {}}",
		"{\"tool_name\": \"g\", \"parameters\": {}}",
		"{\"name\": \"f\", \"arguments\": {\"a\": [1, \"\xc3\xa9\"]}}"};
	size_t n = form_marks(f, words);
	for (size_t i = 0; i < sizeof ANY / sizeof *ANY; i++)
		words[n++] = ANY[i];
	for (size_t i = 0; FORM_CASES[i].form; i++)
		if (strcmp(FORM_CASES[i].form, f->name) == 0)
			words[n++] = FORM_CASES[i].text;
	return n;
}

static void check_random_texts(const struct split_form *f, const struct json *tools, int rounds)
{
	static const char *words[FORM_MARKS_MAX + 128];
	static char text[16384];
	struct random r = {7};
	size_t count = words_of(f, words), calls = 0;
	for (int round = 0; round < rounds; round++) {
		size_t n = 0;
		for (size_t i = random_u32(&r) % 20; i > 0; i--) {
			const char *word = words[random_u32(&r) % count];
			size_t length = strlen(word);
			if (random_u32(&r) % 8 == 0) /* broken off */
				length = random_u32(&r) % (length + 1);
			memcpy(text + n, word, length);
			n += length;
		}
		struct split *s = taken_apart_any_way(f, text, n, tools, random_u32(&r) % 3);
		struct split_result got = split_result(s);
		for (size_t i = 0; i < got.calls->count; i++) {
			struct json *arguments = parsed(got.calls->items[i].arguments);
			assert_int_equal(json_kind(arguments), JSON_OBJECT);
			json_free(arguments);
		}
		calls += got.calls->count;
		split_free(s);
	}
	if (calls < 50)
		fail_msg("%s: only %zu calls", f->name, calls);
}

static void pieces_do_not_change_the_result_of_any_form(void **state)
{
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; split_form_at(i); i++)
		check_random_texts(split_form_at(i), tools, 1500);
	json_free(tools);
}

/* ---- bounds ---- */

static void check_hostile(const char *form, const char *begin, const char *again, size_t times)
{
	struct json *tools = parsed(FORM_TOOLS);
	struct split *s = split_new(tools, THINKING_AUTO);
	struct err e = {0};
	size_t n = strlen(again);
	split_set_form(s, split_form_named(form));
	must(split_feed(s, begin, strlen(begin), &e), &e);
	for (size_t i = 0; i < times; i++)
		must(split_feed(s, again, n, &e), &e);
	must(split_finish(s, &e), &e);
	struct split_result r = split_result(s);
	if (r.content_n != strlen(begin) + n * times || r.calls->count != 0)
		fail_msg("%s %s%s...: %zu bytes of content, %zu calls", form, begin, again,
			 r.content_n, r.calls->count);
	split_free(s);
	json_free(tools);
}

static void what_never_ends_or_lies_too_deep_is_content(void **state)
{
	(void)state;
	check_hostile("lfm", "<|tool_call_start|>[f(a=", "[", 40000);
	check_hostile("lfm", "<|tool_call_start|>[f(s='", "a, b=", 40000);
	check_hostile("gemma", "<|tool_call>call:f{a:", "{a:", 40000);
	check_hostile("mistral", "[TOOL_CALLS]", "[", 40000);
	check_hostile("gpt-oss", "<|channel|>commentary to=", "x ", 40000);
	check_hostile("glm", "<tool_call>f<arg_key>a</arg_key><arg_value>", "x</arg_value>y",
		      20000);
	check_hostile("kimi", "<|tool_calls_section_begin|><|tool_call_begin|>", "f:", 40000);
	check_hostile("llama", "{\"name\": \"", "f", 100000);
}

static void beginnings_without_end_are_given_up(void **state)
{
	(void)state;
	check_hostile("hermes", "", "<tool_call><function=f><parameter=a>", 5000);
	check_hostile("glm", "", "<tool_call>f<arg_key>a</arg_key><arg_value>", 5000);
	check_hostile("lfm", "", "<|tool_call_start|>f(a='", 8000);
}

static void calls_are_no_more_than_a_message_takes(void **state)
{
	(void)state;
	static const char CALL[] = "[TOOL_CALLS]g[ARGS]{}";
	struct json *tools = parsed(FORM_TOOLS);
	struct split *s = split_new(tools, THINKING_AUTO);
	struct err e = {0};
	split_set_form(s, split_form_named("mistral"));
	for (int i = 0; i < CALLS_MAX + 2; i++)
		must(split_feed(s, CALL, sizeof CALL - 1, &e), &e);
	must(split_finish(s, &e), &e);
	assert_int_equal(split_result(s).calls->count, CALLS_MAX);
	assert_int_equal(split_result(s).content_n, 2 * (sizeof CALL - 1));
	split_free(s);
	json_free(tools);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_do_not_change_the_result_of_any_form),
		cmocka_unit_test(what_never_ends_or_lies_too_deep_is_content),
		cmocka_unit_test(beginnings_without_end_are_given_up),
		cmocka_unit_test(calls_are_no_more_than_a_message_takes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
