/* How each family writes thoughts and calls, in cases of our own: however the text is cut,
 * well-formed calls are calls and all else stays as it is. */
#include "random.h"
#include "tests/unit/split_help.h"
#include "tests/unit/tokenizer_help.h"

#include "engine/text/split_channels.h"
#include "engine/text/token_marks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char TOOLS[] =
	"[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
	"{\"properties\": "
	"{\"a\": {\"type\": \"integer\"}, \"s\": {\"type\": \"string\"}, \"o\": {\"type\": "
	"\"object\"}, \"l\": {\"type\": \"array\"}, \"b\": {\"type\": \"boolean\"}}}}}, "
	"{\"type\": \"function\", \"function\": {\"name\": \"g\"}}]";

#define DS(word) "<\uff5c" word "\uff5c>"
#define DS_BEGIN DS("tool\u2581calls\u2581begin")
#define DS_END DS("tool\u2581calls\u2581end")
#define DS_CALL DS("tool\u2581call\u2581begin")
#define DS_SEP DS("tool\u2581sep")
#define DS_CALL_END DS("tool\u2581call\u2581end")
#define KIMI_BEGIN "<|tool_calls_section_begin|>"
#define KIMI_END "<|tool_calls_section_end|>"
#define KIMI_CALL "<|tool_call_begin|>"
#define KIMI_SEP "<|tool_call_argument_begin|>"
#define KIMI_CALL_END "<|tool_call_end|>"
#define ML(word) "<\uff5cDSML\uff5c" word ">"
#define ML_END(word) "</\uff5cDSML\uff5c" word ">"

