#include "engine/serve/params.h"
#include "engine/session.h"
#include "engine/text/stream.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, COUNT, SEED, CHAT, SWITCH, WORD, DATE, DRAFT, BIAS, TEXT };

static const struct param {
	const char *name;
	enum kind kind;
	size_t offset; /* in struct params */
	double least, most;
	const char *what; /* for messages */
	bool routed;	  /* no more than the model's experts per token either: 0 in a dense one */
} table[] = {
	{"temperature", NUMBER, offsetof(struct params, temperature), 0, 100,
	 "a number from 0 (always the likeliest token) to 100", false},
	{"top_k", COUNT, offsetof(struct params, top_k), 0, CONFIG_MAX_VOCABULARY,
	 "a whole number, 0 for all tokens", false},
	{"top_p", NUMBER, offsetof(struct params, top_p), 0, 1, "a number from 0 to 1", false},
	{"min_p", NUMBER, offsetof(struct params, min_p), 0, 1, "a number from 0 to 1", false},
	{"repetition_penalty", NUMBER, offsetof(struct params, repetition_penalty), .01, 100,
	 "a number from 0.01 to 100, 1 for no penalty", false},
	{"frequency_penalty", NUMBER, offsetof(struct params, frequency_penalty), -2, 2,
	 "a number from -2 to 2, 0 for no penalty", false},
	{"presence_penalty", NUMBER, offsetof(struct params, presence_penalty), -2, 2,
	 "a number from -2 to 2, 0 for no penalty", false},
	{"logit_bias", BIAS, offsetof(struct params, logit_bias), 0, 0,
	 "lines of a token's id and a number", false},
	{"logprobs", COUNT, offsetof(struct params, logprobs), 0, SESSION_LOGPROBS,
	 "a whole number from 0 (none) to 20", false},
	{"max_tokens", COUNT, offsetof(struct params, max_tokens), 0, CONFIG_MAX_POSITIONS,
	 "a whole number, 0 for as many as the context has room for", false},
	{"seed", SEED, offsetof(struct params, seed), 0, 0x1p64,
	 "a whole number below 2^64, or the word random", false},
	{"stop", TEXT, offsetof(struct params, stop), 0, 0, "at most 64 lines of text", false},
	{"system", TEXT, offsetof(struct params, system), 0, 0, "UTF-8 text without NUL bytes",
	 false},
	{"chat", CHAT, offsetof(struct params, chat), 0, 0, "on or off", false},
	{"thinking", WORD, offsetof(struct params, thinking), 0, 0,
	 "default, on, off, low, medium or high", false},
	{"date", DATE, offsetof(struct params, date), 0, 0,
	 "a date such as 2026-01-02, perhaps with a time such as 03:04:05 behind it, or auto",
	 false},
	{"on_full", WORD, offsetof(struct params, on_full), 0, 0, "error or drop-oldest", false},
	{"stream", SWITCH, offsetof(struct params, stream), 0, 0, "on or off", false},
	{"draft", DRAFT, offsetof(struct params, draft), 1, SESSION_DRAFTS,
	 "auto, off, mtp, lookup, or one of these two and how many tokens at once, 1 to 4", false},
	{"experts_per_token", COUNT, offsetof(struct params, experts_per_token), 0,
	 CONFIG_MAX_EXPERTS,
	 "a whole number up to the model's own (info/experts_per_token), 0 for that", true},
	{"drop_missing", NUMBER, offsetof(struct params, drop_missing), 0, 1,
	 "a weight from 0 (no expert is dropped) to 1, or 0 in a model without experts", true},
};
enum { PARAMS = sizeof table / sizeof *table };

/* Of a WORD: an enumeration's, in its order. */
static const struct words {
	size_t offset;
	const char *words[8];
} all_words[] = {
	{offsetof(struct params, thinking), {"default", "on", "off", "low", "medium", "high"}},
	{offsetof(struct params, on_full), {"error", "drop-oldest"}},
};

static const char *const *words_of(const struct param *t)
{
	const struct words *w = all_words;
	while (w->offset != t->offset)
		w++;
	return w->words;
}

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
	return table[i].kind == TEXT || table[i].kind == BIAS;
}

static void *place(const struct params *p, size_t i)
{
	return (char *)p + table[i].offset;
}

static char **text_of(const struct params *p, size_t i)
{
	return place(p, i);
}

/* ---- writing ---- */

