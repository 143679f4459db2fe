/* Grammars: the texts that they accept and reject, byte by byte; every path through a grammar ends
 * in a text that is valid by its schema. */
#include "tests/unit/schema_help.h"
#include "tests/unit/tokenizer_help.h"

#include "engine/grammar/grammar.h"
#include "engine/json/json.h"
#include "random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct grammar *made(enum grammar_form form, const char *source)
{
	struct err e = {0};
	struct grammar *g;
	struct grammar_request r = {.form = form,
				    .source = source,
				    .source_n = source ? strlen(source) : 0,
				    .thinking = THINKING_OFF};
	if (grammar_new(&g, &r, &e))
		fail_msg("%s: %s", source, e.text);
	return g;
}

/* Reading byte by byte must give the same result as reading at once. */
static bool takes(struct grammar *g, const char *text)
{
	struct spots p, whole;
	grammar_begin(g, &p);
	whole = p;
	bool alive = true;
	for (const char *c = text; *c && alive; c++)
		alive = grammar_read(g, &p, c, 1);
	assert_int_equal(grammar_read(g, &whole, text, strlen(text)) || !*text, alive);
	must(grammar_failed(g, NULL), NULL);
	return alive && grammar_may_end(g, &p);
}

static void check_text(struct grammar *g, const char *source, const char *text, bool want)
{
	if (takes(g, text) != want)
		fail_msg("%s: \"%s\" is %staken", source, text, want ? "not " : "");
}

struct texts {
	const char *source;
	const char *good[8], *bad[8];
};

static void check_texts(enum grammar_form form, const struct texts *t)
{
	struct grammar *g = made(form, t->source);
	for (int i = 0; i < 8 && t->good[i]; i++)
		check_text(g, t->source, t->good[i], true);
	for (int i = 0; i < 8 && t->bad[i]; i++)
		check_text(g, t->source, t->bad[i], false);
	grammar_free(g);
}