static const struct form_case {
	const char *form, *text, *thoughts, *content, *calls; /* as JSON: [name, arguments, id] */
} CASES[] = {
	/* channels */
	{"gpt-oss",
	 "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>commentary "
	 "to=functions.f <|constrain|>json<|message|>{\"a\": 1, \"s\": \"<|call|>\"}<|call|>",
	 "Hm <b>.", "", "[[\"f\", {\"a\": 1, \"s\": \"<|call|>\"}]]"},
	{"gpt-oss", " to=functions.g<|channel|>commentary json<|message|>{}", "", "",
	 "[[\"g\", {}]]"},
	{"gpt-oss",
	 "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>commentary"
	 "<|message|>I look.<|end|><|start|>assistant<|channel|>analysis<|message|>Two. "
	 "<|end|><|start|>assistant<|channel|>final<|message|> Done.\n<|return|>",
	 "One.\nTwo.", "I look.\nDone.\n", "[]"},
	{"gpt-oss", "<|channel|>final <|constrain|>json<|message|>{\"a\": 1}", "", "{\"a\": 1}",
	 "[]"},
	{"gpt-oss",
	 "<|channel|>commentary to=functions.f<|message|>{\"a\": 1}<|end|><|start|>assistant"
	 "<|channel|>commentary to=g<|message|>{}<|call|>",
	 "", "", "[[\"f\", {\"a\": 1}], [\"g\", {}]]"},
	/* marks round JSON */
	{"mistral",
	 " [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcDEF123\"}, "
	 "{\"name\": \"g\", \"arguments\": {}, \"id\": \"short\"}] ",
	 "", "", "[[\"f\", {\"a\": 1}, \"abcDEF123\"], [\"g\", {}]]"},
	{"mistral",
	 "[THINK]\n Why? [x]\n[/THINK]Text.[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{\"a\": 1}"
	 "[TOOL_CALLS]g[CALL_ID]abcDEF123[ARGS]{}",
	 "Why? [x]", "Text.", "[[\"f\", {\"a\": 1}, \"abcDEF123\"], [\"g\", {}]]"},
	{"mistral", "[TOOL_CALLS]f[ARGS]{\"s\": \"[TOOL_CALLS]\"}", "", "",
	 "[[\"f\", {\"s\": \"[TOOL_CALLS]\"}]]"},
	{"kimi",
	 "<think>t</think>Go." KIMI_BEGIN KIMI_CALL "functions.f:0" KIMI_SEP
	 "{\"a\": 1}" KIMI_CALL_END KIMI_CALL "functions.a.b:12" KIMI_SEP
	 "{}" KIMI_CALL_END KIMI_END,
	 "t", "Go.",
	 "[[\"f\", {\"a\": 1}, \"functions.f:0\"], [\"a.b\", {}, \"functions.a.b:12\"]]"},
	{"kimi", KIMI_BEGIN " " KIMI_CALL " f:0 " KIMI_SEP " {} ", "", "",
	 "[[\"f\", {}, \"f:0\"]]"},
	{"deepseek",
	 DS_BEGIN DS_CALL "function" DS_SEP "f\n```json\n{\"a\": 1}\n```" DS_CALL_END "\n" DS_CALL
			  "function" DS_SEP "g\n```json\n{}\n```" DS_CALL_END DS_END,
	 "", "", "[[\"f\", {\"a\": 1}], [\"g\", {}]]"},
	{"deepseek", "T" DS_BEGIN DS_CALL "f" DS_SEP "{\"a\": 1}" DS_CALL_END DS_END, "", "T",
	 "[[\"f\", {\"a\": 1}]]"},
	{"granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "", "",
	 "[[\"f\", {\"a\": 1}]]"},
	{"granite", "<|tool_call|>{\"name\": \"g\"}<|/tool_call|> and", "", "and", "[[\"g\", {}]]"},
	{"command",
	 "<|START_THINKING|>plan<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", "
	 "\"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
	 "plan", "", "[[\"f\", {\"a\": 1}]]"},
	{"command",
	 "<|START_THINKING|>plan<|END_THINKING|><|START_RESPONSE|> Yes. <|END_RESPONSE|>", "plan",
	 " Yes. ", "[]"},
	{"command-r",
	 "I act.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        "
	 "\"parameters\": {\"a\": 1}\n    }\n]```\n",
	 "", "I act.", "[[\"f\", {\"a\": 1}]]"},
	{"jamba", " <tool_calls>[\n {\"name\": \"f\", \"arguments\": {\"a\": 1}}\n]</tool_calls>",
	 "", "", "[[\"f\", {\"a\": 1}]]"},
	{"nemotron", "<TOOLCALL>[{\"name\": \"g\", \"arguments\": {}}]</TOOLCALL>", "", "",
	 "[[\"g\", {}]]"},
	{"apertus",
	 "<|inner_prefix|>hm<|inner_suffix|>T<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]"
	 "<|tools_suffix|>",
	 "hm", "T", "[[\"f\", {\"a\": 1}], [\"g\", {}]]"},
	/* tags */
	{"hermes", "<think>t</think><tool_call>{\"name\": \"g\"}</tool_call>", "t", "",
	 "[[\"g\", {}]]"},
	{"seed",
	 "<seed:think>t</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=s>\nx\n"
	 "</parameter>\n<parameter=l>[1, 'it', None]</parameter>\n<parameter=b>True</parameter>\n"
	 "</function>\n</seed:tool_call>",
	 "t", "", "[[\"f\", {\"s\": \"\\nx\\n\", \"l\": [1, \"it\", null], \"b\": true}]]"},
	{"minimax",
	 "t\n</think>\nI go.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">1"
	 "</parameter>\n<parameter name=\"s\">1</parameter>\n</invoke>\n<invoke name=\"g\">\n"
	 "</invoke>\n</minimax:tool_call>",
	 "t", "I go.", "[[\"f\", {\"a\": 1, \"s\": \"1\"}], [\"g\", {}]]"},
	{"dsml",
	 ML("function_calls") "\n<\uff5cDSML\uff5cinvoke name=\"f\">\n<\uff5cDSML\uff5cparameter "
			      "name=\"x\" "
			      "string=\"true\">1</"
			      "\uff5cDSML\uff5cparameter>\n<\uff5cDSML\uff5cparameter "
			      "name=\"y\" "
			      "string=\"false\">[1]</\uff5cDSML\uff5cparameter>\n" ML_END(
				      "invoke") "\n" ML_END("function_calls"),
	 "", "", "[[\"f\", {\"x\": \"1\", \"y\": [1]}]]"},
	{"dsml",
	 ML("tool_calls") "<\uff5cDSML\uff5cinvoke name=\"g\">" ML_END("invoke")
		 ML_END("tool_calls"),
	 "", "", "[[\"g\", {}]]"},
	{"glm",
	 "\n<think>t</think>\nT\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>5 </arg_value> x"
	 "</arg_value>\n<arg_key>a</arg_key>\n<arg_value>5</arg_value>\n</tool_call>\n"
	 "<tool_call>g</tool_call>",
	 "t", "T", "[[\"f\", {\"s\": \"5 </arg_value> x\", \"a\": 5}], [\"g\", {}]]"},
	{"hunyuan",
	 "<think>t</think><answer>T</answer><tool_calls><tool_call>f<tool_sep>\n<arg_key>a"
	 "</arg_key><arg_value>5</arg_value></tool_call></tool_calls>",
	 "t", "T", "[[\"f\", {\"a\": 5}]]"},
	{"hunyuan", "<tool_calls>[{\"name\": \"g\", \"arguments\": {}}]</tool_calls>", "", "",
	 "[[\"g\", {}]]"},
	/* Python's calls, and others' */
	{"lfm",
	 "<|tool_call_start|>[f(s='it's \"é\"\n<b>', a=5, l=['x', True, (1, 2.5)], o={\"k\": "
	 "[null]}), g()]<|tool_call_end|>T",
	 "", "T",
	 "[[\"f\", {\"s\": \"it's \\\"é\\\"\\n<b>\", \"a\": 5, \"l\": [\"x\", true, [1, 2.5]], "
	 "\"o\": {\"k\": [null]}}], [\"g\", {}]]"},
	{"minicpm",
	 "<|thought_start|>\nt\n<|thought_end|>\n<|tool_call_start|>\n```python\nf(s=\"\\\"\\u00e9"
	 "\\ud83e\\udd80\",a=1)\ng()\n```\n<|tool_call_end|>\nT",
	 "t", "T", "[[\"f\", {\"s\": \"\\\"é🦀\", \"a\": 1}], [\"g\", {}]]"},
	{"olmo", "<function_calls>\nf(a=1)\ng()\n</function_calls>", "", "",
	 "[[\"f\", {\"a\": 1}], [\"g\", {}]]"},
	{"gemma",
	 "<|channel>thought\nt\n<channel|><|tool_call>call:f{a:5,l:[<|\"|>x, ]<|\"|>,true],o:{k:"
	 "None},s:<|\"|>it's \"}\n<|\"|>}<tool_call|><|tool_call>call:g{}<tool_call|>"
	 "<|tool_response>",
	 "t", "",
	 "[[\"f\", {\"a\": 5, \"l\": [\"x, ]\", true], \"o\": {\"k\": null}, \"s\": \"it's "
	 "\\\"}\\n\"}], [\"g\", {}]]"},
	{"llama", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", "", "[[\"f\", {\"a\": 1}]]"},
	{"llama", "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
	 "", "", "[[\"f\", {}], [\"g\", {}]]"},
	{"llama", "<|python_tag|>{\"name\": \"x\", \"parameters\": {}}", "", "", "[[\"x\", {}]]"},
	{"llama", "<|python_tag|>search.call(query=\"a b\")", "", "",
	 "[[\"search\", {\"query\": \"a b\"}]]"},
	{"llama-4",
	 "<|python_start|>T<|python_end|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}{\"name\": "
	 "\"g\", \"parameters\": {}}",
	 "", "T", "[[\"f\", {\"a\": 1}], [\"g\", {}]]"},
	{"llama-4", "[f(a=1), g()]", "", "", "[[\"f\", {\"a\": 1}], [\"g\", {}]]"},
	{"llama-4", "<|python_start|>[g()]<|python_end|>", "", "", "[[\"g\", {}]]"},
	/* thoughts that nobody ended */
	{"kimi", "<think>t\n" KIMI_BEGIN KIMI_CALL "g:0" KIMI_SEP "{}" KIMI_CALL_END KIMI_END, "t",
	 "", "[[\"g\", {}, \"g:0\"]]"},
};

/* Of each form, what begins like a call and is none: content, as it is. */
static const char *const BROKEN[][2] = {
	{"gpt-oss", "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
		    "<|message|>{\"a\": }<|call|>"},
	{"gpt-oss", "<|channel|>commentary to=functions.f<|message|>[1]<|end|>"},
	{"gpt-oss", "<|channel|>commentary to=functions.f<|message|>{\"a\": 1"},
	{"gpt-oss", "no <|channel|> at all"},
	{"mistral", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": 5}]"},
	{"mistral", "[TOOL_CALLS]f[ARGS]{\"a\": 01}"},
	{"mistral", "[TOOL_CALLS]f[CALL_ID][ARGS]{}"},
	{"mistral", "[TOOL_CALLS][]"},
	{"kimi", KIMI_BEGIN KIMI_CALL "functions.f:0" KIMI_SEP "[1]" KIMI_CALL_END KIMI_END},
	{"kimi", KIMI_BEGIN KIMI_END},
	{"kimi", KIMI_CALL "f:0" KIMI_SEP "{}" KIMI_CALL_END},
	{"deepseek", DS_BEGIN DS_CALL "function" DS_SEP "f\n{\"a\": 1}" DS_CALL_END DS_END},
	{"deepseek", DS_BEGIN DS_CALL "f" DS_SEP "{'a': 1}" DS_CALL_END DS_END},
	{"granite", "<|tool_call|>[{\"arguments\": {}}]"},
	{"command", "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": 1}]<|END_ACTION|>"},
	{"command-r", "Action: ```json\n[]```"},
	{"jamba", "<tool_calls>[{\"name\": \"f\"}] x</tool_calls>"},
	{"nemotron", "<TOOLCALL>f</TOOLCALL>"},
	{"apertus", "<|tools_prefix|>[{\"f\": {}, \"g\": {}}]<|tools_suffix|>"},
	{"seed", "<seed:tool_call><function=f><parameter=s>x</seed:tool_call>"},
	{"minimax",
	 "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">1</minimax:tool_call>"},
	{"minimax", "<invoke name=\"f\"></invoke>"},
	{"dsml", ML("function_calls") "<\uff5cDSML\uff5cinvoke name=f>" ML_END("invoke")},
	{"glm", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1"},
	{"glm", "<tool_call>f"},
	{"glm", "<tool_call>{\"name\": \"f\"}</tool_call>"},
	{"hunyuan", "<tool_call>f<tool_sep></tool_call>"},
	{"lfm", "<|tool_call_start|>[f(a=b)]<|tool_call_end|>"},
	{"lfm", "<|tool_call_start|>[f(1)]<|tool_call_end|>"},
	{"lfm", "<|tool_call_start|>[f(s='x)]<|tool_call_end|>"},
	{"lfm", "<|tool_call_start|>[f(o={'\\0': 1})]<|tool_call_end|>"},
	{"minicpm", "<|tool_call_start|>```python\nimport os\n```<|tool_call_end|>"},
	{"olmo", "<function_calls></function_calls>"},
	{"gemma", "<|tool_call>call:f{a:b}<tool_call|>"},
	{"gemma", "<|tool_call>f{}<tool_call|>"},
	{"gemma", "<|tool_call>call:f{s:<|\"|>x}<tool_call|>"},
	{"llama", "{\"name\": \"nobody\", \"parameters\": {}}"},
	{"llama", "{\"name\": \"f\"}"},
	{"llama", "{\"name\": \"f\", \"parameters\": {}} as I said"},
	{"llama", "As I said: {\"name\": \"f\", \"parameters\": {}}"},
	{"llama", "<|python_tag|>print(1)"},
	{"llama-4", "[nobody(a=1)]"},
};

static struct json *parsed(const char *text)
{
	struct json *v;
	struct err e = {0};
	must(json_parse_text(&v, text, strlen(text), text, &e), &e);
	return v;
}

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

static void check_case(const struct form_case *c, const struct json *tools)
{
	enum split_thinking thinking =
		strcmp(c->form, "minimax") == 0 && *c->thoughts ? THINKING_OPEN : THINKING_AUTO;
	const struct split_form *form = split_form_named(c->form);
	assert_non_null(form);
	struct split *s = taken_apart_any_way(form, c->text, strlen(c->text), tools, thinking);
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
		print_message("%s: %s\nthoughts \"%.*s\", content \"%.*s\", %zu calls\n", c->form,
			      c->text, (int)r.thoughts_n, r.thoughts, (int)r.content_n, r.content,
			      r.calls->count);
		for (size_t i = 0; i < r.calls->count; i++)
			print_message("  %s %s %s\n", r.calls->items[i].name,
				      r.calls->items[i].arguments,
				      r.calls->items[i].id ? r.calls->items[i].id : "-");
	}
	assert_true(same);
	json_free(want);
	split_free(s);
}

static void every_family_s_thoughts_and_calls_are_taken_apart(void **state)
{
	(void)state;
	struct json *tools = parsed(TOOLS);
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
		check_case(&CASES[i], tools);
	json_free(tools);
}

static bool has_case(const char *form)
{
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
		if (strcmp(CASES[i].form, form) == 0)
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
	struct json *tools = parsed(TOOLS);
	for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
		struct form_case c = {BROKEN[i][0], BROKEN[i][1], "", BROKEN[i][1], "[]"};
		check_case(&c, tools);
	}
	json_free(tools);
}

static void without_tools_there_are_no_calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		struct split *s =
			taken_apart_any_way(split_form_named(CASES[i].form), CASES[i].text,
					    strlen(CASES[i].text), NULL, THINKING_AUTO);
		assert_int_equal(split_result(s).calls->count, 0);
		split_free(s);
	}
}

