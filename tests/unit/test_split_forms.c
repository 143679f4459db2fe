/* How each family writes thoughts and calls: however the text is cut, well-formed calls are calls
 * and all else stays as it is. */
#include "cache/utf8.h"
#include "tests/unit/split_cases.h"
#include "tests/unit/tokenizer_help.h"

#include "engine/answer/split_forms.h"
#include "engine/tokenizer/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIMI_BEGIN "<|tool_calls_section_begin|>"
#define KIMI_CALL "<|tool_call_begin|>"
#define KIMI_SEP "<|tool_call_argument_begin|>"
#define KIMI_CALL_END "<|tool_call_end|>"
#define DSML_TOKEN "\uff5cDSML\uff5c"
#define DS(word) "<\uff5c" word "\uff5c>"
#define DS_SEP DS("tool\u2581sep")
#define DS_CALL DS("tool\u2581calls\u2581begin") DS("tool\u2581call\u2581begin")
#define DS_CALL_END DS("tool\u2581call\u2581end")

static bool is_text(const struct json *v, const char *text, size_t n)
{
	size_t length;
	const char *bytes = json_bytes(v, &length);
	return length == n && memcmp(bytes, text, n) == 0;
}

static bool same_call(const struct json *want, const struct call *have)
{
	const struct json *name = json_next(want, NULL), *arguments = json_next(want, name);
	struct json *own = parsed(have->arguments);
	bool same = is_text(name, have->name, have->name_n) && same_json(arguments, own, false) &&
		    is_text(json_next(want, arguments), have->id ? have->id : "", have->id_n);
	json_free(own);
	return same;
}

static void assert_as_expected(const struct form_case *c, const struct split *s)
{
	struct split_result r = split_result(s);
	struct json *want = parsed(c->calls);
	const struct json *w = NULL;
	bool same = r.calls->count == json_count(want) && r.thoughts_n == strlen(c->thoughts) &&
		    r.content_n == strlen(c->content) &&
		    memcmp(r.thoughts, c->thoughts, r.thoughts_n) == 0 &&
		    memcmp(r.content, c->content, r.content_n) == 0;
	for (size_t i = 0; same && i < r.calls->count; i++)
		same = same_call(w = json_next(want, w), &r.calls->items[i]);
	if (!same) {
		print_message("%s: %s\n", c->form, c->text);
		print_split(&r);
	}
	assert_true(same);
	json_free(want);
}

static void check_case(const struct form_case *c, const struct json *tools)
{
	enum split_thinking thinking =
		strcmp(c->form, "minimax") == 0 && *c->thoughts ? THINKING_OPEN : THINKING_AUTO;
	const struct split_form *form = split_form_named(c->form);
	assert_non_null(form);
	struct split *s = taken_apart_any_way(form, c->text, strlen(c->text), tools, thinking);
	assert_as_expected(c, s);
	split_free(s);
}

static void every_family_s_thoughts_and_calls_are_taken_apart(void **state)
{
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; FORM_CASES[i].form; i++)
		check_case(&FORM_CASES[i], tools);
	json_free(tools);
}

static bool has_case(const char *form)
{
	for (size_t i = 0; FORM_CASES[i].form; i++)
		if (strcmp(FORM_CASES[i].form, form) == 0)
			return true;
	return false;
}

static void every_form_has_a_case(void **state)
{
	(void)state;
	for (size_t i = 0; split_form_at(i); i++)
		if (!has_case(split_form_at(i)->name))
			fail_msg("%s has no case", split_form_at(i)->name);
}

static void a_broken_call_is_content_character_for_character(void **state)
{
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; FORM_BROKEN[i][0]; i++) {
		struct form_case c = {FORM_BROKEN[i][0], FORM_BROKEN[i][1], "", FORM_BROKEN[i][1],
				      "[]"};
		check_case(&c, tools);
	}
	json_free(tools);
}

static void without_tools_there_are_no_calls(void **state)
{
	(void)state;
	for (size_t i = 0; FORM_CASES[i].form; i++) {
		struct split *s = taken_apart_any_way(
			split_form_named(FORM_CASES[i].form), FORM_CASES[i].text,
			strlen(FORM_CASES[i].text), NULL, THINKING_AUTO);
		assert_int_equal(split_result(s).calls->count, 0);
		split_free(s);
	}
}

