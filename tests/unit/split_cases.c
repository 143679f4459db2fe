#include "tests/unit/split_cases.h"

#include "engine/answer/split_forms.h"
#include "tests/unit/tokenizer_help.h"

#include <string.h>

const char FORM_TOOLS[] =
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

const struct form_case FORM_CASES[] = {
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
	/* Python's calls and others */
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
	/* thoughts without an end */
	{"kimi", "<think>t\n" KIMI_BEGIN KIMI_CALL "g:0" KIMI_SEP "{}" KIMI_CALL_END KIMI_END, "t",
	 "", "[[\"g\", {}, \"g:0\"]]"},
	{.form = NULL},
};

/* For each form, text that begins like a call but is content. */
const char *const FORM_BROKEN[][2] = {
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
	{NULL},
};

struct json *parsed(const char *text)
{
	struct json *v;
	struct err e = {0};
	must(json_parse_text(&v, text, strlen(text), text, &e), &e);
	return v;
}

/* The marks of one way to begin calls. */
static size_t way_marks(const struct call_way *w, const char **marks)
{
	const char *const own[] = {w->begin,
				   w->open,
				   w->close,
				   w->json ? w->json->end : NULL,
				   w->tags ? w->tags->function : NULL,
				   w->tags ? w->tags->function_end : NULL,
				   w->tags ? w->tags->parameter : NULL,
				   w->tags ? w->tags->parameter_end : NULL,
				   w->tags ? w->tags->end : NULL,
				   w->named ? w->named->separator : NULL,
				   w->named ? w->named->end : NULL,
				   w->named ? w->named->id : NULL,
				   w->python ? w->python->end : NULL,
				   w->python ? w->python->quote : NULL};
	size_t n = 0;
	for (size_t k = 0; k < sizeof own / sizeof *own; k++)
		if (own[k])
			marks[n++] = own[k];
	return n;
}

static bool has_pairs(const struct split_form *f)
{
	bool has = false;
	for (size_t i = 0; i < FORM_WAYS_MAX && f->ways[i].begin; i++)
		has |= f->ways[i].read == tags_read_pairs;
	return has;
}

size_t form_marks(const struct split_form *f, const char **marks)
{
	static const char *const CHANNELS[] = {CHANNEL_START,  CHANNEL_END,  CHANNEL_RETURN,
					       CHANNEL_CALL,   CHANNEL_NAME, CHANNEL_CONSTRAIN,
					       CHANNEL_MESSAGE};
	static const char *const PAIRS[] = {PAIRS_KEY,	     PAIRS_KEY_END, PAIRS_VALUE,
					    PAIRS_VALUE_END, PAIRS_END,	    PAIRS_SEPARATOR};
	size_t n = 0;
	marks[n++] = f->think_begin;
	marks[n++] = f->think_end;
	for (size_t i = 0; i < FORM_WORDS_MAX && f->silent[i]; i++)
		marks[n++] = f->silent[i];
	for (size_t i = 0; i < FORM_WAYS_MAX && f->ways[i].begin; i++)
		n += way_marks(&f->ways[i], marks + n);
	for (size_t i = 0; has_pairs(f) && i < sizeof PAIRS / sizeof *PAIRS; i++)
		marks[n++] = PAIRS[i];
	for (size_t i = 0; f->channels && i < sizeof CHANNELS / sizeof *CHANNELS; i++)
		marks[n++] = CHANNELS[i];
	return n;
}
