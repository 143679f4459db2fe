/* The table of forms: one row per way of writing thoughts and calls, with the marks of each family.
 * split_forms.h explains the columns. */
#include "engine/answer/split_forms.h"

#include <string.h>

/* The bars and the space of DeepSeek's marks. */
#define BAR "\uff5c"
#define GAP "\u2581"
#define DSML BAR "DSML" BAR

/* ---- words of readers ---- */

static const struct json_words HERMES_JSON = {
	.name = "name", .arguments = {"arguments", "parameters"}, .end = "</tool_call>"};
static const struct json_words BARE_JSON = {.name = "name",
					    .arguments = {"parameters", "arguments"}};
static const struct json_words MISTRAL_JSON = {
	.name = "name", .arguments = {"arguments", "parameters"}, .id = "id", .list = true};
static const struct json_words GRANITE_JSON = {.name = "name",
					       .arguments = {"arguments", "parameters"},
					       .end = "<|/tool_call|>",
					       .may_end = true,
					       .list = true};
static const struct json_words COMMAND_JSON = {
	.name = "tool_name", .arguments = {"parameters"}, .end = "<|END_ACTION|>", .list = true};
static const struct json_words ACTION_JSON = {.name = "tool_name",
					      .arguments = {"parameters"},
					      .fence = "```json",
					      .end = "```",
					      .list = true};
static const struct json_words CALLS_JSON = {.name = "name",
					     .arguments = {"arguments", "parameters"},
					     .end = "</tool_calls>",
					     .list = true};
static const struct json_words TOOLCALL_JSON = {.name = "name",
						.arguments = {"arguments", "parameters"},
						.end = "</TOOLCALL>",
						.list = true};
static const struct json_words APERTUS_JSON = {.end = "<|tools_suffix|>", .list = true};

static const struct tag_words QWEN_TAGS = {.function = "<function=",
					   .function_end = "</function>",
					   .parameter = "<parameter=",
					   .parameter_end = "</parameter>",
					   .end = "</tool_call>",
					   .stop = ">",
					   .lines = true};
static const struct tag_words SEED_TAGS = {.function = "<function=",
					   .function_end = "</function>",
					   .parameter = "<parameter=",
					   .parameter_end = "</parameter>",
					   .end = "</seed:tool_call>",
					   .stop = ">",
					   .python = true};
static const struct tag_words MINIMAX_TAGS = {.function = "<invoke name=\"",
					      .function_end = "</invoke>",
					      .parameter = "<parameter name=\"",
					      .parameter_end = "</parameter>",
					      .end = "</minimax:tool_call>",
					      .stop = "\""};
#define DSML_TAGS(block)                                                                           \
	{                                                                                          \
		.function = "<" DSML "invoke name=\"", .function_end = "</" DSML "invoke>",        \
		.parameter = "<" DSML "parameter name=\"",                                         \
		.parameter_end = "</" DSML "parameter>", .end = "</" DSML block ">", .stop = "\"", \
		.as_text = "string=\"true\"", .as_value = "string=\"false\""                       \
	}
static const struct tag_words FUNCTION_TAGS = DSML_TAGS("function_calls");
static const struct tag_words TOOL_TAGS = DSML_TAGS("tool_calls");

static const struct named_words DEEPSEEK_NAMED = {.separator = "<" BAR "tool" GAP "sep" BAR ">",
						  .end = "<" BAR "tool" GAP "call" GAP "end" BAR
							 ">",
						  .fenced = true};
static const struct named_words KIMI_NAMED = {
	.separator = "<|tool_call_argument_begin|>", .end = "<|tool_call_end|>", .numbered = true};
static const struct named_words MISTRAL_NAMED = {.id = "[CALL_ID]", .separator = "[ARGS]"};

static const struct python_words START_PYTHON = {.end = "<|tool_call_end|>"};
static const struct python_words OLMO_PYTHON = {.end = "</function_calls>"};
static const struct python_words LLAMA_PYTHON = {.end = "<|python_end|>", .call = ".call"};
static const struct python_words GEMMA_PYTHON = {
	.end = "<tool_call|>", .call = "call:", .quote = "<|\"|>"};

/* ---- forms: a form comes before another form whose words its templates contain, too ---- */

#define THINK_TAGS .think_begin = "<think>", .think_end = "</think>"

