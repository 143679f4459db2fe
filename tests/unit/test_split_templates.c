/* Models are trained to write what their templates render: an answer rendered by a published
 * template is split into the same thoughts, content and calls, however it is cut. */
#include "tests/unit/golden.h"
#include "tests/unit/split_help.h"
#include "tests/unit/tokenizer_help.h"

#include "engine/template/chat_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- conversations ---- */

#define OF(name, schema) "\"" name "\": {\"description\": \"It.\", " schema "}"
#define TYPE(name) "\"type\": \"" name "\""
#define SCALARS                                                                                    \
	OF("city", TYPE("string"))                                                                 \
	", " OF("count", TYPE("integer")) ", " OF("ratio", TYPE("number")) ", " OF(                \
		"flag",                                                                            \
		TYPE("boolean")) ", " OF("none",                                                   \
					 "\"anyOf\": [{\"type\": \"null\"}, {\"type\": "           \
					 "\"integer\"}]") ", " OF("text",                          \
								  TYPE("string")) ", " OF("digit"  \
											  "s",     \
											  TYPE("s" \
											       "t" \
											       "r" \
											       "i" \
											       "n" \
											       "g"))
#define PARAMETERS(more)                                                        \
	"{\"type\": \"object\", \"properties\": {" more "}, \"required\": [], " \
	"\"additionalProperties\": false}"
#define TOOLS_OF(more)                                                                           \
	"[{\"type\": \"function\", \"function\": {\"name\": \"look_up\", \"description\": "      \
	"\"Looks.\", \"parameters\": " PARAMETERS(                                               \
		SCALARS more) "}}, {\"type\": \"function\", "                                    \
			      "\"function\": {\"name\": \"stop\", \"description\": \"Stops.\", " \
			      "\"parameters\": " PARAMETERS("") "}}]"
static const char *const TOOLS[] = {
	TOOLS_OF(", " OF("list", TYPE("array") ", \"items\": {" TYPE("string") "}") ", " OF(
		"object", TYPE("object") ", \"properties\": {}, \"additionalProperties\": {" TYPE(
				  "string") "}")),
	TOOLS_OF(""),
};

#define PLAIN_ARGUMENTS                                                                           \
	"\"city\": \"Z\xc3\xbcrich \\\"Alt\\\" it's\", \"count\": -3, \"ratio\": 0.5, \"flag\": " \
	"true, \"none\": null, \"text\": \"two\\nlines <b> & {x} \xf0\x9f\xa6\x80\", "            \
	"\"digits\": \"0123\""
#define NESTED_ARGUMENTS                                                            \
	PLAIN_ARGUMENTS                                                             \
	", \"list\": [\"a\", 1, [true, null], {}], \"object\": {\"k\": {\"deep\": " \
	"[1, 2.5, \"\xc3\xa9\"]}, \"l\": false}"
#define CALL(id, name, arguments)                                                       \
	"{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name \
	"\", \"arguments\": {" arguments "}}}"

static const char THOUGHTS[] = "They ask\n\nfor 3 < 4 things.", CONTENT[] = "I will look.";
static const char NO_CALLS[] = "[]";
#define ONE(id, arguments) "[" CALL(id, "look_up", arguments) "]"
#define TWO(id, other, arguments) \
	"[" CALL(id, "stop", "") ", " CALL(other, "look_up", arguments) "]"
/* With ids as Kimi has them and as all others take them; with nested arguments, and with plain ones
 * for templates that write lists and objects as Python does. */
static const char *const CALLS[][2][2] = {
	{{ONE("abcdefgh1", NESTED_ARGUMENTS), ONE("abcdefgh1", PLAIN_ARGUMENTS)},
	 {ONE("functions.look_up:0", NESTED_ARGUMENTS), NULL}},
	{{TWO("abcdefgh1", "abcdefgh2", NESTED_ARGUMENTS),
	  TWO("abcdefgh1", "abcdefgh2", PLAIN_ARGUMENTS)},
	 {TWO("functions.stop:0", "functions.look_up:1", NESTED_ARGUMENTS), NULL}},
};
enum { CALLS_COUNT = sizeof CALLS / sizeof *CALLS };

/* ---- templates ---- */