/* ---- facts from a prompt, a template and a token ---- */

static void calls_come_out_one_by_one(void **state)
{
	(void)state;
	static const char *const TEXTS[][2] = {
		{"kimi", KIMI_BEGIN KIMI_CALL "f:0" KIMI_SEP "{}" KIMI_CALL_END},
		{"minimax", "<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>"},
		{"deepseek", DS_CALL "f" DS_SEP "{}" DS_CALL_END},
		{"mistral", "[TOOL_CALLS]f[ARGS]{}"},
		{"glm", "<tool_call>f</tool_call>"},
		{"gemma", "<|tool_call>call:f{}<tool_call|>"}};
	struct json *tools = parsed(FORM_TOOLS);
	struct err e = {0};
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
		struct split *s = split_new(tools, THINKING_AUTO);
		split_set_form(s, split_form_named(TEXTS[i][0]));
		must(split_feed(s, TEXTS[i][1], strlen(TEXTS[i][1]), &e), &e);
		assert_int_equal(split_result(s).calls->count, 1);
		split_free(s);
	}
	json_free(tools);
}

static void thoughts_of_channels_end_with_the_final_one(void **state)
{
	(void)state;
	static const char HEAD[] = "<|channel|>analysis<|message|>a<|end|>";
	static const char FINAL[] = "<|start|>assistant<|channel|>final<|message|>b";
	struct split *s = split_new(NULL, THINKING_AUTO);
	struct err e = {0};
	split_set_form(s, split_form_named("gpt-oss"));
	must(split_feed(s, HEAD, sizeof HEAD - 1, &e), &e);
	assert_true(split_result(s).thinking);
	must(split_feed(s, FINAL, sizeof FINAL - 1, &e), &e);
	assert_false(split_result(s).thinking);
	assert_int_equal(split_result(s).content_n, 1);
	split_free(s);
}

static void a_prompt_may_open_thinking_with_any_form_s_mark(void **state)
{
	(void)state;
	for (size_t i = 0; split_form_at(i); i++) {
		char prompt[128];
		int n = snprintf(prompt, sizeof prompt, "x%s\n", split_form_at(i)->think_begin);
		assert_int_equal(split_thinking_of(prompt, (size_t)n), THINKING_OPEN);
	}
}

static void a_template_s_words_say_its_form(void **state)
{
	(void)state;
	assert_string_equal(split_form_of("", 0)->name, "hermes");
	assert_string_equal(split_form_of("<tool_call>", 11)->name, "hermes");
	for (size_t i = 1; split_form_at(i); i++) {
		const struct split_form *f = split_form_at(i);
		for (size_t k = 0; k < FORM_WORDS_MAX && f->taught[k]; k++)
			assert_ptr_equal(split_form_of(f->taught[k], strlen(f->taught[k])), f);
	}
}

static void marks_that_are_control_tokens_are_given_to_the_splitter(void **state)
{
	(void)state;
	static const char *const MARKS[][2] = {{"gpt-oss", "<|channel|>"},
					       {"gpt-oss", "<|call|>"},
					       {"gpt-oss", "<|constrain|>"},
					       {"gemma", "<|\"|>"},
					       {"gemma", "<|channel>"},
					       {"kimi", KIMI_SEP},
					       {"mistral", "[ARGS]"},
					       {"mistral", "[THINK]"},
					       {"command", "<|END_RESPONSE|>"},
					       {"glm", "</arg_value>"},
					       {"deepseek", DS_SEP},
					       {"dsml", "\uff5cDSML\uff5c"},
					       {"llama", "<|python_tag|>"},
					       {"apertus", "<|inner_suffix|>"}};
	for (size_t i = 0; i < sizeof MARKS / sizeof *MARKS; i++)
		assert_true(split_form_marks(split_form_named(MARKS[i][0]), MARKS[i][1],
					     strlen(MARKS[i][1])));
	assert_false(split_form_marks(split_form_named("kimi"), "<|im_end|>", 10));
	assert_false(split_form_marks(split_form_named(NULL), "<|im_start|>", 12));
}

/* Tokens that begin or end a message are never marks that an answer may spell; tokens of calls
 * are, so that a call's text is unchanged. */
