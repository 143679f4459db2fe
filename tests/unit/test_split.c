/* Splitting of a model's answers: every case of the rules, however the text is cut. */
#include "random.h"
#include "tests/unit/golden.h"
#include "tests/unit/split_help.h"
#include "tests/unit/tokenizer_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct split *taken_apart(const char *text, size_t n, const size_t *ends, size_t count,
				 const struct json *tools, enum split_thinking thinking)
{
	return taken_apart_as(NULL, text, n, ends, count, tools, thinking);
}

/* ---- the cases ---- */

static bool same_text(const struct json *want, const char *have, size_t n)
{
	size_t length;
	const char *text = json_bytes(want, &length);
	return length == n && memcmp(text, have, n) == 0;
}

static bool as_expected(const struct json *want, const struct split *s)
{
	struct split_result r = split_result(s);
	const struct json *calls = json_find(want, "tool_calls"), *c = NULL;
	bool same = same_text(json_find(want, "reasoning"), r.thoughts, r.thoughts_n) &&
		    same_text(json_find(want, "content"), r.content, r.content_n) &&
		    json_count(calls) == r.calls->count;
	for (size_t i = 0; same && i < r.calls->count; i++) {
		struct json *arguments;
		struct err e = {0};
		const struct call *have = &r.calls->items[i];
		c = json_next(calls, c);
		must(json_parse_text(&arguments, have->arguments, have->arguments_n, "call", &e),
		     &e);
		same = same_text(json_find(c, "name"), have->name, have->name_n) &&
		       same_json(json_find(c, "arguments"), arguments, false);
		json_free(arguments);
	}
	return same;
}

static enum split_thinking thinking_of(const struct json *c)
{
	size_t n;
	const char *word = json_bytes(json_find(c, "thinking"), &n);
	return n == 4 && memcmp(word, "open", 4) == 0  ? THINKING_OPEN
	       : n == 3 && memcmp(word, "off", 3) == 0 ? THINKING_OFF
						       : THINKING_AUTO;
}

static bool case_holds(const struct json *c, const size_t *ends, size_t count)
{
	size_t n;
	const char *text = json_bytes(json_find(c, "text"), &n);
	struct split *s = taken_apart(text, n, ends, count, json_find(c, "tools"), thinking_of(c));
	bool holds = as_expected(json_find(c, "expected"), s);
	struct split_result r = split_result(s);
	if (!holds) {
		print_message("%s, in %zu pieces: thoughts \"%.*s\", content \"%.*s\", %zu calls\n",
			      json_bytes(json_find(c, "id"), &n), count + 1, (int)r.thoughts_n,
			      r.thoughts, (int)r.content_n, r.content, r.calls->count);
		for (size_t i = 0; i < r.calls->count; i++)
			print_message("  %s %s\n", r.calls->items[i].name,
				      r.calls->items[i].arguments);
	}
	split_free(s);
	return holds;
}

/* Whole, byte by byte, and in the case's own pieces. */
static bool case_holds_however_cut(const struct json *c)
{
	static size_t ends[4096];
	size_t n;
	json_bytes(json_find(c, "text"), &n);
	assert_true(n < 4096);
	for (size_t i = 0; i + 1 < n; i++)
		ends[i] = i + 1;
	bool holds = case_holds(c, NULL, 0) && case_holds(c, ends, n > 0 ? n - 1 : 0);
	const struct json *splits = json_find(c, "splits");
	for (const struct json *v = NULL; (v = json_next(splits, v));) {
		size_t count = 0;
		for (const struct json *at = NULL; (at = json_next(v, at));) {
			uint64_t end;
			struct err e = {0};
			must(json_as_uint(at, "split", "case", 0, n, &end, &e), &e);
			ends[count++] = (size_t)end;
		}
		holds = holds && case_holds(c, ends, count);
	}
	return holds;
}