static const struct split_form FORMS[] = {
	{.name = "hermes",
	 THINK_TAGS,
	 .ways = {{.begin = "<tool_call>", .read = split_json_read_calls, .json = &HERMES_JSON},
		  {.begin = "<tool_call>", .read = tags_read_functions, .tags = &QWEN_TAGS},
		  {.begin = "<function=",
		   .read = tags_read_bare_function,
		   .tags = &QWEN_TAGS,
		   .line = true}}},
	{.name = "gpt-oss",
	 .taught = {CHANNEL_NAME},
	 .think_begin = CHANNEL_NAME "analysis" CHANNEL_MESSAGE,
	 .think_end = CHANNEL_END,
	 .channels = true},
	{.name = "gemma",
	 .taught = {"<|tool_call>"},
	 .think_begin = "<|channel>thought",
	 .think_end = "<channel|>",
	 .ways = {{.begin = "<|tool_call>",
		   .read = python_read_brace_call,
		   .python = &GEMMA_PYTHON}},
	 .silent = {"<|tool_response>"}},
	{.name = "kimi",
	 .taught = {"<|tool_call_argument_begin|>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<|tool_call_begin|>",
		   .read = split_json_read_named,
		   .open = "<|tool_calls_section_begin|>",
		   .close = "<|tool_calls_section_end|>",
		   .named = &KIMI_NAMED}}},
	{.name = "dsml",
	 .taught = {DSML},
	 THINK_TAGS,
	 .ways = {{.begin = "<" DSML "invoke name=\"",
		   .read = tags_read_function,
		   .open = "<" DSML "function_calls>",
		   .close = "</" DSML "function_calls>",
		   .tags = &FUNCTION_TAGS},
		  {.begin = "<" DSML "invoke name=\"",
		   .read = tags_read_function,
		   .open = "<" DSML "tool_calls>",
		   .close = "</" DSML "tool_calls>",
		   .tags = &TOOL_TAGS}}},
	{.name = "deepseek",
	 .taught = {"<" BAR "tool" GAP "calls" GAP "begin" BAR ">"},
	 THINK_TAGS,
	 .ways = {{.begin = "<" BAR "tool" GAP "call" GAP "begin" BAR ">",
		   .read = split_json_read_named,
		   .open = "<" BAR "tool" GAP "calls" GAP "begin" BAR ">",
		   .close = "<" BAR "tool" GAP "calls" GAP "end" BAR ">",
		   .named = &DEEPSEEK_NAMED}}},
	{.name = "mistral",
	 .taught = {"[TOOL_CALLS]", "[THINK]"},
	 .think_begin = "[THINK]",
	 .think_end = "[/THINK]",
	 .ways = {{.begin = "[TOOL_CALLS]", .read = split_json_read_calls, .json = &MISTRAL_JSON},
		  {.begin = "[TOOL_CALLS]",
		   .read = split_json_read_named,
		   .named = &MISTRAL_NAMED}}},
	{.name = "hunyuan",
	 .taught = {"<tool_sep>", "<answer>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<tool_calls>", .read = split_json_read_calls, .json = &CALLS_JSON},
		  {.begin = "<tool_call>",
		   .read = tags_read_pairs,
		   .open = "<tool_calls>",
		   .close = "</tool_calls>"}},
	 .silent = {"<answer>", "</answer>"}},
	{.name = "glm",
	 .taught = {"<arg_key>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<tool_call>", .read = tags_read_pairs}}},
	{.name = "minimax",
	 .taught = {"<minimax:tool_call>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<invoke name=\"",
		   .read = tags_read_function,
		   .open = "<minimax:tool_call>",
		   .close = "</minimax:tool_call>",
		   .tags = &MINIMAX_TAGS}}},
	{.name = "seed",
	 .taught = {"<seed:tool_call>"},
	 .think_begin = "<seed:think>",
	 .think_end = "</seed:think>",
	 .ways = {{.begin = "<seed:tool_call>", .read = tags_read_functions, .tags = &SEED_TAGS}}},
	{.name = "command",
	 .taught = {"<|START_ACTION|>"},
	 .think_begin = "<|START_THINKING|>",
	 .think_end = "<|END_THINKING|>",
	 .ways = {{.begin = "<|START_ACTION|>",
		   .read = split_json_read_calls,
		   .json = &COMMAND_JSON}},
	 .silent = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
	{.name = "command-r",
	 .taught = {"Action:\\n```json"},
	 .think_begin = "<|START_THINKING|>",
	 .think_end = "<|END_THINKING|>",
	 .ways = {{.begin = "Action:",
		   .read = split_json_read_calls,
		   .line = true,
		   .json = &ACTION_JSON}}},
	{.name = "jamba",
	 .taught = {"<tool_calls>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<tool_calls>", .read = split_json_read_calls, .json = &CALLS_JSON}}},
	{.name = "nemotron",
	 .taught = {"<TOOLCALL>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<TOOLCALL>", .read = split_json_read_calls, .json = &TOOLCALL_JSON}}},
	{.name = "apertus",
	 .taught = {"<|tools_prefix|>"},
	 .think_begin = "<|inner_prefix|>",
	 .think_end = "<|inner_suffix|>",
	 .ways = {{.begin = "<|tools_prefix|>",
		   .read = split_json_read_calls,
		   .json = &APERTUS_JSON}}},
	{.name = "minicpm",
	 .taught = {"<|thought_start|>"},
	 .think_begin = "<|thought_start|>",
	 .think_end = "<|thought_end|>",
	 .ways = {{.begin = "<|tool_call_start|>",
		   .read = python_read_calls,
		   .python = &START_PYTHON}}},
	{.name = "lfm",
	 .taught = {"<|tool_call_start|>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<|tool_call_start|>",
		   .read = python_read_calls,
		   .python = &START_PYTHON}}},
	{.name = "olmo",
	 .taught = {"<function_calls>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<function_calls>",
		   .read = python_read_calls,
		   .python = &OLMO_PYTHON}}},
	{.name = "llama-4",
	 .taught = {"<|python_start|>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<|python_end|>", .read = split_json_read_answer, .json = &BARE_JSON},
		  {.begin = "<|python_start|>", .read = python_read_calls, .python = &LLAMA_PYTHON},
		  {.begin = "{", .read = split_json_read_answer, .whole = true, .json = &BARE_JSON},
		  {.begin = "[",
		   .read = python_read_calls,
		   .whole = true,
		   .python = &LLAMA_PYTHON}},
	 .silent = {"<|python_start|>", "<|python_end|>"}},
	{.name = "llama",
	 .taught = {"<|python_tag|>", "{\"name\": function name, \"parameters\":"},
	 THINK_TAGS,
	 .ways = {{.begin = "<|python_tag|>", .read = split_json_read_answer, .json = &BARE_JSON},
		  {.begin = "<|python_tag|>", .read = python_read_calls, .python = &LLAMA_PYTHON},
		  {.begin = "{",
		   .read = split_json_read_answer,
		   .whole = true,
		   .json = &BARE_JSON}}},
	{.name = "granite",
	 .taught = {"<|tool_call|>", "<|/tool|>"},
	 THINK_TAGS,
	 .ways = {{.begin = "<|tool_call|>",
		   .read = split_json_read_calls,
		   .json = &GRANITE_JSON}}},
};
enum { FORMS_COUNT = sizeof FORMS / sizeof *FORMS };