/* Special cases of some templates. */
static const struct particular {
	const char *name;
	const char *form;
	bool plain; /* no lists and objects: it writes them as Python does, which the form's rules
		     * take as text, or cannot describe them */
	bool as_thought; /* writes content before calls as thoughts */
} PARTICULARS[] = {
	{.name = "Qwen3-Coder", .form = "hermes", .plain = true},
	{.name = "Qwen3-Coder-first", .form = "hermes", .plain = true},
	{.name = "Hermes-3-tools", .form = "hermes", .plain = true},
	{.name = "gpt-oss", .form = "gpt-oss", .as_thought = true},
	{.name = "Gemma-4", .form = "gemma"},
	{.name = "Kimi-K2", .form = "kimi"},
	{.name = "Kimi-K2-append", .form = "kimi"},
	{.name = "Kimi-K2-Thinking", .form = "kimi"},
	{.name = "DeepSeek-V3", .form = "deepseek"},
	{.name = "DeepSeek-R1", .form = "deepseek"},
	{.name = "DeepSeek-R1-Distill", .form = "deepseek"},
	{.name = "DeepSeek-V3.1", .form = "deepseek"},
	{.name = "Mistral-7B-v0.3-tools", .form = "mistral"},
	{.name = "Mistral-Nemo", .form = "mistral"},
	{.name = "Mistral-Small-3.2", .form = "mistral"},
	{.name = "Ministral-3-Reasoning", .form = "mistral"},
	{.name = "GLM-4.5", .form = "glm"},
	{.name = "GLM-4.6", .form = "glm"},
	{.name = "GLM-4.7-Flash", .form = "glm"},
	{.name = "GLM-5.2", .form = "glm"},
	{.name = "MiniMax-M2", .form = "minimax"},
	{.name = "Seed-OSS", .form = "seed"},
	{.name = "Command-R7B", .form = "command"},
	{.name = "Command-R-tools", .form = "command-r"},
	{.name = "Jamba-1.6", .form = "jamba"},
	{.name = "Apertus", .form = "apertus"},
	{.name = "MiniCPM3", .form = "minicpm"},
	{.name = "LFM2.5", .form = "lfm"},
	{.name = "OLMo-3", .form = "olmo"},
	{.name = "Llama-4", .form = "llama-4"},
	{.name = "Llama-3.1", .form = "llama"},
	{.name = "Llama-3.2", .form = "llama"},
	{.name = "Granite-3.1", .form = "granite"},
	{.name = "Granite-3.3", .form = "granite"},
	{.name = "Phi-4-mini", .form = "granite"},
};

struct
try {
	const struct chat_template *template;
	const struct particular *particular;
	const struct json *tools;
	char end[64]; /* the model's end token */
};

static struct particular particular_of(const char *name)
{
	for (size_t i = 0; i < sizeof PARTICULARS / sizeof *PARTICULARS; i++)
		if (strcmp(PARTICULARS[i].name, name) == 0)
			return PARTICULARS[i];
	return (struct particular){.name = name, .form = "hermes"};
}

/* Renders a conversation; NULL where the template refuses. Freed by the caller. */
static char *rendered(const struct try *t, const char *messages, const char *variables, bool answer)
{
	struct messages m = {0};
	struct json *v;
	struct template_text out = {0};
	struct err e = {0};
	static const struct tm CLOCK = {.tm_year = 126, .tm_mday = 2, .tm_wday = 5};
	must(messages_read(&m, messages, strlen(messages), &e), &e);
	must(json_parse_text(&v, variables, strlen(variables), "variables", &e), &e);
	struct chat_input in = {.messages = &m,
				.tools = t->tools,
				.variables = v,
				.clock = &CLOCK,
				.answer = answer};
	char *text = chat_render(t->template, &in, NULL, &out, &e) == 0
			     ? strndup(out.bytes, out.length)
			     : NULL;
	template_text_free(&out);
	json_free(v);
	messages_free(&m);
	return text;
}

/* The length of the common beginning, without a mark that is cut in the middle. */
static size_t common(const char *a, const char *b)
{
	size_t n = 0;
	while (a[n] && a[n] == b[n])
		n++;
	if (a[n] == '\0')
		return n;
	for (size_t i = n; i > 0 && a[i - 1] != '>' && a[i - 1] != ']'; i--)
		if (a[i - 1] == '<' || a[i - 1] == '[')
			return i - 1;
	return n;
}

/* How much of the prompt's end a text begins with, where something stands in the prompt that is not
 * before the answer. */
static size_t role_mark(const char *prompt, const char *text)
{
	size_t n = strlen(prompt);
	for (size_t i = n < 64 ? 0 : n - 64; i < n; i++)
		if (strncmp(prompt + i, text, n - i) == 0)
			return n - i;
	return 0;
}

/* Cuts a text at the first mark that ends a message. */
static void cut_end(const struct try *t, char *text)
{
	static const char *const ENDS[] = {"<|im_end|>",
					   "<|eot_id|>",
					   "<|eot|>",
					   "<turn|>",
					   "<end_of_turn>",
					   "<|eom|>",
					   "[e~[",
					   "<seed:eos>",
					   "<|return|>",
					   "<|call|>",
					   "</s>",
					   "<|endoftext|>",
					   "<|assistant_end|>",
					   "<|end_of_text|>",
					   "<|END_OF_TURN_TOKEN|>",
					   "<|START_OF_TURN_TOKEN|>",
					   "<\uff5cend\u2581of\u2581sentence\uff5c>"};
	bool phi = strncmp(t->particular->name, "Phi", 3) == 0;
	char *end = phi ? strstr(text, "<|end|>") : *t->end ? strstr(text, t->end) : NULL;
	if (end)
		*end = '\0';
	for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
		if ((end = strstr(text, ENDS[i])))
			*end = '\0';
}