static double most_of(const struct params *p, const struct param *t)
{
	return t->routed && p->model_experts < t->most ? p->model_experts : t->most;
}

static int refuse(const struct param *t, int code, const char *value, struct err *e)
{
	return err_set(e, code, "params/%s: \"%.40s\" is not %s", t->name, value, t->what);
}

static int set_number(struct params *p, size_t i, const char *value, struct err *e)
{
	char *end;
	const struct param *t = &table[i];
	double number = strtod(value, &end);
	/* strtod would take spaces, hexadecimal numbers and words as well. */
	bool decimal = !value[strspn(value, "0123456789.eE+-")];
	if (end == value || *end || !decimal)
		return refuse(t, EINVAL, value, e);
	if (number < t->least || number > most_of(p, t))
		return refuse(t, ERANGE, value, e);
	*(double *)place(p, i) = number;
	return 0;
}

static int set_count(struct params *p, size_t i, const char *value, struct err *e)
{
	char *end;
	const struct param *t = &table[i];
	errno = 0;
	uint64_t number = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end)
		return refuse(t, EINVAL, value, e);
	if (errno || (double)number > most_of(p, t))
		return refuse(t, ERANGE, value, e);
	*(uint64_t *)place(p, i) = number;
	return 0;
}

static int set_seed(struct params *p, size_t i, const char *value, struct err *e)
{
	bool random = !strcmp(value, "random");
	int failed = random ? 0 : set_count(p, i, value, e);
	if (!failed)
		p->seed_random = random;
	return failed;
}

static int set_switch(bool *to, const struct param *t, const char *value, struct err *e)
{
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return refuse(t, EINVAL, value, e);
	*to = !strcmp(value, "on");
	return 0;
}

static int set_chat(enum chat_mode *to, const struct param *t, const char *value, struct err *e)
{
	bool on = false;
	int failed = set_switch(&on, t, value, e);
	if (!failed)
		*to = on ? CHAT_ON : CHAT_OFF;
	return failed;
}

static int set_word(void *to, const struct param *t, const char *value, struct err *e)
{
	const char *const *words = words_of(t);
	for (int i = 0; words[i]; i++)
		if (!strcmp(value, words[i])) {
			memcpy(to, &i, sizeof i);
			return 0;
		}
	return refuse(t, EINVAL, value, e);
}

/* Only dates that there are: what timegm would make another of is refused. */
static bool parse_date(const char *text, struct tm *clock)
{
	static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%d %H:%M:%S"};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		char again[PARAMS_DATE];
		*clock = (struct tm){0};
		const char *end = strptime(text, forms[i], clock);
		if (!end || *end || timegm(clock) == -1)
			continue;
		size_t n = strftime(again, sizeof again, forms[i], clock);
		if (n && !strcmp(again, text))
			return true;
	}
	return false;
}

static int set_date(char *to, const struct param *t, const char *value, struct err *e)
{
	struct tm clock;
	if (!parse_date(value, &clock))
		return refuse(t, EINVAL, value, e);
	(void)snprintf(to, PARAMS_DATE, "%s", value);
	return 0;
}

bool params_clock(const struct params *p, struct tm *clock)
{
	return *p->date && parse_date(p->date, clock);
}

/* What drafts, and how many tokens at once unless a number follows. A draft layer is trained to see
 * one token ahead; what was said before goes on. */
static const struct draft_word {
	const char *word;
	enum draft_mode mode;
	enum draft_kind kind;
	uint32_t depth; /* 0: no number may follow */
} draft_words[] = {
	{"auto", DRAFT_AUTO, 0, 0},
	{"off", DRAFT_OFF, 0, 0},
	{"mtp", DRAFT_ALWAYS, DRAFT_MTP, 1},
	{"lookup", DRAFT_ALWAYS, DRAFT_LOOKUP, SESSION_DRAFTS},
};
enum { DRAFT_WORDS = sizeof draft_words / sizeof *draft_words };

/* The word's row; *rest is what follows it: nothing, or digits after a space. NULL: none such. */
static const struct draft_word *find_draft(const char *value, const char **rest)
{
	for (int i = 0; i < DRAFT_WORDS; i++) {
		const struct draft_word *w = &draft_words[i];
		size_t length = strlen(w->word);
		*rest = value + length;
		if (strncmp(value, w->word, length) != 0)
			continue;
		if (!**rest)
			return w;
		if (w->depth && *(*rest)++ == ' ' && **rest &&
		    !(*rest)[strspn(*rest, "0123456789")])
			return w;
	}
	return NULL;
}