static void marks_of_calls_may_be_spelled_in_answers(void **state)
{
	(void)state;
	for (size_t i = 0; split_form_at(i); i++) {
		const struct split_form *f = split_form_at(i);
		const struct call_way *w = &f->ways[0];
		const char *const words[] = {f->channels ? NULL : f->think_end,
					     w->open,
					     w->close,
					     w->json ? w->json->end : NULL,
					     w->named ? w->named->separator : NULL,
					     w->named ? w->named->end : NULL,
					     w->python ? w->python->end : NULL,
					     w->python ? w->python->quote : NULL};
		for (size_t k = 0; k < sizeof words / sizeof *words; k++)
			if (words[k] && words[k][0] != '`' && !strstr(words[k], "DSML") &&
			    token_needed_right(words[k], strlen(words[k]), true) != MAY_MARKS)
				fail_msg("%s: %s", f->name, words[k]);
	}
	assert_int_equal(token_needed_right(CHANNEL_START, strlen(CHANNEL_START), true), MAY_ALL);
}

/* ---- from ids ---- */

static bool is_one_token(const char *mark)
{
	size_t n = strlen(mark);
	if (strcmp(mark, DSML_TOKEN) == 0)
		return true;
	return n > 2 && (mark[0] == '<' || mark[0] == '[') &&
	       (mark[n - 1] == '>' || mark[n - 1] == ']') && !strpbrk(mark, " =\n") &&
	       !strchr(mark + 1, '<') && !strstr(mark, DSML_TOKEN);
}

/* The fixture's tokenizer, with all marks of a form as control tokens. */
static struct tokenizer *tokenizer_with(const struct split_form *f)
{
	const char *marks[FORM_MARKS_MAX + 1];
	size_t count = form_marks(f, marks);
	struct json_object *document = fixture_document(), *added = at(document, "added_tokens");
	struct tokenizer *t;
	struct err e = {0};
	marks[count++] = DSML_TOKEN;
	for (size_t i = 0; i < count; i++) {
		bool skip = !is_one_token(marks[i]);
		for (size_t k = 0; k < i; k++)
			skip |= strcmp(marks[k], marks[i]) == 0;
		if (skip)
			continue;
		struct json_object *one =
			json("{\"special\": true, \"normalized\": false, \"single_word\": "
			     "false, \"lstrip\": false, \"rstrip\": false}");
		json_object_object_add(one, "content", json_object_new_string(marks[i]));
		json_object_object_add(
			one, "id",
			json_object_new_int64(381 + (int64_t)json_object_array_length(added)));
		json_object_array_add(added, one);
	}
	must(open_document(&t, document, &e), &e);
	return t;
}

/* The answer as its ids give it to a splitter; sets how many were control tokens. */
static struct split *taken_apart_from_ids(const struct split_form *f, const struct tokenizer *t,
					  const char *text, const struct json *tools,
					  enum split_thinking thinking, size_t *controls)
{
	struct split *s = split_new(tools, thinking);
	struct token_list ids = {0};
	struct err e = {0};
	split_set_form(s, f);
	must(tokenizer_encode(t, text, strlen(text), NULL, &ids, &e), &e);
	for (size_t i = 0; i < ids.count; i++) {
		size_t n, spelled_n;
		const char *bytes = tokenizer_bytes(t, ids.ids[i], false, &n);
		const char *spelled = tokenizer_bytes(t, ids.ids[i], true, &spelled_n);
		*controls += n == 0;
		if (n == 0 && split_form_marks(f, spelled, spelled_n)) {
			bytes = spelled;
			n = spelled_n;
		}
		must(split_feed(s, bytes, n, &e), &e);
	}
	must(split_finish(s, &e), &e);
	token_list_free(&ids);
	return s;
}

static void marks_that_are_control_tokens_reach_the_splitter(void **state)
{
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; FORM_CASES[i].form; i++) {
		const struct split_form *f = split_form_named(FORM_CASES[i].form);
		struct tokenizer *t = tokenizer_with(f);
		const char *text = FORM_CASES[i].text;
		size_t controls = 0;
		struct split *whole =
			taken_apart_as(f, text, strlen(text), NULL, 0, tools, THINKING_AUTO);
		struct split *s = taken_apart_from_ids(f, t, text, tools, THINKING_AUTO, &controls);
		assert_same_split(whole, s);
		bool has_marks = strpbrk(text, "<") || strstr(text, "[TOOL_CALLS]");
		assert_int_equal(has_marks, controls > 0);
		split_free(whole);
		split_free(s);
		tokenizer_close(t);
	}
	json_free(tools);
}