/* Renders a question's prompt, and the question with its answer; with the variables whose prompt
 * the answer begins with, if there are any. Returns how long both are the same. */
static size_t render_both(const struct try *t, const char *message, char **prompt, char **full)
{
#define BOS "{\"bos_token\": \"<s>\"" /* the fixture has none */
	static const char *const VARIABLES[] = {
		BOS "}", BOS ", \"enable_thinking\": false, \"thinking\": false}",
		BOS ", \"enable_thinking\": true, \"thinking\": true}", BOS "}"};
	static const char USER[] = "{\"role\": \"user\", \"content\": \"Hi\"}";
	char *asked, *both;
	size_t n = 0;
	assert_true(asprintf(&asked, "[%s]", USER) > 0 &&
		    asprintf(&both, "[%s, %s]", USER, message) > 0);
	for (size_t i = 0; i < 4; i++) {
		free(*prompt);
		free(*full);
		*prompt = rendered(t, asked, VARIABLES[i], true);
		*full = rendered(t, both, VARIABLES[i], false);
		n = *prompt && *full ? common(*prompt, *full) : 0;
		if (*prompt && *full && n == strlen(*prompt))
			break;
	}
	free(asked);
	free(both);
	return n;
}

/* The part of a rendered answer that the model itself wrote: from the prompt's end to the first
 * mark that ends a message; sets how its thinking begins. NULL: the template does not render it. */
static char *answer_of(const struct try *t, const char *message, enum split_thinking *thinking)
{
	char *full = NULL, *prompt = NULL, *text = NULL;
	size_t n = render_both(t, message, &prompt, &full);
	if (prompt && full) {
		if (n < strlen(prompt))
			n += role_mark(prompt, full + n);
		text = strdup(full + n);
		*thinking = split_thinking_of(full, n);
		cut_end(t, text);
	}
	free(prompt);
	free(full);
	return text;
}

/* ---- comparing ---- */

static bool is_same_trimmed(const char *want, const char *have, size_t n)
{
	for (; n > 0 && scan_is_space(*have); n--)
		have++;
	for (; n > 0 && scan_is_space(have[n - 1]); n--)
		;
	return strlen(want) == n && memcmp(want, have, n) == 0;
}

static bool same_calls(const struct json *want, const struct calls *have, const char *text)
{
	const struct json *w = NULL;
	size_t i = 0;
	bool same = true;
	while (same && (w = json_next(want, w))) {
		struct json *arguments;
		struct err e = {0};
		size_t n, id_n;
		const struct call *c = &have->items[i];
		const struct json *function = json_find(w, "function");
		const char *name = json_bytes(json_find(function, "name"), &n);
		const char *id = json_bytes(json_find(w, "id"), &id_n);
		if (!strstr(text, name))
			continue; /* some render the first only */
		if (i++ == have->count)
			return false;
		must(json_parse_text(&arguments, c->arguments, c->arguments_n, "call", &e), &e);
		same = strcmp(name, c->name) == 0 &&
		       same_json(json_find(function, "arguments"), arguments, true) &&
		       (!c->id || strcmp(c->id, id) == 0) &&
		       (!c->id == !strstr(text, id)); /* it is carried where it is written */
		json_free(arguments);
	}
	return same && i == have->count;
}

struct wanted {
	const char *thoughts, *content, *calls;
};

/* Whether splitting the rendered answer gives the answer back. Parts that the template leaves out
 * are not required. */
static bool comes_back(const struct try *t, struct wanted w, const char *text,
		       enum split_thinking thinking)
{
	struct json *calls;
	struct err e = {0};
	must(json_parse_text(&calls, w.calls, strlen(w.calls), "calls", &e), &e);
	const char *content = strstr(text, CONTENT) ? w.content : "";
	const char *thoughts = strstr(text, "3 < 4") ? w.thoughts : "";
	if (t->particular->as_thought && json_count(calls) > 0 && !*thoughts) {
		thoughts = content;
		content = "";
	}
	const struct split_form *form = chat_template_form(t->template, true);
	struct split *s = taken_apart_any_way(form, text, strlen(text), t->tools, thinking);
	struct split_result r = split_result(s);
	bool same = strlen(thoughts) == r.thoughts_n &&
		    memcmp(thoughts, r.thoughts, r.thoughts_n) == 0 &&
		    is_same_trimmed(content, r.content, r.content_n) &&
		    same_calls(calls, r.calls, text);
	if (!same) {
		print_message("%s (%s) wrote:\n%s\n", t->particular->name, form->name, text);
		print_split(&r);
	}
	json_free(calls);
	split_free(s);
	return same;
}