/* ---- any text, in any pieces ---- */

/* The words that a form's texts are made of, and a few that any may have. */
static size_t words_of(const struct split_form *f, const char **words)
{
	static const char *const ANY[] = {
		"f",
		"g",
		" ",
		"\n",
		"{\"name\": \"f\", \"arguments\": {\"a\": [1, \"\xc3\xa9\"]}}",
		"[",
		"]",
		"{",
		"}",
		"{\"f\": {}}",
		"f()",
		"'",
		"\"",
		"a",
		"call:f{a:1}",
		"(",
		")",
		"s='x'",
		",",
		"{\"tool_name\": \"g\", \"parameters\": {}}",
		"1",
		"null",
		"<",
		"a=1",
		":0",
		"```",
		"f\n",
		"```json",
		"\"s\"",
		"\xc3\xa9"};
	size_t n = 0;
	for (size_t i = 0; i < sizeof ANY / sizeof *ANY; i++)
		words[n++] = ANY[i];
	words[n++] = f->think_begin;
	words[n++] = f->think_end;
	for (size_t i = 0; i < FORM_WORDS_MAX && f->silent[i]; i++)
		words[n++] = f->silent[i];
	for (size_t i = 0; i < FORM_WAYS_MAX && f->ways[i].begin; i++) {
		const struct call_way *w = &f->ways[i];
		const char *const own[] = {w->begin,
					   w->open,
					   w->close,
					   w->json ? w->json->end : NULL,
					   w->tags ? w->tags->function : NULL,
					   w->tags ? w->tags->function_end : NULL,
					   w->tags ? w->tags->parameter : NULL,
					   w->tags ? w->tags->parameter_end : NULL,
					   w->tags ? w->tags->end : NULL,
					   w->tags ? w->tags->stop : NULL,
					   w->tags ? ">" : NULL,
					   w->named ? w->named->separator : NULL,
					   w->named ? w->named->end : NULL,
					   w->named ? w->named->id : NULL,
					   w->python ? w->python->end : NULL,
					   w->python ? w->python->quote : NULL};
		for (size_t k = 0; k < sizeof own / sizeof *own; k++)
			if (own[k])
				words[n++] = own[k];
	}
	if (strcmp(f->name, "glm") == 0 || strcmp(f->name, "hunyuan") == 0) {
		static const char *const PAIRS[] = {"<arg_key>",    "</arg_key>",   "<arg_value>",
						    "</arg_value>", "</tool_call>", "<tool_sep>"};
		for (size_t k = 0; k < sizeof PAIRS / sizeof *PAIRS; k++)
			words[n++] = PAIRS[k];
	}
	static const char *const CHANNELS[] = {CHANNEL_START "assistant",
					       CHANNEL_END,
					       CHANNEL_RETURN,
					       CHANNEL_CALL,
					       "{\"a\": 1}",
					       CHANNEL_NAME "analysis",
					       CHANNEL_NAME "final",
					       " to=f",
					       CHANNEL_MESSAGE};
	for (size_t k = 0; f->channels && k < sizeof CHANNELS / sizeof *CHANNELS; k++)
		words[n++] = CHANNELS[k];
	for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++)
		if (strcmp(CASES[k].form, f->name) == 0)
			words[n++] = CASES[k].text;
	return n;
}