const struct split_form *split_form_at(size_t i)
{
	return i < FORMS_COUNT ? &FORMS[i] : NULL;
}

const struct split_form *split_form_named(const char *name)
{
	for (size_t i = 0; name && i < FORMS_COUNT; i++)
		if (strcmp(FORMS[i].name, name) == 0)
			return &FORMS[i];
	return name ? NULL : &FORMS[0];
}

const struct split_form *split_form_of(const char *text, size_t n)
{
	for (size_t i = 0; i < FORMS_COUNT; i++)
		for (size_t k = 0; k < FORM_WORDS_MAX && FORMS[i].taught[k]; k++)
			if (memmem(text, n, FORMS[i].taught[k], strlen(FORMS[i].taught[k])))
				return &FORMS[i];
	return &FORMS[0];
}

/* ---- marks ---- */

/* Whether a token is a mark or part of one: a mark may be several tokens. */
static bool form_has_mark(const char *word, const char *token, size_t n)
{
	return word && n > 0 && memmem(word, strlen(word), token, n);
}

static bool form_way_marks(const struct call_way *w, const char *token, size_t n)
{
	const char *const words[] = {w->begin,
				     w->open,
				     w->close,
				     w->json ? w->json->end : NULL,
				     w->tags ? w->tags->function : NULL,
				     w->tags ? w->tags->function_end : NULL,
				     w->tags ? w->tags->parameter : NULL,
				     w->tags ? w->tags->parameter_end : NULL,
				     w->tags ? w->tags->end : NULL,
				     w->named ? w->named->id : NULL,
				     w->named ? w->named->separator : NULL,
				     w->named ? w->named->end : NULL,
				     w->python ? w->python->end : NULL,
				     w->python ? w->python->quote : NULL,
				     w->read == tags_read_pairs ? PAIRS_MARKS : NULL};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (form_has_mark(words[i], token, n))
			return true;
	return false;
}

bool split_form_marks(const struct split_form *f, const char *token, size_t n)
{
	static const char CHANNELS[] = CHANNEL_START CHANNEL_END CHANNEL_RETURN CHANNEL_CALL
		CHANNEL_NAME CHANNEL_CONSTRAIN CHANNEL_MESSAGE;
	bool marks = form_has_mark(f->think_begin, token, n) ||
		     form_has_mark(f->think_end, token, n) ||
		     (f->channels && form_has_mark(CHANNELS, token, n));
	for (size_t i = 0; i < FORM_WORDS_MAX; i++)
		marks |= form_has_mark(f->silent[i], token, n);
	for (size_t i = 0; i < FORM_WAYS_MAX && f->ways[i].begin; i++)
		marks |= form_way_marks(&f->ways[i], token, n);
	return marks;
}
