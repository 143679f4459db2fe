#include "engine/session/param_kinds.h"
#include "engine/grammar/grammar.h"
#include "engine/json/text_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct params, field)
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

const char *const session_priority_words[] = {
	[SESSION_LOW] = "low", [SESSION_NORMAL] = "normal", [SESSION_HIGH] = "high", NULL};

static const struct param table[] = {
	{"temperature", &kind_number, AT(temperature), 0, 100,
	 .label = "Temperature", .common = true,
	 .what = "a number from 0 (always the likeliest token) to 100",
	 .begins = "the model's own, else 0",
	 .about = "how random the next token is; 0: always the likeliest"},
	{"top_k", &kind_count, AT(top_k), 0, CONFIG_MAX_VOCABULARY,
	 .label = "Top k", .common = true,
	 .what = "a whole number, 0 for all tokens", .begins = "the model's own, else 0",
	 .about = "sample from this many of the likeliest tokens; 0: from all"},
	{"top_p", &kind_number, AT(top_p), 0, 1,
	 .label = "Top p", .common = true,
	 .what = "a number from 0 to 1",
	 .begins = "the model's own, else 1",
	 .about = "sample from the likeliest tokens that together have this probability"},
	{"min_p", &kind_number, AT(min_p), 0, 1,
	 .label = "Min p", .common = true,
	 .what = "a number from 0 to 1",
	 .begins = "the model's own, else 0",
	 .about = "sample from tokens with at least this fraction of the likeliest one's "
		  "probability"},
	{"repetition_penalty", &kind_number, AT(repetition_penalty), .01, 100,
	 .label = "Repetition penalty",
	 .what = "a number from 0.01 to 100, 1 for no penalty", .begins = "the model's own, else 1",
	 .about = "makes tokens that are in the conversation less likely"},
	{"frequency_penalty", &kind_number, AT(frequency_penalty), -2, 2,
	 .label = "Frequency penalty",
	 .what = "a number from -2 to 2, 0 for no penalty", .begins = "0",
	 .about = "makes tokens of the answer less likely, for each time they occur"},
	{"presence_penalty", &kind_number, AT(presence_penalty), -2, 2,
	 .label = "Presence penalty",
	 .what = "a number from -2 to 2, 0 for no penalty", .begins = "0",
	 .about = "makes tokens of the answer less likely, once"},
	{"logit_bias", &kind_bias, AT(logit_bias),
	 .label = "Logit bias",
	 .what = "lines of a token id and a number",
	 .begins = "empty", .about = "numbers to add to the logits of single tokens"},
	{"logprobs", &kind_count, AT(logprobs), 0, SESSION_LOGPROBS,
	 .label = "Log-probabilities",
	 .what = "a whole number from 0 (none) to 20", .begins = "0",
	 .about = "how many alternatives logprobs.jsonl lists for each token"},
	{"max_tokens", &kind_count, AT(max_tokens), 0, CONFIG_MAX_POSITIONS,
	 .label = "Longest answer", .common = true,
	 .what = "a whole number, 0 for as many as the context has room for",
	 .begins = "the model's own, else 0", .about = "the most tokens of an answer"},
	{"seed", &kind_seed, AT(seed), 0, 0x1p64,
	 .label = "Seed", .common = true,
	 .words = WORDS("random"),
	 .what = "a whole number below 2^64, or the word random",
	 .begins = "the model's own, else random",
	 .about = "the same seed gives the same text; random: a new seed for each turn"},
	{"format", &kind_word, AT(format),
	 .label = "Form of answers",
	 .what = "text, json, choices, schema or regex",
	 .words = WORDS("text", "json", "choices", "schema", "regex"), .begins = "text",
	 .about = "the form that an answer must have"},
	{"grammar", &kind_text, AT(grammar),
	 .label = "Schema or regex",
	 .what = "a JSON schema or a regex", .begins = "empty",
	 .about = "the source for format: write the format first"},
	{"tool_choice", &kind_label, AT(tool_choice),
	 .label = "Tool choice",
	 .words = WORDS("auto", "none", "required"),
	 .what = "auto, none, required, or the name of a tool, without blanks", .begins = "auto",
	 .about = "whether an answer may or must call tools, or which one"},
	{"stop", &kind_text, AT(stop),
	 .label = "Stop texts",
	 .what = "at most 64 lines of text",
	 .begins = "the model's own, else empty",
	 .about = "texts that end an answer, one per line"},
	{"stop_repetition", &kind_switch, AT(stop_repetition),
	 .label = "Stop repetition",
	 .words = WORDS("on", "off"),
	 .what = "on or off", .begins = "on",
	 .about = "on: an answer ends when it has repeated itself for 256 tokens"},
	{"system", &kind_text, AT(system),
	 .label = "System message", .common = true,
	 .what = "UTF-8 text without NUL bytes",
	 .begins = "the model's own, else empty",
	 .same_text = true,
	 .about = "a system message, before the conversation"},
	{"chat", &kind_chat, AT(chat),
	 .label = "Conversation",
	 .words = WORDS("on", "off"),
	 .what = "on or off", .begins = "what the model supports",
	 .about = "on: a prompt is a turn of a conversation; off: the model continues the prompt"},
	{"thinking", &kind_word, AT(thinking),
	 .label = "Thinking", .common = true,
	 .what = "default, on, off, low, medium or high",
	 .words = WORDS("default", "on", "off", "low", "medium", "high"), .begins = "default",
	 .about = "whether, or how much, the model thinks before it answers"},
	{"date", &kind_date, AT(date),
	 .label = "Date",
	 .words = WORDS("auto"),
	 .what = "a date such as 2026-01-02, optionally followed by a time such as 03:04:05, or "
		 "auto",
	 .begins = "auto",
	 .same_text = true,
	 .about = "the clock that templates read; auto: the time of the conversation's first turn"},
	{"on_full", &kind_word, AT(on_full),
	 .label = "When the context is full",
	 .what = "auto, error or drop-oldest",
	 .words = WORDS("auto", "error", "drop-oldest"), .begins = "auto",
	 .same_text = true,
	 .about = "what happens when a prompt and its conversation exceed the context"},
	{"priority", &kind_word, AT(priority),
	 .label = "Priority",
	 .what = "low, normal or high",
	 .words = session_priority_words, .begins = "normal",
	 .same_text = true,
	 .about = "which turns come first, and which wait, while several sessions work"},
	{"stream", &kind_switch, AT(stream),
	 .label = "Stream",
	 .words = WORDS("on", "off"),
	 .what = "on or off", .begins = "on",
	 .same_text = true,
	 .about = "on: an answer can be read as it is generated; off: only when it is complete"},
	{"draft", &kind_draft, AT(draft), 1, SESSION_DRAFTS,
	 .label = "Speculative decoding",
	 .words = WORDS("auto", "off", "lookup", "mtp"),
	 .what = "auto, off, mtp or lookup, the last two optionally followed by the number of "
		 "tokens at once, 1 to 4",
	 .begins = "auto",
	 .same_text = true,
	 .about = "speculative decoding, used where it is faster; never changes the text"},
	{"share_with", &kind_label, AT(share_with),
	 .label = "Share with",
	 .words = WORDS("auto"),
	 .what = "a word of at most 127 bytes, or auto",
	 .begins = "auto",
	 .same_text = true,
	 .about = "sessions with the same word share what they have computed; "
		  "auto: sessions without a word share"},
	{"experts_per_token", &kind_count, AT(experts_per_token), 0, CONFIG_MAX_EXPERTS,
	 .label = "Experts per token",
	 .what = "a whole number up to the model's own (info/experts_per_token), 0 for that",
	 .routed = true, .begins = "0",
	 .about = "use fewer experts than the router picks; loses quality"},
	{"drop_missing", &kind_number, AT(drop_missing), 0, 1,
	 .label = "Drop missing experts",
	 .what = "a weight from 0 (no expert is dropped) to 1, or 0 in a model without experts",
	 .routed = true, .begins = "0",
	 .about = "skip experts that are not in memory and have less weight; loses quality"},
	{"substitute", &kind_substitute, AT(substitute),
	 .label = "Substitute missing experts",
	 .words = WORDS("off"),
	 .what = "KEEP,WINDOW, ranks from 0 up to the model's experts (1,16), or off, the only value of a "
		 "model without experts",
	 .begins = "off",
	 .about = "a missing expert, except the first KEEP, is replaced by one in memory, of the "
		  "first WINDOW; loses quality"},
	{"experts_bias", &kind_steer, AT(experts_bias),
	 .label = "Router bias",
	 .what = "lines of an expert (03/017, a pattern) and a number, or off", .begins = "empty",
	 .about = "numbers to add to the router's scores of single experts; changes the model"},
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

const struct param *param_row(size_t i)
{
	return &table[i];
}

size_t params_find(const char *name)
{
	size_t i = 0;
	while (i < PARAMS && strcmp(params_name(i), name) != 0)
		i++;
	return i;
}

struct param_words params_words(size_t i)
{
	return (struct param_words){table[i].what, table[i].begins, table[i].about};
}

bool params_changes_text(size_t i)
{
	return !table[i].same_text;
}

bool params_is_text(size_t i)
{
	return table[i].kind == &kind_text || table[i].kind == &kind_bias ||
	       table[i].kind == &kind_steer;
}

/* The length without the newline that a shell's echo writes. */
static size_t params_without_end(const char *value, size_t length)
{
	return length && value[length - 1] == '\n' ? length - 1 : length;
}

bool params_is_auto(size_t i, const char *value, size_t length)
{
	static const char word[] = "auto";
	return !params_is_text(i) && params_without_end(value, length) == strlen(word) &&
	       !memcmp(value, word, strlen(word));
}

/* Sets the error's reason to the part of its sentence after the param's name. */
static void params_note_reason(const struct param *t, struct err *e)
{
	char name[64];
	int n = snprintf(name, sizeof name, "params/%s: ", t->name);
	if (e && !strncmp(e->text, name, (size_t)n))
		err_reason(e, e->text + n);
}

static int params_set_value(struct params *p, const struct param *t, const char *value,
			    size_t length, struct err *e)
{
	length = params_without_end(value, length);
	if (memchr(value, 0, length))
		return param_refuse(t, EINVAL, value, e);
	if (length > PARAMS_MAX_TEXT)
		return err_set(e, EFBIG, "params/%s: %zu bytes; at most %d are allowed", t->name,
			       length, PARAMS_MAX_TEXT);
	char *copy = strndup(value, length);
	if (!copy)
		return err_set(e, ENOMEM, "params/%s: out of memory", t->name);
	int result = t->kind->set(p, t, copy, e);
	free(copy);
	return result;
}

int params_set(struct params *p, size_t i, const char *value, size_t length, struct err *e)
{
	int result = params_set_value(p, &table[i], value, length, e);
	if (result)
		params_note_reason(&table[i], e);
	return result;
}

bool params_takes_long(size_t i)
{
	return table[i].offset == AT(grammar) || table[i].offset == AT(format);
}

int params_check(enum format_mode format, size_t i, const char *value, size_t length, struct err *e)
{
	static const enum grammar_form forms[] = {
		[FORMAT_SCHEMA] = FORM_SCHEMA, [FORMAT_REGEX] = FORM_REGEX};
	struct err why = {0};
	if (table[i].offset != AT(grammar) || format < FORMAT_SCHEMA)
		return 0;
	length = params_without_end(value, length);
	if (!length || !grammar_check(forms[format], value, length, &why))
		return 0;
	int code = err_set(e, why.code == ENOMEM ? ENOMEM : EINVAL,
			   "params/grammar (params/format is %s): %s",
			   format == FORMAT_SCHEMA ? "schema" : "regex", why.text);
	err_reason(e, why.text);
	return code;
}

char *params_get(const struct params *p, size_t i, bool has_chat)
{
	if (table[i].kind == &kind_chat && p->chat == CHAT_UNSET)
		return strdup(has_chat ? "on" : "off");
	return params_get_unresolved(p, i);
}

char *params_get_unresolved(const struct params *p, size_t i)
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

/* ---- all params together ---- */

int params_copy(struct params *to, const struct params *from, struct err *e)
{
	*to = *from;
	bool copied = bias_copy(&to->logit_bias, &from->logit_bias);
	copied &= steer_copy(&to->experts_bias, &from->experts_bias);
	to->system = strdup(from->system);
	to->stop = strdup(from->stop);
	to->grammar = strdup(from->grammar);
	if (to->system && to->stop && to->grammar && copied)
		return 0;
	params_free(to);
	return err_set(e, ENOMEM, "out of memory for a session's params");
}

int params_default(struct params *p, const struct config *c, struct err *e)
{
	static char empty[1];
	const struct generation *g = &c->generation;
	const struct params defaults = {
		.temperature = g->temperature,
		.top_p = g->top_p,
		.top_k = g->top_k,
		.min_p = g->min_p,
		.repetition_penalty = g->repetition_penalty,
		.max_tokens = g->max_new_tokens,
		.seed = g->seed,
		.seed_random = !g->seeded,
		.priority = SESSION_NORMAL,
		.stream = true,
		.stop_repetition = true,
		.model = c,
		.model_experts = c->experts_per_token,
		.model_vocabulary = c->vocabulary,
		.system = g->system ? (char *)(uintptr_t)g->system : empty, /* copied below */
		.stop = g->stop ? (char *)(uintptr_t)g->stop : empty,
		.grammar = empty,
	};
	return params_copy(p, &defaults, e);
}

void params_free(struct params *p)
{
	free(p->system);
	free(p->stop);
	free(p->grammar);
	bias_free(&p->logit_bias);
	steer_free(&p->experts_bias);
	p->system = p->stop = p->grammar = NULL;
}

struct losses params_losses(const struct params *p)
{
	bool fewer = p->experts_per_token < p->model_experts;
	return (struct losses){
		.experts_per_token = fewer ? (uint32_t)p->experts_per_token : 0,
		.drop_missing = (float)p->drop_missing,
		.substitute_keep = p->substitute.keep,
		.substitute_window = p->substitute.window,
		.steered = p->experts_bias.sum,
		.steering = p->experts_bias.sum ? &p->experts_bias.table : NULL,
	};
}

void params_lossy(const struct params *p, char *text, size_t size)
{
	struct losses losses = params_losses(p);
	char number[NUMBER_SIZE];
	struct text_out all = {0};
	char part[2 * NUMBER_SIZE];
	if (losses.experts_per_token) {
		(void)snprintf(part, sizeof part, " experts_per_token=%" PRIu32,
			       losses.experts_per_token);
		text_out_string(&all, part);
	}
	if (losses.drop_missing > 0) {
		(void)snprintf(part, sizeof part, " drop_missing=%s",
			       param_print_number(number, p->drop_missing));
		text_out_string(&all, part);
	}
	if (losses.substitute_window) {
		(void)snprintf(part, sizeof part, " substitute=%" PRIu32 ",%" PRIu32,
			       losses.substitute_keep, losses.substitute_window);
		text_out_string(&all, part);
	}
	if (losses.steered) {
		(void)snprintf(part, sizeof part, " experts_bias=%" PRIu32, p->experts_bias.count);
		text_out_string(&all, part);
	}
	(void)snprintf(text, size, "%.*s", (int)(all.n ? all.n - 1 : 0), all.n ? all.bytes + 1 : "");
	text_out_free(&all);
}
