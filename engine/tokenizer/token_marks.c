#include "engine/tokenizer/token_marks.h"

#include <string.h>

/* Of answers: what begins and ends thinking, calls and their arguments, by family. */
static const char *const MARKS[] = {
	"<think>",
	"</think>",
	"<tool_call>",
	"</tool_call>",
	"<arg_key>", /* GLM */
	"</arg_key>",
	"<arg_value>",
	"</arg_value>",
	"<minimax:tool_call>",
	"</minimax:tool_call>",
	"<seed:think>",
	"</seed:think>",
	"<seed:tool_call>",
	"</seed:tool_call>",
	"<tool_calls>", /* Jamba */
	"</tool_calls>",
	"<TOOLCALL>", /* Nemotron */
	"</TOOLCALL>",
	"[THINK]", /* Mistral */
	"[/THINK]",
	"[TOOL_CALLS]",
	"[ARGS]",
	"[CALL_ID]",
	"<|tool_call|>", /* Granite, Phi */
	"<|/tool_call|>",
	"<|tool_call>", /* Gemma */
	"<tool_call|>",
	"<|tool_call_start|>", /* LFM */
	"<|tool_call_end|>",
	"<|tool_calls_section_begin|>", /* Kimi */
	"<|tool_calls_section_end|>",
	"<|tool_call_begin|>",
	"<|tool_call_argument_begin|>",
	"<|tool_call_end|>",
	"<\uff5ctool\u2581calls\u2581begin\uff5c>", /* DeepSeek */
	"<\uff5ctool\u2581calls\u2581end\uff5c>",
	"<\uff5ctool\u2581call\u2581begin\uff5c>",
	"<\uff5ctool\u2581call\u2581end\uff5c>",
	"<\uff5ctool\u2581sep\uff5c>",
	"<|START_THINKING|>", /* Command */
	"<|END_THINKING|>",
	"<|START_ACTION|>",
	"<|END_ACTION|>",
	"<|python_tag|>", /* Llama */
	"<|python_start|>",
	"<|python_end|>",
	"<|channel>", /* Gemma */
	"<channel|>",
	"<|\"|>",
	"\uff5cDSML\uff5c", /* DeepSeek */
	"<tool_sep>",	    /* Hunyuan */
	"<|tools_prefix|>", /* Apertus */
	"<|tools_suffix|>",
	"<|inner_prefix|>",
	"<|inner_suffix|>",
	"<|thought_start|>", /* MiniCPM */
	"<|thought_end|>",
	"<function_calls>", /* OLMo */
	"</function_calls>",
};

/* Of prompts, though no file calls them special. */
static const char *const CONTROLS[] = {"<tool_response>", "</tool_response>", "<tools>",
				       "</tools>",	  "[INST]",	      "[/INST]"};

static bool is_one_of(const char *const *list, size_t count, const char *text, size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i]) == n && memcmp(list[i], text, n) == 0)
			return true;
	return false;
}

static bool begins(const char *text, size_t n, const char *with)
{
	size_t length = strlen(with);
	return n >= length && memcmp(text, with, length) == 0;
}

static bool ends(const char *text, size_t n, const char *with)
{
	size_t length = strlen(with);
	return n >= length && memcmp(text + n - length, with, length) == 0;
}

/* <|NAME|>, with the bars that families use. */
static bool has_bars(const char *text, size_t n)
{
	return (begins(text, n, "<|") && ends(text, n, ">")) ||
	       (begins(text, n, "<") && ends(text, n, "|>")) ||
	       (begins(text, n, "<\uff5c") && ends(text, n, "\uff5c>"));
}

enum token_right token_wants(const char *text, size_t n, bool special)
{
	if (is_one_of(MARKS, sizeof MARKS / sizeof *MARKS, text, n))
		return MAY_MARKS;
	bool control = special || has_bars(text, n) ||
		       is_one_of(CONTROLS, sizeof CONTROLS / sizeof *CONTROLS, text, n);
	return control ? MAY_ALL : MAY_TEXT;
}