/* The parts that a template renders. */
struct seen {
	size_t answers, wrong;
	bool thoughts, calls, two_calls;
};

static void try_answer(const struct try *t, struct wanted w, struct seen *seen)
{
	char *message;
	enum split_thinking thinking;
	struct text_out thoughts = {0}, content = {0};
	text_out_json_text(&thoughts, w.thoughts, strlen(w.thoughts));
	text_out_json_text(&content, w.content, strlen(w.content));
	assert_true(asprintf(&message,
			     "{\"role\": \"assistant\", \"content\": %s, \"thinking\": %s%s%s}",
			     content.bytes, *w.thoughts ? thoughts.bytes : "null",
			     w.calls != NO_CALLS ? ", \"tool_calls\": " : "",
			     w.calls != NO_CALLS ? w.calls : "") > 0);
	char *text = answer_of(t, message, &thinking);
	if (text) {
		seen->answers++;
		seen->wrong += !comes_back(t, w, text, thinking);
		seen->thoughts |= strstr(text, "3 < 4") != NULL;
		seen->calls |= strstr(text, "look_up") != NULL;
		seen->two_calls |= strstr(text, "look_up") && strstr(text, "stop");
	}
	free(text);
	free(message);
	text_out_free(&thoughts);
	text_out_free(&content);
}

static struct seen try_template(const struct try *t)
{
	struct seen seen = {0};
	bool kimi = strcmp(t->particular->form, "kimi") == 0;
	for (size_t i = 0; i < 2; i++)
		try_answer(t, (struct wanted){i ? THOUGHTS : "", CONTENT, NO_CALLS}, &seen);
	for (size_t k = 0; k < CALLS_COUNT; k++)
		for (size_t i = 0; i < 4; i++) {
			const char *calls = CALLS[k][kimi][t->particular->plain];
			try_answer(
				t,
				(struct wanted){i & 1 ? THOUGHTS : "", i & 2 ? CONTENT : "", calls},
				&seen);
		}
	return seen;
}

static struct seen check_template(const struct json *entry, const struct tokenizer *tokenizer,
				  struct json *const tools[2])
{
	char file[256];
	size_t n;
	const char *name = json_bytes(json_find(entry, "name"), &n);
	struct particular p = particular_of(name);
	struct err e = {0};
	struct chat_template *c;
	struct try t = {.particular = &p, .tools = tools[p.plain]};
	(void)snprintf(file, sizeof file, "templates/%s.jinja", name);
	char *source = read_any(shared_data(file), &n);
	must(chat_template_open_text(&c, source, NULL, name, tokenizer, &e), &e);
	t.template = c;
	(void)snprintf(t.end, sizeof t.end, "%s", json_bytes(json_find(entry, "eos_token"), &n));
	if (strcmp(chat_template_form(c, true)->name, p.form) != 0)
		fail_msg("%s: %s instead of %s", name, chat_template_form(c, true)->name, p.form);
	struct seen seen = try_template(&t);
	free(source);
	chat_template_close(c);
	return seen;
}

static void what_a_template_renders_is_taken_apart_again(void **state)
{
	(void)state;
	const char *list = shared_data("templates/templates.json");
	if (!list)
		skip();
	size_t n, count = 0, wrong = 0, thoughts = 0, calls = 0, two = 0;
	char *text = read_any(list, &n);
	struct json *all, *tools[2];
	struct tokenizer *tokenizer;
	struct err e = {0};
	must(json_parse_text(&all, text, n, "templates.json", &e), &e);
	for (size_t i = 0; i < 2; i++)
		must(json_parse_text(&tools[i], TOOLS[i], strlen(TOOLS[i]), "tools", &e), &e);
	must(tokenizer_open(&tokenizer, FIXTURE, &e), &e);
	for (const struct json *v = NULL; (v = json_next(all, v)); count++) {
		struct seen seen = check_template(v, tokenizer, tools);
		wrong += seen.wrong;
		thoughts += seen.thoughts;
		calls += seen.calls;
		two += seen.two_calls;
		if (seen.answers == 0)
			fail_msg("%s renders no answer", json_bytes(json_find(v, "name"), &n));
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(count, 62);
	assert_int_equal(thoughts, 21);
	assert_int_equal(calls, 44);
	assert_int_equal(two, 41);
	tokenizer_close(tokenizer);
	json_free(tools[0]);
	json_free(tools[1]);
	json_free(all);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_template_renders_is_taken_apart_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