static void check_random_texts(const struct split_form *f, const struct json *tools, int rounds)
{
	static const char *words[128];
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
	struct json *tools = parsed(TOOLS);
	for (size_t i = 0; split_form_at(i); i++)
		check_random_texts(split_form_at(i), tools, 1500);
	json_free(tools);
}

/* ---- bounds ---- */

static void check_hostile(const char *form, const char *begin, const char *again, size_t times)
{
	struct json *tools = parsed(TOOLS);
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
	check_hostile("kimi", KIMI_BEGIN KIMI_CALL, "f:", 40000);
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
	struct json *tools = parsed(TOOLS);
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

/* ---- what a prompt, a template and a token say ---- */

static void calls_come_out_one_by_one(void **state)
{
	(void)state;
	static const char *const TEXTS[][2] = {
		{"kimi", KIMI_BEGIN KIMI_CALL "f:0" KIMI_SEP "{}" KIMI_CALL_END},
		{"minimax", "<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>"},
		{"deepseek", DS_BEGIN DS_CALL "f" DS_SEP "{}" DS_CALL_END},
		{"mistral", "[TOOL_CALLS]f[ARGS]{}"},
		{"glm", "<tool_call>f</tool_call>"},
		{"gemma", "<|tool_call>call:f{}<tool_call|>"}};
	struct json *tools = parsed(TOOLS);
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

/* What begins or ends a message is never a mark that an answer may spell; what a call is made of
 * is, so that its text stays what it was. */
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
			    token_wants(words[k], strlen(words[k]), true) != MAY_MARKS)
				fail_msg("%s: %s", f->name, words[k]);
	}
	assert_int_equal(token_wants(CHANNEL_START, strlen(CHANNEL_START), true), MAY_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_family_s_thoughts_and_calls_are_taken_apart),
		cmocka_unit_test(every_form_has_a_case),
		cmocka_unit_test(a_broken_call_is_content_character_for_character),
		cmocka_unit_test(without_tools_there_are_no_calls),
		cmocka_unit_test(pieces_do_not_change_the_result_of_any_form),
		cmocka_unit_test(what_never_ends_or_lies_too_deep_is_content),
		cmocka_unit_test(beginnings_without_end_are_given_up),
		cmocka_unit_test(calls_are_no_more_than_a_message_takes),
		cmocka_unit_test(calls_come_out_one_by_one),
		cmocka_unit_test(thoughts_of_channels_end_with_the_final_one),
		cmocka_unit_test(a_prompt_may_open_thinking_with_any_form_s_mark),
		cmocka_unit_test(a_template_s_words_say_its_form),
		cmocka_unit_test(marks_that_are_control_tokens_are_given_to_the_splitter),
		cmocka_unit_test(marks_of_calls_may_be_spelled_in_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
