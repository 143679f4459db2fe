/* The kinds of values of params: numbers, words, texts, and the words of params/draft. */
#include "engine/session/param_kinds.h"
#include "engine/answer/stream.h"
#include "cache/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int param_refuse(const struct param *t, int code, const char *value, struct err *e)
{
	return err_set(e, code, "params/%s: \"%.40s\" is not %s", t->name, value, t->what);
}

/* ---- numbers ---- */

static double param_most(const struct params *p, const struct param *t)
{
	return t->routed && p->model_experts < t->most ? p->model_experts : t->most;
}

static int param_set_number(struct params *p, const struct param *t, const char *value,
			    struct err *e)
{
	char *end;
	double number = strtod(value, &end);
	/* strtod also accepts spaces, hexadecimal numbers and words. */
	bool decimal = !value[strspn(value, "0123456789.eE+-")];
	if (end == value || *end || !decimal)
		return param_refuse(t, EINVAL, value, e);
	if (number < t->least || number > param_most(p, t))
		return param_refuse(t, ERANGE, value, e);
	*(double *)param_place(p, t) = number;
	return 0;
}

const char *param_print_number(char text[NUMBER_SIZE], double number)
{
	for (int digits = 3; digits <= 17; digits++) {
		(void)snprintf(text, NUMBER_SIZE, "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	return text;
}

static char *param_get_number(const struct params *p, const struct param *t)
{
	char text[NUMBER_SIZE];
	return strdup(param_print_number(text, *(double *)param_place(p, t)));
}

const struct param_kind kind_number = {
	param_set_number, param_get_number, sizeof(double), "number"};

static int param_set_count(struct params *p, const struct param *t, const char *value,
			   struct err *e)
{
	char *end;
	errno = 0;
	uint64_t number = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end)
		return param_refuse(t, EINVAL, value, e);
	if (errno || (double)number > param_most(p, t))
		return param_refuse(t, ERANGE, value, e);
	*(uint64_t *)param_place(p, t) = number;
	return 0;
}

static char *param_get_count(const struct params *p, const struct param *t)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%" PRIu64, *(uint64_t *)param_place(p, t));
	return strdup(text);
}

const struct param_kind kind_count = {
	param_set_count, param_get_count, sizeof(uint64_t), "integer"};

static int param_set_seed(struct params *p, const struct param *t, const char *value, struct err *e)
{
	bool random = !strcmp(value, "random");
	int failed = random ? 0 : param_set_count(p, t, value, e);
	if (!failed)
		p->seed_random = random;
	return failed;
}

static char *param_get_seed(const struct params *p, const struct param *t)
{
	return p->seed_random ? strdup("random") : param_get_count(p, t);
}

const struct param_kind kind_seed = {param_set_seed, param_get_seed, sizeof(uint64_t), "integer"};

/* ---- words ---- */

static int param_set_switch(struct params *p, const struct param *t, const char *value,
			    struct err *e)
{
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return param_refuse(t, EINVAL, value, e);
	*(bool *)param_place(p, t) = !strcmp(value, "on");
	return 0;
}

static char *param_get_switch(const struct params *p, const struct param *t)
{
	return strdup(*(bool *)param_place(p, t) ? "on" : "off");
}

const struct param_kind kind_switch = {param_set_switch, param_get_switch, sizeof(bool), "choice"};

static const char *const chats[] = {[CHAT_UNSET] = "auto", [CHAT_OFF] = "off", [CHAT_ON] = "on"};

/* Does not accept auto, which means the default (params_is_auto). */
static int param_set_chat(struct params *p, const struct param *t, const char *value, struct err *e)
{
	for (int mode = CHAT_OFF; mode <= CHAT_ON; mode++)
		if (!strcmp(value, chats[mode])) {
			p->chat = (enum chat_mode)mode;
			return 0;
		}
	return param_refuse(t, EINVAL, value, e);
}

static char *param_get_chat(const struct params *p, const struct param *t)
{
	(void)t;
	return strdup(chats[p->chat]);
}