static void a_regular_expression_takes_what_it_says(void **state)
{
	(void)state;
	static const struct texts table[] = {
		{"abc", {"abc"}, {"", "ab", "abcd", "abd"}},
		{"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
		{"a*b+c?", {"b", "aab", "bbc"}, {"a", "abcc", ""}},
		{"(ab){2,3}", {"abab", "ababab"}, {"ab", "aba", "abababab"}},
		{"x{3}y{2,}", {"xxxyy", "xxxyyyy"}, {"xxyy", "xxxy", "xxxxyy"}},
		{"a{0}b", {"b"}, {"ab"}},
		{"[a-c][^a-c]", {"ad", "c-", "b\303\251"}, {"aa", "d", "a\303", "a\xff"}},
		{"[\\d\\-x]+", {"3-x", "x"}, {"a", ""}},
		{"\\d{4}-\\d\\d", {"2024-05"}, {"24-05", "2024-5"}},
		{"\\w+\\s\\S", {"ab_9 x", "a\t.", "a\302\240b"}, {"a b c", "-"}},
		{"\\D\\W", {"a-", "\342\202\254 "}, {"1-", "aa"}},
		{".",
		 {"a", "\303\251", "\360\237\230\200"},
		 {"\n", "", "\xed\xa0\x80", "\xc0\xaf"}},
		{"\\u00e9\\x41\\u{1F600}\\t", {"\303\251A\360\237\230\200\t"}, {"\303\251A"}},
		{"^(?:yes|no)$", {"yes", "no"}, {"yesno", ""}},
		{"(?<year>\\d+)", {"7"}, {"year"}},
		{"a+?b*?", {"ab", "a"}, {"b"}},
		{"((((a))))*", {"", "aaa"}, {"b"}},
		{"\\[\\]\\\\\\/\\.", {"[]\\/."}, {"[]\\/a"}},
		{"\346\227\245+", {"\346\227\245\346\227\245"}, {"\346\227"}},
		{"[\346\227\245-\346\234\254]",
		 {"\346\227\245", "\346\234\254"},
		 {"\346\234\255", "a"}},
		{"()", {""}, {"a"}},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		check_texts(FORM_REGEX, &table[i]);
}

static void json_is_an_object_or_a_list(void **state)
{
	(void)state;
	static const struct texts json = {
		NULL,
		{"{}", "[]", "{\"a\": [1, 2.5e-3, {\"b\": null}], \"c\": \"\\u00e9\\n\303\251\"}",
		 "[\n  true,\n  false\n]", "{\"a\":-0,\"b\":\"\\ud83d\\ude00\"}", "[[[[[[]]]]]]"},
		{"1", "\"a\"", "{\"a\"}", "[01]", "{\"a\":1,}", "[\"\\ud83d\"]", "[\"\n\"]",
		 "[\"\xff\"]"},
	};
	static const struct texts more = {
		NULL,
		{"[1.0]", "[\"\\\"\"]"},
		{"[1.]", "[.5]", "[+1]", "[1 , 2]", "[]x", "{a:1}", "[nul]", "[\"\t\"]"}};
	check_texts(FORM_JSON, &json);
	check_texts(FORM_JSON, &more);
}

static const struct texts schemas[] = {
	{"{}", {"1", "\"a\"", "null", "{\"a\": 1}", "[[]]"}, {"", "x", "1 "}},
	{"true", {"1", "[]"}, {"a"}},
	{"{\"type\":\"string\"}", {"\"\"", "\"a\\u0041\""}, {"a", "1", "\"", "\"\"\""}},
	{"{\"type\":\"integer\"}",
	 {"0", "-12", "999999999999999"},
	 {"1.0", "01", "-", "1e3", "1000000000000000"}},
	{"{\"type\":\"number\"}", {"0.5", "-1e10", "3"}, {"1.", "NaN", ".5", "00"}},
	{"{\"type\":[\"boolean\",\"null\"]}", {"true", "false", "null"}, {"1", "\"true\"", "tru"}},
	{"{\"const\":{\"a\":[1,\"b\"]}}", {"{\"a\": [1, \"b\"]}"}, {"{}", "{\"a\": [1, \"c\"]}"}},
	{"{\"enum\":[\"red\",\"reddish\",3,null]}",
	 {"\"red\"", "\"reddish\"", "3", "null"},
	 {"red", "\"redd\"", "4"}},
	{"{\"type\":\"string\",\"enum\":[\"a\",3]}", {"\"a\""}, {"3"}},
	{"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{},\"c\":{\"const\":1}},\"required\":"
	 "[\"b\"]}",
	 {"{\"b\":1}", "{\"a\":1,\"b\":[]}", "{\"b\": {}, \"c\": 1}",
	  "{\n  \"a\": 1,\n  \"b\": 2\n}"},
	 {"{}", "{\"a\":1}", "{\"b\":1,\"a\":1}", "{\"b\":1,\"d\":1}", "{\"b\":1,}",
	  "{\"a\":\"\",\"b\":1}", "{\"b\":1,\"c\":2}"}},
	{"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"integer\"}}",
	 {"{}", "{\"b\":1}", "{\"a\":\"\",\"aa\":1,\"\":2}", "{\"b\":1,\"c\":2}",
	  "{\"\303\251\":1}"},
	 {"{\"b\":\"\"}", "{\"b\":1,\"a\":1}", "{\"\\u0061\":1}"}},
	{"{\"type\":\"object\",\"additionalProperties\":false}", {"{}", "{ }"}, {"{\"a\":1}"}},
	{"{\"type\":\"object\",\"required\":[\"x\"]}", {"{\"x\":1}"}, {"{}", "{\"y\":1}"}},
	{"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}",
	 {"{\"k\":\"v\"}"},
	 {"{\"k\":1}"}},
	{"{\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
	 {"[1]", "[1, 2,3]"},
	 {"[]", "[1,2,3,4]", "[\"\"]"}},
	{"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,\"minItems\":1}",
	 {"[1]", "[1,2]"},
	 {"[]", "[2]", "[1,2,3]"}},
	{"{\"type\":\"array\",\"items\":[{\"const\":1}],\"additionalItems\":{\"const\":2}}",
	 {"[]", "[1]", "[1,2,2]"},
	 {"[2]", "[1,1]"}},
	{"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", {"null"}, {"1"}},
	{"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
	{"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"a\"},\"x\":{"
	 "\"type\":\"integer\"}},\"required\":[\"kind\",\"x\"]},"
	 "{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"b\"},\"y\":{\"type\":"
	 "\"string\"}},\"required\":[\"kind\",\"y\"]}]}",
	 {"{\"kind\":\"a\",\"x\":1}", "{\"kind\": \"b\", \"y\": \"\"}"},
	 {"{\"kind\":\"a\",\"y\":\"\"}", "{\"kind\":\"b\",\"x\":1}", "{\"kind\":\"c\"}"}},
	{"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],"
	 "\"oneOf\":[{\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]},{\"properties\":{"
	 "\"c\":{\"const\":2}}}]}",
	 {"{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":2}", "{\"a\":1}"},
	 {"{\"b\":1}", "{\"a\":1,\"b\":1,\"c\":2}"}},
	{"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{"
	 "\"properties\":{\"b\":{\"type\":\"null\"},\"a\":{\"minimum\":3}}}]}",
	 {"{\"a\":3}", "{\"a\":10,\"b\":null}"},
	 {"{\"a\":2}", "{\"b\":null}"}},
	{"{\"$ref\":\"#/$defs/"
	 "n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
	 "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
	 "n\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}}}",
	 {"{\"v\":1,\"next\":null}",
	  "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"},
	 {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
	{"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[[]]]]"}, {"[1]", "[[]"}},
	{"{\"$ref\":\"#/definitions/a~1b%25\",\"definitions\":{\"a/b%\":{\"const\":5}}}",
	 {"5"},
	 {"6"}},
	{"{\"$ref\":\"#/definitions/%4/x\",\"definitions\":{\"%4\":{\"x\":{\"const\":5}}}}",
	 {"5"},
	 {"6"}},
	{"{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}\\\\d+$\"}",
	 {"\"AB1\""},
	 {"\"ab1\"", "\"AB\"", "\"AB1x\""}},
	{"{\"pattern\":\"b\"}", {"\"abc\"", "\"b\""}, {"\"ac\"", "b"}},
	{"{\"pattern\":\"^a|c$\"}", {"\"ax\"", "\"xc\""}, {"\"xa\"", "\"cx\""}},
	{"{\"pattern\":\"^[\\\"\\\\\\\\\\n]$\"}",
	 {"\"\\\"\"", "\"\\\\\"", "\"\\n\""},
	 {"\"\"\"", "\"\\\"", "\"n\""}},
	{"{\"minLength\":2,\"maxLength\":3}",
	 {"\"ab\"", "\"\303\251\303\251\303\251\"", "\"\\n\\\"\""},
	 {"\"a\"", "\"abcd\"", "\"\303\251\""}},
	{"{\"format\":\"date\"}",
	 {"\"2024-02-29\""},
	 {"\"2024-13-01\"", "\"24-01-01\"", "\"2024-01-32\""}},
	{"{\"format\":\"date-time\"}",
	 {"\"2024-02-29T23:59:59Z\"", "\"2024-02-29T00:00:00.123+05:30\""},
	 {"\"2024-02-29\"", "\"2024-02-29T24:00:00Z\""}},
	{"{\"format\":\"uuid\"}",
	 {"\"123e4567-e89b-12d3-a456-426614174000\""},
	 {"\"123e4567e89b12d3a456426614174000\""}},
	{"{\"format\":\"ipv4\"}", {"\"10.0.255.1\""}, {"\"10.0.256.1\"", "\"10.0.1\""}},
	{"{\"format\":\"email\"}", {"\"a.b@example.org\""}, {"\"a@b\"", "\"@example.org\""}},
	{"{\"type\":\"integer\",\"minimum\":0}", {"0", "17"}, {"-1", "-0"}},
	{"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}",
	 {"-12", "-1", "0", "9", "99", "105"},
	 {"-13", "106", "1000", "-100"}},
	{"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":12}",
	 {"10", "11"},
	 {"9", "12", "1"}},
	{"{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":3.5}", {"2", "3"}, {"1", "4"}},
	{"{\"type\":\"integer\",\"minimum\":18,\"maximum\":18}", {"18"}, {"1", "180", "8"}},
	{"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
	 {"0", "1", "0.25", "1.0"},
	 {"1.1", "-0.5", "2"}},
	{"{\"type\":\"number\",\"exclusiveMinimum\":0}", {"0.01", "7", "12.5"}, {"0", "0.0", "-1"}},
	{"{\"type\":\"number\",\"minimum\":-2,\"exclusiveMaximum\":-1}",
	 {"-2", "-1.5", "-2.0"},
	 {"-1", "-2.1", "1", "-1.0"}},
	{"{\"maximum\":-5}", {"-5", "-77"}, {"-4", "5", "\"\""}},
	{"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"x-order\":1,\"type\":\"null\"}",
	 {"null"},
	 {"1"}},
};

static void a_schema_takes_what_is_valid(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
		struct json_object *schema = json(schemas[i].source);
		check_texts(FORM_SCHEMA, &schemas[i]);
		for (int k = 0; k < 8 && schemas[i].good[k]; k++)
			assert_true(schema_admits(schema, schemas[i].good[k]));
		json_object_put(schema);
	}
}

/* ---- random paths through a grammar ---- */

enum { WALK_MAX = 4096 };

/* A byte that may follow; once the text is long, one that leads to its end. */
static int some_byte(struct grammar *g, const struct spots *p, struct random *r, size_t length)
{
	static const char out[] = "\"]}0123456789,:a-.";
	for (size_t i = 0; length > 60 && i < sizeof out - 1; i++) {
		struct spots to = *p;
		if (grammar_read(g, &to, &out[i], 1))
			return (uint8_t)out[i];
	}
	char bytes[256];
	int count = 0;
	for (int byte = 0; byte < 256; byte++) {
		struct spots to = *p;
		bytes[count] = (char)byte;
		count += grammar_read(g, &to, &bytes[count], 1);
	}
	return count ? (uint8_t)bytes[random_u32(r) % (uint32_t)count] : -1;
}

/* Writes a random text of the grammar. False: it became too long (a list of itself may be long). */
static bool walk(struct grammar *g, const char *source, struct random *r, char text[WALK_MAX])
{
	size_t n = 0;
	struct spots p;
	grammar_begin(g, &p);
	for (;;) {
		bool may_end = grammar_may_end(g, &p);
		int byte = some_byte(g, &p, r, n);
		assert_int_equal(byte >= 0, grammar_may_go_on(g, &p) && byte >= 0);
		if (byte < 0 && !may_end)
			fail_msg("%s: nothing follows \"%.*s\"", source, (int)n, text);
		if (byte < 0 || (may_end && random_u32(r) % 4 == 0))
			break;
		if (n + 1 == WALK_MAX)
			return false;
		text[n++] = (char)byte;
		assert_true(grammar_read(g, &p, &text[n - 1], 1));
	}
	text[n] = '\0';
	return true;
}

static void walk_to_valid(struct grammar *g, const char *source, struct json_object *schema,
			  struct random *r)
{
	char text[WALK_MAX];
	if (walk(g, source, r, text) && !schema_admits(schema, text))
		fail_msg("%s: the way ends in \"%s\"", source, text);
}

static void every_way_ends_in_a_valid_text(void **state)
{
	(void)state;
	struct random r = {12};
	for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
		struct json_object *schema = json(schemas[i].source);
		struct grammar *g = made(FORM_SCHEMA, schemas[i].source);
		for (int k = 0; k < 60; k++)
			walk_to_valid(g, schemas[i].source, schema, &r);
		grammar_free(g);
		json_object_put(schema);
	}
	struct json_object *any = json("{}");
	struct grammar *g = made(FORM_JSON, NULL);
	for (int k = 0; k < 500; k++)
		walk_to_valid(g, "json", any, &r);
	grammar_free(g);
	json_object_put(any);
}

/* ---- calls ---- */

static const char tools_text[] = "[{\"type\":\"function\",\"function\":{\"name\":\"add\","
				 "\"parameters\":{\"type\":\"object\","
				 "\"properties\":{\"a\":{\"type\":\"integer\"},\"note\":{\"type\":"
				 "\"string\"},\"kind\":{\"enum\":"
				 "[\"x\",\"y\"]}},\"required\":[\"a\"]}}},{\"name\":\"now\"}]";

#define CALL(name, arguments) "{\"name\": \"" name "\", \"arguments\": " arguments "}"
#define ADD "<tool_call>\n" CALL("add", "{\"a\": 3, \"note\": \"</tool_call>\"}") "\n</tool_call>"
#define NOW "<tool_call>\n" CALL("now", "{}") "\n</tool_call>"
#define ADD_TAGS                                                                                 \
	"<tool_call>\n<function=add>\n<parameter=a>\n3\n</parameter>\n<parameter=note>\na < b\n" \
	"</parameter>\n</function>\n</tool_call>"

static const struct called {
	enum grammar_choice choice;
	bool tags;
	enum split_thinking thinking;
	const char *text;
	int calls; /* -1: rejected */
} called[] = {
	{CHOICE_REQUIRED, false, THINKING_OFF, ADD, 1},
	{CHOICE_REQUIRED, false, THINKING_OFF, ADD "\n" NOW, 2},
	{CHOICE_REQUIRED, false, THINKING_OFF, "I shall. " ADD, -1},
	{CHOICE_REQUIRED, false, THINKING_OFF, ADD_TAGS, -1},
	{CHOICE_REQUIRED, false, THINKING_OFF,
	 "<tool_call>\n" CALL("add", "{\"note\": \"\"}") "\n</tool_call>", -1},
	{CHOICE_REQUIRED, false, THINKING_OFF, "<tool_call>\n" CALL("sub", "{}") "\n</tool_call>",
	 -1},
	{CHOICE_NAMED, false, THINKING_OFF, ADD, 1},
	{CHOICE_NAMED, false, THINKING_OFF, NOW, -1},
	{CHOICE_NAMED, false, THINKING_OFF, ADD "\n" ADD, -1},
	{CHOICE_REQUIRED, true, THINKING_OFF, ADD_TAGS, 1},
	{CHOICE_REQUIRED, true, THINKING_OFF, ADD, -1},
	{CHOICE_REQUIRED, true, THINKING_OFF,
	 "<tool_call>\n<function=add>\n<parameter=a>\n3\n</parameter>\n<parameter=kind>\ny\n"
	 "</parameter>\n</function>\n</tool_call>",
	 1},
	{CHOICE_REQUIRED, true, THINKING_OFF,
	 "<tool_call>\n<function=add>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
	 -1},
	{CHOICE_REQUIRED, true, THINKING_OFF,
	 "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=note>\n"
	 "</function>\n</parameter>\n</function>\n</tool_call>",
	 -1},
	{CHOICE_REQUIRED, false, THINKING_OPEN, "Hm, <b> </thin\n</think>\n\n" NOW, 1},
	{CHOICE_REQUIRED, false, THINKING_OPEN, NOW, -1},
	{CHOICE_NONE, false, THINKING_OFF, "a < b, <tool_cal> <<tool", 0},
	{CHOICE_NONE, false, THINKING_OFF, "so " NOW, -1},
};

static int calls_in(const struct called *c, const struct json *tools)
{
	struct err e = {0};
	struct split *s = split_new(tools, c->thinking);
	must(split_feed(s, c->text, strlen(c->text), &e), &e);
	must(split_finish(s, &e), &e);
	int count = (int)split_result(s).calls->count;
	split_free(s);
	return count;
}

/* The grammar accepts exactly the texts that the splitter reads as calls. */
static void calls_are_what_an_answer_is_split_into(void **state)
{
	(void)state;
	struct err e = {0};
	struct json *tools;
	must(json_parse_text(&tools, tools_text, strlen(tools_text), "tools", &e), &e);
	for (size_t i = 0; i < sizeof called / sizeof *called; i++) {
		const struct called *c = &called[i];
		struct grammar *g;
		struct grammar_request r = {.source = "",
					    .choice = c->choice,
					    .tool = "add",
					    .tools = tools,
					    .tags = c->tags,
					    .thinking = c->thinking};
		must(grammar_new(&g, &r, &e), &e);
		check_text(g, "calls", c->text, c->calls >= 0);
		if (c->calls >= 0)
			assert_int_equal(calls_in(c, tools), c->calls);
		grammar_free(g);
	}
	json_free(tools);
}

/* Whether an answer is nothing but calls of the tools, with arguments that are valid. */
static bool is_calls(const struct split_form *form, const struct json *tools,
		     struct json_object *schema, const char *text)
{
	struct err e = {0};
	struct split *s = split_new(tools, THINKING_OFF);
	split_set_form(s, form);
	must(split_feed(s, text, strlen(text), &e), &e);
	must(split_finish(s, &e), &e);
	struct split_result result = split_result(s);
	bool good = result.calls->count > 0 && result.content_n == 0;
	for (size_t i = 0; good && i < result.calls->count; i++) {
		const struct call *c = &result.calls->items[i];
		good = !strcmp(c->name, "now")
			       ? !strcmp(c->arguments, "{}")
			       : !strcmp(c->name, "add") && schema_admits(schema, c->arguments);
	}
	split_free(s);
	return good;
}

/* The splitter makes calls of every text that a form's grammar takes. */
static void every_way_of_a_form_is_calls(void **state)
{
	(void)state;
	struct err e = {0};
	struct json *tools;
	struct random r = {5};
	size_t forms = 0;
	must(json_parse_text(&tools, tools_text, strlen(tools_text), "tools", &e), &e);
	struct json_object *schema = json("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
					  "\"integer\"},\"note\":{\"type\":\"string\"},\"kind\":"
					  "{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\"]}");
	for (size_t i = 0; split_form_at(i / 2); i++) {
		const struct split_form *form = split_form_at(i / 2);
		struct grammar_request q = {.source = "",
					    .choice = CHOICE_REQUIRED,
					    .tools = tools,
					    .writes = form,
					    .tags = i % 2,
					    .thinking = THINKING_OFF};
		struct grammar *g;
		char text[WALK_MAX];
		if (grammar_new(&g, &q, &e) < 0) {
			assert_int_equal(e.code, ENOTSUP);
			continue;
		}
		forms++;
		for (int k = 0; k < 40; k++)
			if (walk(g, form->name, &r, text) && !is_calls(form, tools, schema, text))
				fail_msg("%s: \"%s\" is not split into calls", form->name, text);
		grammar_free(g);
	}
	assert_true(forms > 16);
	json_object_put(schema);
	json_free(tools);
}

/* ---- refusals ---- */

static void check_refused(enum grammar_form form, const char *source, int code, const char *words)
{
	struct err e = {0};
	int got = grammar_check(form, source, strlen(source), &e);
	if (got != -code || !strstr(e.text, words))
		fail_msg("%.80s: %d, %s", source, got, e.text);
}

static void errors_are_reported(void **state)
{
	(void)state;
	static const struct {
		enum grammar_form form;
		int code;
		const char *source, *words;
	} table[] = {
		{FORM_REGEX, EINVAL, "a(b", "byte 1: the group is not closed"},
		{FORM_REGEX, EINVAL, "a)", "no group is open"},
		{FORM_REGEX, EINVAL, "[a", "class is not closed"},
		{FORM_REGEX, EINVAL, "*a", "nothing to repeat"},
		{FORM_REGEX, EINVAL, "a{3,2}", "{m,n}"},
		{FORM_REGEX, EINVAL, "[z-a]", "end is before"},
		{FORM_REGEX, EINVAL, "\\", "nothing follows"},
		{FORM_REGEX, EINVAL, "\\q", "unknown escape"},
		{FORM_REGEX, EINVAL, "\\u12", "not the code of a character"},
		{FORM_REGEX, EINVAL, "\xff", "not valid UTF-8"},
		{FORM_REGEX, EINVAL, "[^\\s\\S]", "no text can match"},
		{FORM_REGEX, ENOTSUP, "(a)\\1", "not supported"},
		{FORM_REGEX, ENOTSUP, "(?=a)b", "groups (...), (?:...) and"},
		{FORM_REGEX, ENOTSUP, "\\bword", "\\b"},
		{FORM_REGEX, ENOTSUP, "\\p{L}", "\\p"},
		{FORM_REGEX, ENOTSUP, "a(^b)", "^ and $"},
		{FORM_REGEX, E2BIG, "a{10001}", "10000"},
		{FORM_SCHEMA, EINVAL, "{", "schema"},
		{FORM_SCHEMA, EINVAL, "3", "must be an object"},
		{FORM_SCHEMA, EINVAL, "false", "no text can match"},
		{FORM_SCHEMA, EINVAL, "{\"type\":\"int\"}", "\"int\" is not a type"},
		{FORM_SCHEMA, EINVAL, "{\"$ref\":\"#/$defs/x\"}", "#/$defs/x"},
		{FORM_SCHEMA, EINVAL, "{\"$ref\":\"other.json\"}", "other.json"},
		{FORM_SCHEMA, EINVAL, "{\"properties\":{\"a\":3}}", "must be an object"},
		{FORM_SCHEMA, EINVAL, "{\"enum\":3}", "\"enum\" must be a list"},
		{FORM_SCHEMA, EINVAL, "{\"minLength\":-1}", "minLength"},
		{FORM_SCHEMA, EINVAL, "{\"pattern\":\"(\"}", "pattern: byte 0"},
		{FORM_SCHEMA, EINVAL, "{\"minLength\":3,\"maxLength\":2}", "no text can match"},
		{FORM_SCHEMA, EINVAL,
		 "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]"
		 "}",
		 "no text can match"},
		{FORM_SCHEMA, ENOTSUP, "{\"not\":{}}", "\"not\" is not supported"},
		{FORM_SCHEMA, ENOTSUP, "{\"uniqueItems\":true}", "\"uniqueItems\""},
		{FORM_SCHEMA, ENOTSUP, "{\"format\":\"iban\"}", "iban"},
		{FORM_SCHEMA, ENOTSUP, "{\"pattern\":\"a\",\"maxLength\":3}", "only one"},
		{FORM_SCHEMA, ENOTSUP, "{\"enum\":[1],\"minimum\":3}",
		 "\"minimum\" together with enum"},
		{FORM_SCHEMA, ENOTSUP, "{\"type\":\"number\",\"minimum\":0.5}", "whole"},
		{FORM_SCHEMA, E2BIG, "{\"maxLength\":20000}", "10000"},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		check_refused(table[i].form, table[i].source, table[i].code, table[i].words);
}

/* `what` n times between two ends; freed by the caller. */
static char *many(const char *begin, const char *what, size_t n, const char *end)
{
	size_t size = strlen(begin) + n * strlen(what) + strlen(end) + 1;
	char *text = malloc(size), *at = text;
	at = stpcpy(at, begin);
	while (n--)
		at = stpcpy(at, what);
	strcpy(at, end);
	return text;
}

/* Compiles or is refused, and reads or fails, in bounded memory. */
static void check_hostile(enum grammar_form form, char *source, const char *text)
{
	struct err e = {0};
	struct grammar *g;
	struct grammar_request r = {.form = form,
				    .source = source,
				    .source_n = strlen(source),
				    .thinking = THINKING_OFF};
	if (!grammar_new(&g, &r, &e)) {
		struct spots p;
		grammar_begin(g, &p);
		for (size_t i = 0; i < 4000 && grammar_read(g, &p, &text[i % strlen(text)], 1); i++)
			;
		assert_true(grammar_bytes(g) < (size_t)150 << 20);
		grammar_free(g);
	} else {
		assert_true(strlen(e.text) > 0);
	}
	free(source);
}

static void hostile_sources_end_in_words(void **state)
{
	(void)state;
	check_hostile(FORM_REGEX, many("", "(", 100000, ""), "a");
	check_hostile(FORM_REGEX, many("", "a|", 100000, "a"), "a");
	check_hostile(FORM_REGEX, many("", "(a?)", 5000, ""), "a");
	check_hostile(FORM_REGEX, strdup("((((a{100}){100}){100}){100}){100}"), "a");
	check_hostile(FORM_REGEX, strdup("((((a*)*)*)*)*"), "a");
	check_hostile(FORM_REGEX, strdup("(.*a){9}.{200}b.*"), "a");
	check_hostile(FORM_REGEX, strdup("(a|b)*a(a|b){18}c"), "abbabaab");
	check_hostile(FORM_REGEX, strdup("(.*.*.*.*.*.*.*.*=.*){20}"), "x=");
	check_hostile(FORM_REGEX, many("[", "a-b", 100000, "]"), "a");
	check_hostile(FORM_SCHEMA, many("{\"enum\":[", "1,", 100000, "1]}"), "1");
	check_hostile(FORM_SCHEMA, many("", "{\"items\":", 31, "{}"), "[");
	check_hostile(FORM_SCHEMA, strdup("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}"), "[");
	check_hostile(FORM_SCHEMA, strdup("{\"maxItems\":9999,\"items\":{\"maxLength\":9999}}"),
		      "[\"");
	check_hostile(FORM_SCHEMA,
		      strdup("{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"}],"
			     "\"$defs\":{\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}},"
			     "\"b\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}}}"),
		      "[");
}