static void every_case_is_taken_apart_by_the_rules(void **state)
{
	(void)state;
	size_t n, count = 0, wrong = 0;
	char *file = read_any(test_data("templates/toolcalls.jsonl.zst"), &n), *rest = file, *line;
	while ((line = strsep(&rest, "\n"))) {
		struct json *c;
		struct err e = {0};
		if (!*line)
			continue;
		must(json_parse_text(&c, line, strlen(line), "case", &e), &e);
		wrong += !case_holds_however_cut(c);
		count++;
		json_free(c);
	}
	free(file);
	assert_int_equal(count, 96);
	assert_int_equal(wrong, 0);
}

/* ---- any text, in any pieces ---- */

static const char TOOLS[] =
	"[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": "
	"{\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": [\"null\", \"object\"]}}}}}]";

static size_t random_text(struct random *r, char *text)
{
	static const char *const WORDS[] = {
		"<think>",
		"</think>",
		"<tool_call>",
		"</tool_call>",
		"<function=f>",
		"<function=g>",
		"</function>",
		"<parameter=a>",
		"<parameter=b>",
		"</parameter>",
		"{\"name\": \"f\", \"arguments\": {\"a\": \"\\u00e9<tool_call>\"}}",
		"{\"name\": \"f\"}",
		"\n",
		" ",
		"x",
		"12",
		"null",
		"{\"a\": [1]}",
		"\xc3\xa9",
		"<",
		"\r\n"};
	size_t n = 0;
	for (size_t i = random_u32(r) % 24; i > 0; i--) {
		const char *word = WORDS[random_u32(r) % (sizeof WORDS / sizeof *WORDS)];
		n += (size_t)sprintf(text + n, "%s", word);
	}
	return n;
}

static void pieces_do_not_change_the_result(void **state)
{
	(void)state;
	struct random r = {1};
	struct json *tools;
	struct err e = {0};
	char text[4096];
	size_t calls = 0;
	must(json_parse_text(&tools, TOOLS, sizeof TOOLS - 1, "tools", &e), &e);
	for (int round = 0; round < 60000; round++) {
		size_t n = random_text(&r, text), ends[64], count = 0;
		enum split_thinking thinking = random_u32(&r) % 3;
		for (size_t at = 0; count < 64 && (at += 1 + random_u32(&r) % 9) < n;)
			ends[count++] = at;
		struct split *whole = taken_apart(text, n, NULL, 0, tools, thinking);
		struct split *cut = taken_apart(text, n, ends, count, tools, thinking);
		assert_same_split(whole, cut);
		calls += split_result(whole).calls->count;
		split_free(whole);
		split_free(cut);
	}
	assert_in_range(calls, 500, 1000000);
	json_free(tools);
}

static void a_long_answer_is_held_only_as_long_as_it_must_be(void **state)
{
	(void)state;
	struct json *tools;
	struct err e = {0};
	must(json_parse_text(&tools, TOOLS, sizeof TOOLS - 1, "tools", &e), &e);
	struct split *s = split_new(tools, THINKING_AUTO);
	must(split_feed(s, "Hello <b>you</b> <tool", 22, &e), &e);
	assert_int_equal(split_result(s).content_n, 16);
	must(split_feed(s, "box>", 4, &e), &e);
	assert_int_equal(split_result(s).content_n, 26);
	/* a string that never ends, of a megabyte, token by token */
	must(split_feed(s, "<tool_call>{\"name\": \"", 21, &e), &e);
	for (int i = 0; i < 200000; i++)
		must(split_feed(s, "abcde", 5, &e), &e);
	assert_int_equal(split_result(s).content_n, 26);
	must(split_finish(s, &e), &e);
	assert_int_equal(split_result(s).content_n, 26 + 21 + 1000000);
	split_free(s);
	json_free(tools);
}

static void a_prompt_s_end_says_whether_thinking_is_open(void **state)
{
	(void)state;
	assert_int_equal(split_thinking_of("a<think>\n", 9), THINKING_OPEN);
	assert_int_equal(split_thinking_of("a<think>\n\n</think>\n", 19), THINKING_AUTO);
	assert_int_equal(split_thinking_of("", 0), THINKING_AUTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case_is_taken_apart_by_the_rules),
		cmocka_unit_test(pieces_do_not_change_the_result),
		cmocka_unit_test(a_long_answer_is_held_only_as_long_as_it_must_be),
		cmocka_unit_test(a_prompt_s_end_says_whether_thinking_is_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