const struct param_kind kind_chat = {
	param_set_chat, param_get_chat, sizeof(enum chat_mode), "choice"};

static int param_set_word(struct params *p, const struct param *t, const char *value, struct err *e)
{
	for (int i = 0; t->words[i]; i++)
		if (!strcmp(value, t->words[i])) {
			memcpy(param_place(p, t), &i, sizeof i);
			return 0;
		}
	return param_refuse(t, EINVAL, value, e);
}

static char *param_get_word(const struct params *p, const struct param *t)
{
	int word;
	memcpy(&word, param_place(p, t), sizeof word);
	return strdup(t->words[word]);
}

const struct param_kind kind_word = {param_set_word, param_get_word, sizeof(int), "choice"};

/* ---- texts, and what is read from lines of text ---- */

/* Refuses dates that do not exist; timegm would change them into other dates. */
static bool param_parse_date(const char *text, struct tm *clock)
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

bool params_clock(const struct params *p, struct tm *clock)
{
	return *p->date && param_parse_date(p->date, clock);
}

static int param_set_date(struct params *p, const struct param *t, const char *value, struct err *e)
{
	struct tm clock;
	if (!param_parse_date(value, &clock))
		return param_refuse(t, EINVAL, value, e);
	(void)snprintf(p->date, PARAMS_DATE, "%s", value);
	return 0;
}

static char *param_get_date(const struct params *p, const struct param *t)
{
	(void)t;
	return strdup(*p->date ? p->date : "auto");
}

const struct param_kind kind_date = {param_set_date, param_get_date, PARAMS_DATE, "text"};

/* Sets a word without spaces; auto is stored as an empty word. */
static int param_set_label(struct params *p, const struct param *t, const char *value, struct err *e)
{
	size_t n = strlen(value);
	bool plain = n && n < PARAMS_LABEL && utf8_valid_length(value, n) == n;
	for (const char *c = value; *c; c++)
		plain &= (uint8_t)*c > ' ';
	if (!plain)
		return param_refuse(t, EINVAL, value, e);
	(void)snprintf(param_place(p, t), PARAMS_LABEL, "%s", value);
	return 0;
}

static char *param_get_label(const struct params *p, const struct param *t)
{
	const char *word = param_place(p, t);
	return strdup(*word ? word : "auto");
}

const struct param_kind kind_label = {param_set_label, param_get_label, PARAMS_LABEL, "text"};

static int param_set_bias(struct params *p, const struct param *t, const char *value, struct err *e)
{
	(void)t;
	return bias_set(&p->logit_bias, value, p->model_vocabulary, e);
}

static char *param_get_bias(const struct params *p, const struct param *t)
{
	(void)t;
	return bias_text(&p->logit_bias);
}

const struct param_kind kind_bias = {param_set_bias, param_get_bias, 0, "lines"};

static int param_set_steer(struct params *p, const struct param *t, const char *value,
			   struct err *e)
{
	(void)t;
	return steer_set(&p->experts_bias, value, p->model, e);
}

static char *param_get_steer(const struct params *p, const struct param *t)
{
	(void)t;
	return strdup(p->experts_bias.text ? p->experts_bias.text : "");
}

const struct param_kind kind_steer = {param_set_steer, param_get_steer, 0, "lines"};

static int param_set_text(struct params *p, const struct param *t, const char *value, struct err *e)
{
	char **to = param_place(p, t);
	size_t lines = 1, length = strlen(value), valid = utf8_valid_length(value, length);
	if (valid < length)
		return err_set(e, EINVAL, "params/%s: byte %zu is not UTF-8", t->name, valid);
	for (const char *c = value; *c; c++)
		lines += *c == '\n';
	if (!strcmp(t->name, "stop") && lines > STOPS_MAX)
		return err_set(e, ERANGE, "params/%s: %zu lines; at most %d are allowed", t->name,
			       lines, STOPS_MAX);
	char *copy = strdup(value);
	if (!copy)
		return err_set(e, ENOMEM, "params/%s: out of memory", t->name);
	free(*to);
	*to = copy;
	return 0;
}