static int set_draft(struct params *p, const struct param *t, const char *value, struct err *e)
{
	const char *digits;
	const struct draft_word *w = find_draft(value, &digits);
	if (!w)
		return refuse(t, EINVAL, value, e);
	double depth = *digits ? strtod(digits, NULL) : w->depth;
	if (*digits && (depth < t->least || depth > t->most))
		return refuse(t, ERANGE, value, e);
	if (w->mode == DRAFT_ALWAYS && w->kind == DRAFT_MTP && !p->model_drafts)
		return err_set(e, EINVAL,
			       "params/%s: \"%.40s\": this model has no draft layer of its own; "
			       "auto, off and lookup are possible",
			       t->name, value);
	p->draft = w->mode;
	p->draft_kind = w->kind;
	p->draft_depth = (uint32_t)depth;
	return 0;
}

static int set_text(char **to, const struct param *t, const char *value, struct err *e)
{
	size_t lines = 1, length = strlen(value), valid = utf8_valid_length(value, length);
	if (valid < length)
		return err_set(e, EINVAL, "params/%s: byte %zu is not UTF-8", t->name, valid);
	for (const char *c = value; *c; c++)
		lines += *c == '\n';
	if (!strcmp(t->name, "stop") && lines > STOPS_MAX)
		return err_set(e, ERANGE, "params/%s: %zu lines are more than the %d that it takes",
			       t->name, lines, STOPS_MAX);
	char *copy = strdup(value);
	if (!copy)
		return err_set(e, ENOMEM, "params/%s: out of memory", t->name);
	free(*to);
	*to = copy;
	return 0;
}

static int set_value(struct params *p, size_t i, const char *value, struct err *e)
{
	const struct param *t = &table[i];
	switch (t->kind) {
	case NUMBER:
		return set_number(p, i, value, e);
	case COUNT:
		return set_count(p, i, value, e);
	case SEED:
		return set_seed(p, i, value, e);
	case CHAT:
		return set_chat(place(p, i), t, value, e);
	case SWITCH:
		return set_switch(place(p, i), t, value, e);
	case WORD:
		return set_word(place(p, i), t, value, e);
	case DATE:
		return set_date(place(p, i), t, value, e);
	case DRAFT:
		return set_draft(p, t, value, e);
	case BIAS:
		return bias_set(&p->logit_bias, value, p->model_vocabulary, e);
	case TEXT:
		return set_text(text_of(p, i), t, value, e);
	}
	return -EINVAL;
}

int params_set(struct params *p, size_t i, const char *value, size_t length, struct err *e)
{
	if (length && value[length - 1] == '\n')
		length--;
	if (memchr(value, 0, length))
		return refuse(&table[i], EINVAL, value, e);
	if (length > PARAMS_MAX_TEXT)
		return err_set(e, EFBIG, "params/%s: %zu bytes are more than the %d that it takes",
			       table[i].name, length, PARAMS_MAX_TEXT);
	char *copy = strndup(value, length);
	if (!copy)
		return err_set(e, ENOMEM, "params/%s: out of memory", table[i].name);
	int result = set_value(p, i, copy, e);
	free(copy);
	return result;
}

/* ---- reading ---- */

enum { NUMBER_SIZE = 40 };

/* The shortest text that reads as the same number: 0.7, not 0.69999999999999996, and with three
 * digits at least 100, not 1e+02. */