/* ---- answers that were cut off ---- */

static struct split *cut_off(const struct split_form *form, const char *text, size_t n,
			     const struct json *tools, enum split_thinking thinking)
{
	struct split *s = split_new(tools, thinking);
	struct err e = {0};
	assert_non_null(s);
	split_set_form(s, form);
	must(split_feed(s, text, n, &e), &e);
	must(split_cut(s, &e), &e);
	return s;
}

/* Except white space at the end, which the whole text may have dropped. */
static bool is_beginning(const char *part, size_t part_n, const char *whole, size_t n)
{
	while (part_n > 0 && scan_is_space(part[part_n - 1]))
		part_n--;
	return part_n <= n && memcmp(part, whole, part_n) == 0;
}

/* Half a mark that is a word stays text. */
static bool within_a_word(const char *text, size_t n)
{
	static const char WORD[] = "Action:";
	const char *at = text;
	for (; (at = strstr(at, WORD)); at++)
		if (n > (size_t)(at - text) && n < (size_t)(at - text) + sizeof WORD - 1)
			return true;
	return false;
}

/* An answer cut anywhere gives only parts of the whole answer's result: no half mark, no other
 * call. */
static void check_cuts(const struct form_case *c, const struct json *tools)
{
	const struct split_form *form = split_form_named(c->form);
	enum split_thinking thinking =
		strcmp(c->form, "minimax") == 0 && *c->thoughts ? THINKING_OPEN : THINKING_AUTO;
	size_t whole_n = strlen(c->text);
	struct split *whole = taken_apart_as(form, c->text, whole_n, NULL, 0, tools, thinking);
	struct split_result w = split_result(whole);
	for (size_t n = 0; n < whole_n; n++) {
		if (utf8_goes_on(c->text[n]) || within_a_word(c->text, n))
			continue;
		struct split *s = cut_off(form, c->text, n, tools, thinking);
		struct split_result r = split_result(s);
		bool good = r.calls->count <= w.calls->count &&
			    is_beginning(r.content, r.content_n, w.content, w.content_n) &&
			    is_beginning(r.thoughts, r.thoughts_n, w.thoughts, w.thoughts_n);
		for (size_t i = 0; good && i < r.calls->count; i++)
			good = strcmp(r.calls->items[i].name, w.calls->items[i].name) == 0 &&
			       strcmp(r.calls->items[i].arguments, w.calls->items[i].arguments) ==
				       0;
		if (!good) {
			print_message("%s, cut: %.*s\n", c->form, (int)n, c->text);
			print_split(&r);
		}
		assert_true(good);
		split_free(s);
	}
	split_free(whole);
}

static void an_answer_cut_anywhere_has_no_half_mark_and_no_other_call(void **state)
{
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; FORM_CASES[i].form; i++)
		check_cuts(&FORM_CASES[i], tools);
	json_free(tools);
}

static void what_is_left_out_of_an_answer_that_was_cut_off(void **state)
{
	static const struct form_case CASES[] = {
		{"hermes", "<tool_call>\n{\"name\": \"f\", \"", "", "", "[]"},
		{"hermes", "I add.\n<tool_call>\n{\"name\": \"f\"", "", "I add.", "[]"},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "", "",
		 "[[\"f\", {}, \"\"]]"},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool_", "", "",
		 "[[\"f\", {}, \"\"]]"},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_",
		 "", "", "[[\"f\", {}, \"\"]]"},
		{"hermes", "<thi", "", "", "[]"},
		{"hermes", "<think>\nIt is</thi", "It is", "", "[]"},
		{"hermes", "<think>\nI call\n<tool_call>{\"na", "I call", "", "[]"},
		{"hermes", "<think>Is <tool_call> a mark? It", "Is <tool_call> a mark? It", "",
		 "[]"},
		{"hermes", "A <b>bold", "", "A <b>bold", "[]"},
		{"glm", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n", "", "",
		 "[]"},
		{"llama", "{\"name\": \"f\", \"para", "", "", "[]"},
		{"llama", "{\"na", "", "", "[]"},
		{"llama", "{\"answer\": [1, 2", "", "{\"answer\": [1, 2", "[]"},
		{"command-r", "Act", "", "Act", "[]"},
		{"command-r", "Action: ```json\n[{\"tool", "", "", "[]"},
		{"gpt-oss", "<|channel|>commentary to=functions.f<|message|>{\"a\"", "", "", "[]"},
		{"gpt-oss", " to=functions.f<|chan", "", "", "[]"},
		{"gpt-oss", "Hello", "", "Hello", "[]"},
		{"gpt-oss", "<|channel|>final<|message|>Hello<|retu", "", "Hello", "[]"},
	};
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		const struct form_case *c = &CASES[i];
		struct split *s = cut_off(split_form_named(c->form), c->text, strlen(c->text),
					  tools, THINKING_AUTO);
		assert_as_expected(c, s);
		split_free(s);
	}
	json_free(tools);
}

