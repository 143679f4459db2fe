#include "engine/serve/param.h"
#include "engine/text/grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct params, field)
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct param table[] = {
	{"temperature", &kind_number, AT(temperature), 0, 100,
	 .what = "a number from 0 (always the likeliest token) to 100"},
	{"top_k", &kind_count, AT(top_k), 0, CONFIG_MAX_VOCABULARY,
	 .what = "a whole number, 0 for all tokens"},
	{"top_p", &kind_number, AT(top_p), 0, 1, .what = "a number from 0 to 1"},
	{"min_p", &kind_number, AT(min_p), 0, 1, .what = "a number from 0 to 1"},
	{"repetition_penalty", &kind_number, AT(repetition_penalty), .01, 100,
	 .what = "a number from 0.01 to 100, 1 for no penalty"},
	{"frequency_penalty", &kind_number, AT(frequency_penalty), -2, 2,
	 .what = "a number from -2 to 2, 0 for no penalty"},
	{"presence_penalty", &kind_number, AT(presence_penalty), -2, 2,
	 .what = "a number from -2 to 2, 0 for no penalty"},
	{"logit_bias", &kind_bias, AT(logit_bias), .what = "lines of a token's id and a number"},
	{"logprobs", &kind_count, AT(logprobs), 0, SESSION_LOGPROBS,
	 .what = "a whole number from 0 (none) to 20"},
	{"max_tokens", &kind_count, AT(max_tokens), 0, CONFIG_MAX_POSITIONS,
	 .what = "a whole number, 0 for as many as the context has room for"},
	{"seed", &kind_seed, AT(seed), 0, 0x1p64,
	 .what = "a whole number below 2^64, or the word random"},
	{"format", &kind_word, AT(format), .what = "text, json, schema or regex",
	 .words = WORDS("text", "json", "schema", "regex")},
	{"grammar", &kind_text, AT(grammar), .what = "a JSON schema or a regex"},
	{"tool_choice", &kind_tool, AT(tool_choice),
	 .what = "auto, none, required, or the name of a tool, without blanks"},
	{"stop", &kind_text, AT(stop), .what = "at most 64 lines of text"},
	{"system", &kind_text, AT(system), .what = "UTF-8 text without NUL bytes"},
	{"chat", &kind_chat, AT(chat), .what = "on or off"},
	{"thinking", &kind_word, AT(thinking), .what = "default, on, off, low, medium or high",
	 .words = WORDS("default", "on", "off", "low", "medium", "high")},
	{"date", &kind_date, AT(date),
	 .what = "a date such as 2026-01-02, perhaps with a time such as 03:04:05 behind it, or "
		 "auto"},
	{"on_full", &kind_word, AT(on_full), .what = "error or drop-oldest",
	 .words = WORDS("error", "drop-oldest")},
	{"stream", &kind_switch, AT(stream), .what = "on or off"},
	{"draft", &kind_draft, AT(draft), 1, SESSION_DRAFTS,
	 .what = "auto, off, mtp, lookup, or one of these two and how many tokens at once, 1 to 4"},
	{"experts_per_token", &kind_count, AT(experts_per_token), 0, CONFIG_MAX_EXPERTS,
	 .what = "a whole number up to the model's own (info/experts_per_token), 0 for that",
	 .routed = true},
	{"drop_missing", &kind_number, AT(drop_missing), 0, 1,
	 .what = "a weight from 0 (no expert is dropped) to 1, or 0 in a model without experts",
	 .routed = true},
};
enum { PARAMS = sizeof table / sizeof *table };

size_t params_count(void)
{
	return PARAMS;
}

const char *params_name(size_t i)
{
	return table[i].name;
}

bool params_is_text(size_t i)
{
	return table[i].kind == &kind_text || table[i].kind == &kind_bias;
}

/* Without the line's end that a shell's echo writes. */
static size_t without_end(const char *value, size_t length)
{
	return length && value[length - 1] == '\n' ? length - 1 : length;
}

bool params_is_auto(size_t i, const char *value, size_t length)
{
	static const char word[] = "auto";
	return !params_is_text(i) && without_end(value, length) == strlen(word) &&
	       !memcmp(value, word, strlen(word));
}

int params_set(struct params *p, size_t i, const char *value, size_t length, struct err *e)
{
	const struct param *t = &table[i];
	length = without_end(value, length);
	if (memchr(value, 0, length))
		return param_refuse(t, EINVAL, value, e);
	if (length > PARAMS_MAX_TEXT)
		return err_set(e, EFBIG, "params/%s: %zu bytes are more than the %d that it takes",
			       t->name, length, PARAMS_MAX_TEXT);
	char *copy = strndup(value, length);
	if (!copy)
		return err_set(e, ENOMEM, "params/%s: out of memory", t->name);
	int result = t->kind->set(p, t, copy, e);
	free(copy);
	return result;
}

int params_check(const struct params *p, size_t i, const char *value, size_t length, struct err *e)
{
	static const enum grammar_form forms[] = {
		[FORMAT_SCHEMA] = FORM_SCHEMA, [FORMAT_REGEX] = FORM_REGEX};
	struct err why = {0};
	if (table[i].offset != AT(grammar) || p->format < FORMAT_SCHEMA)
		return 0;
	length = without_end(value, length);
	if (!length || !grammar_check(forms[p->format], value, length, &why))
		return 0;
	return err_set(e, why.code == ENOMEM ? ENOMEM : EINVAL,
		       "params/grammar (params/format is %s): %s",
		       p->format == FORMAT_SCHEMA ? "schema" : "regex", why.text);
}

char *params_get(const struct params *p, size_t i, bool has_chat)
{
	if (table[i].kind == &kind_chat && p->chat == CHAT_UNSET)
		return strdup(has_chat ? "on" : "off");
	return params_get_set(p, i);
}

char *params_get_set(const struct params *p, size_t i)
{
	return table[i].kind->get(p, &table[i]);
}

int params_reset(struct params *p, size_t i, const struct config *c, struct err *e)
{
	const struct param *t = &table[i];
	struct params defaults;
	int failed = params_default(&defaults, c, e);
	if (failed)
		return failed;
	memcpy(param_place(p, t), param_place(&defaults, t), t->kind->size);
	if (t->kind == &kind_seed)
		p->seed_random = defaults.seed_random;
	params_free(&defaults);
	return 0;
}