static const char *print_number(char text[NUMBER_SIZE], double number)
{
	for (int digits = 3; digits <= 17; digits++) {
		(void)snprintf(text, NUMBER_SIZE, "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	return text;
}

static char *number_text(double number)
{
	char text[NUMBER_SIZE];
	return strdup(print_number(text, number));
}

static char *count_text(uint64_t number)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%" PRIu64, number);
	return strdup(text);
}

static char *draft_text(const struct params *p)
{
	const struct draft_word *w = draft_words;
	char text[24];
	while (w->mode != p->draft || (w->mode == DRAFT_ALWAYS && w->kind != p->draft_kind))
		w++;
	if (w->mode != DRAFT_ALWAYS || p->draft_depth == w->depth)
		return strdup(w->word);
	(void)snprintf(text, sizeof text, "%s %u", w->word, p->draft_depth);
	return strdup(text);
}

static const char *word_of(const struct params *p, size_t i)
{
	int word;
	memcpy(&word, place(p, i), sizeof word);
	return words_of(&table[i])[word];
}

char *params_get(const struct params *p, size_t i, bool has_chat)
{
	switch (table[i].kind) {
	case NUMBER:
		return number_text(*(double *)place(p, i));
	case SEED:
		return p->seed_random ? strdup("random") : count_text(p->seed);
	case COUNT:
		return count_text(*(uint64_t *)place(p, i));
	case CHAT:
		return strdup(p->chat == CHAT_ON || (p->chat == CHAT_UNSET && has_chat) ? "on"
											: "off");
	case SWITCH:
		return strdup(*(bool *)place(p, i) ? "on" : "off");
	case WORD:
		return strdup(word_of(p, i));
	case DATE:
		return strdup(*p->date ? p->date : "auto");
	case DRAFT:
		return draft_text(p);
	case BIAS:
		return bias_text(&p->logit_bias);
	case TEXT:
		return strdup(*text_of(p, i));
	}
	return NULL;
}

char *params_get_set(const struct params *p, size_t i)
{
	bool unset = table[i].kind == CHAT && p->chat == CHAT_UNSET;
	return unset ? strdup("auto") : params_get(p, i, false);
}

/* ---- whole sets ---- */

int params_copy(struct params *to, const struct params *from, struct err *e)
{
	*to = *from;
	bool copied = bias_copy(&to->logit_bias, &from->logit_bias);
	to->system = strdup(from->system);
	to->stop = strdup(from->stop);
	if (to->system && to->stop && copied)
		return 0;
	params_free(to);
	return err_set(e, ENOMEM, "out of memory for a session's params");
}

int params_default(struct params *p, const struct config *c, struct err *e)
{
	static char empty[1];
	const struct params defaults = {
		.temperature = c->generation.temperature,
		.top_p = c->generation.top_p,
		.top_k = c->generation.top_k,
		.min_p = c->generation.min_p,
		.repetition_penalty = c->generation.repetition_penalty,
		.max_tokens = c->generation.max_new_tokens,
		.seed_random = true,
		.stream = true,
		.model_experts = c->experts_per_token,
		.model_vocabulary = c->vocabulary,
		.system = empty,
		.stop = empty,
	};
	return params_copy(p, &defaults, e);
}

bool params_is_auto(size_t i, const char *value, size_t length)
{
	static const char word[] = "auto";
	if (length && value[length - 1] == '\n')
		length--;
	return !params_is_text(i) && length == strlen(word) && !memcmp(value, word, length);
}

int params_reset(struct params *p, size_t i, const struct config *c, struct err *e)
{
	static const size_t sizes[] = {
		[NUMBER] = sizeof(double), [COUNT] = sizeof(uint64_t),
		[SEED] = sizeof(uint64_t), [CHAT] = sizeof(enum chat_mode),
		[SWITCH] = sizeof(bool),   [WORD] = sizeof(int),
		[DATE] = PARAMS_DATE,	   [DRAFT] = sizeof(enum draft_mode),
	};
	struct params defaults;
	int failed = params_default(&defaults, c, e);
	if (failed)
		return failed;
	memcpy(place(p, i), place(&defaults, i), sizes[table[i].kind]);
	if (table[i].kind == SEED)
		p->seed_random = defaults.seed_random;
	params_free(&defaults);
	return 0;
}

void params_free(struct params *p)
{
	free(p->system);
	free(p->stop);
	bias_free(&p->logit_bias);
	p->system = p->stop = NULL;
}

/* ---- losses ---- */

struct losses params_losses(const struct params *p)
{
	bool fewer = p->experts_per_token < p->model_experts;
	return (struct losses){
		.experts_per_token = fewer ? (uint32_t)p->experts_per_token : 0,
		.drop_missing = (float)p->drop_missing,
	};
}

void params_lossy(const struct params *p, char *text, size_t size)
{
	struct losses losses = params_losses(p);
	char fewer[NUMBER_SIZE] = "", drop[2 * NUMBER_SIZE] = "", number[NUMBER_SIZE];
	if (losses.experts_per_token)
		(void)snprintf(fewer, sizeof fewer, "experts_per_token=%" PRIu32,
			       losses.experts_per_token);
	if (losses.drop_missing > 0)
		(void)snprintf(drop, sizeof drop, "drop_missing=%s",
			       print_number(number, p->drop_missing));
	(void)snprintf(text, size, "%s%s%s", fewer, *fewer && *drop ? " " : "", drop);
}