static char *param_get_text(const struct params *p, const struct param *t)
{
	return strdup(*(char **)param_place(p, t));
}

const struct param_kind kind_text = {param_set_text, param_get_text, 0, "lines"};

/* ---- substitutes ---- */

/* Reads a number that ends with the character `end`. False: not a number, or more than 32 bits. */
static bool param_read_rank(const char **at, char end, uint32_t *rank)
{
	char *stop;
	errno = 0;
	unsigned long number = strtoul(*at, &stop, 10);
	if (**at < '0' || **at > '9' || *stop != end || errno || number > UINT32_MAX)
		return false;
	*rank = (uint32_t)number;
	*at = stop + (end != 0);
	return true;
}

static int param_set_substitute(struct params *p, const struct param *t, const char *value,
				struct err *e)
{
	struct substitution s = {0};
	const uint32_t experts = p->model_experts ? p->model->experts : 0;
	const char *at = value;
	if (strcmp(value, "off") != 0) {
		if (!param_read_rank(&at, ',', &s.keep) || !param_read_rank(&at, 0, &s.window))
			return param_refuse(t, EINVAL, value, e);
		if (!s.window || s.keep > s.window || s.window > experts)
			return param_refuse(t, ERANGE, value, e);
	}
	*(struct substitution *)param_place(p, t) = s;
	return 0;
}

static char *param_get_substitute(const struct params *p, const struct param *t)
{
	const struct substitution *s = param_place(p, t);
	char text[32] = "off";
	if (s->window)
		(void)snprintf(text, sizeof text, "%" PRIu32 ",%" PRIu32, s->keep, s->window);
	return strdup(text);
}

const struct param_kind kind_substitute = {
	param_set_substitute, param_get_substitute, sizeof(struct substitution), "text"};

/* ---- drafts ---- */

/* The words, with the kind of drafts and the default number of tokens. A draft layer is trained for
 * one token; prompt lookup is good for more. */
static const struct draft_word {
	const char *word;
	enum draft_mode mode;
	enum draft_kind kind;
	uint32_t depth; /* default; 0: no number may follow */
} draft_words[] = {
	{"auto", DRAFT_AUTO, 0, 0},
	{"off", DRAFT_OFF, 0, 0},
	{"mtp", DRAFT_ALWAYS, DRAFT_MTP, 1},
	{"lookup", DRAFT_ALWAYS, DRAFT_LOOKUP, SESSION_DRAFTS},
};
enum { DRAFT_WORDS = sizeof draft_words / sizeof *draft_words };

/* The row of the word that a value begins with; *rest: the digits after it, if any. NULL: unknown
 * word. */
static const struct draft_word *param_find_draft(const char *value, const char **rest)
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

static int param_set_draft(struct params *p, const struct param *t, const char *value,
			   struct err *e)
{
	const char *digits;
	const struct draft_word *w = param_find_draft(value, &digits);
	if (!w)
		return param_refuse(t, EINVAL, value, e);
	double depth = *digits ? strtod(digits, NULL) : w->depth;
	if (*digits && (depth < t->least || depth > t->most))
		return param_refuse(t, ERANGE, value, e);
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

static char *param_get_draft(const struct params *p, const struct param *t)
{
	(void)t;
	const struct draft_word *w = draft_words;
	char text[24];
	while (w->mode != p->draft || (w->mode == DRAFT_ALWAYS && w->kind != p->draft_kind))
		w++;
	if (w->mode != DRAFT_ALWAYS || p->draft_depth == w->depth)
		return strdup(w->word);
	(void)snprintf(text, sizeof text, "%s %u", w->word, p->draft_depth);
	return strdup(text);
}

const struct param_kind kind_draft = {
	param_set_draft, param_get_draft, sizeof(enum draft_mode), "text"};