/* A chain of references, as long as a source may be. */
static void long_chains_of_references_are_taken(void **state)
{
	(void)state;
	enum { LINKS = 3000 };
	char *text = malloc(LINKS * 80 + 200), *at = text;
	at += sprintf(at, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
	for (int i = 0; i < LINKS; i++)
		at += sprintf(at, "\"%d\":{\"items\":{\"$ref\":\"#/$defs/%d\"}},", i, i + 1);
	(void)sprintf(at, "\"%d\":{\"const\":1}}}", LINKS);
	struct grammar *g = made(FORM_SCHEMA, text);
	check_text(g, "chain", "[[[]]]", true);
	check_text(g, "chain", "[[1]]", false);
	grammar_free(g);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_regular_expression_takes_what_it_says),
		cmocka_unit_test(json_is_an_object_or_a_list),
		cmocka_unit_test(a_schema_takes_what_is_valid),
		cmocka_unit_test(every_way_ends_in_a_valid_text),
		cmocka_unit_test(calls_are_what_an_answer_is_split_into),
		cmocka_unit_test(every_way_of_a_form_is_calls),
		cmocka_unit_test(errors_are_reported),
		cmocka_unit_test(hostile_sources_end_in_words),
		cmocka_unit_test(long_chains_of_references_are_taken),
	};
	return cmocka_run_group_tests_name("grammar", tests, NULL, NULL);
}