static enum split_place place_behind(const char *form, const char *text, const struct json *tools)
{
	struct err e = {0};
	struct split *s = split_new(tools, THINKING_AUTO);
	assert_non_null(s);
	split_set_form(s, split_form_named(form));
	assert_int_equal(split_feed(s, text, strlen(text), &e), 0);
	enum split_place place = split_place(s);
	split_free(s);
	return place;
}

static void a_text_ends_in_thoughts_or_in_a_call_or_elsewhere(void **state)
{
	static const struct {
		const char *form, *text;
		enum split_place place;
	} CASES[] = {
		{"hermes", "", SPLIT_ELSEWHERE},
		{"hermes", "\n\n\n", SPLIT_ELSEWHERE},
		{"hermes", "<think>Seven", SPLIT_IN_THOUGHTS},
		{"hermes", "<think>Seven</think>It is", SPLIT_ELSEWHERE},
		{"hermes", "<think>Seven\n<tool_call>{\"name\"", SPLIT_IN_CALL},
		{"hermes", "I add. <tool_", SPLIT_ELSEWHERE},
		{"hermes", "I add. <tool_call>", SPLIT_IN_CALL},
		{"hermes", "<tool_call>It is 000", SPLIT_ELSEWHERE},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"000",
		 SPLIT_IN_CALL},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
		 SPLIT_ELSEWHERE},
		{"gpt-oss", "<|channel|>analysis<|message|>Seven", SPLIT_IN_THOUGHTS},
		{"gpt-oss", "<|channel|>commentary to=functions.f<|message|>{\"a\": \"000",
		 SPLIT_IN_CALL},
		{"gpt-oss", "<|channel|>final<|message|>Seven", SPLIT_ELSEWHERE},
		{"llama", "{\"name\": \"f\", \"parameters\": {\"a\": \"000", SPLIT_IN_CALL},
		{"llama", "Seven {\"name\": \"f\"", SPLIT_ELSEWHERE},
	};
	(void)state;
	struct json *tools = parsed(FORM_TOOLS);
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		if (place_behind(CASES[i].form, CASES[i].text, tools) != CASES[i].place)
			fail_msg("%s: %s", CASES[i].form, CASES[i].text);
		assert_int_not_equal(place_behind(CASES[i].form, CASES[i].text, NULL),
				     SPLIT_IN_CALL);
	}
	json_free(tools);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_family_s_thoughts_and_calls_are_taken_apart),
		cmocka_unit_test(every_form_has_a_case),
		cmocka_unit_test(a_broken_call_is_content_character_for_character),
		cmocka_unit_test(without_tools_there_are_no_calls),
		cmocka_unit_test(calls_come_out_one_by_one),
		cmocka_unit_test(thoughts_of_channels_end_with_the_final_one),
		cmocka_unit_test(a_prompt_may_open_thinking_with_any_form_s_mark),
		cmocka_unit_test(a_template_s_words_say_its_form),
		cmocka_unit_test(marks_that_are_control_tokens_are_given_to_the_splitter),
		cmocka_unit_test(marks_of_calls_may_be_spelled_in_answers),
		cmocka_unit_test(marks_that_are_control_tokens_reach_the_splitter),
		cmocka_unit_test(an_answer_cut_anywhere_has_no_half_mark_and_no_other_call),
		cmocka_unit_test(what_is_left_out_of_an_answer_that_was_cut_off),
		cmocka_unit_test(a_text_ends_in_thoughts_or_in_a_call_or_elsewhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
