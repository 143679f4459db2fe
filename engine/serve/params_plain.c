/* Kinds of params that are numbers or words. */
#include "engine/serve/param.h"

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

static double most_of(const struct params *p, const struct param *t)
{
	return t->routed && p->model_experts < t->most ? p->model_experts : t->most;
}

static int set_number(struct params *p, const struct param *t, const char *value, struct err *e)
{
	char *end;
	double number = strtod(value, &end);
	/* strtod would take spaces, hexadecimal numbers and words as well. */
	bool decimal = !value[strspn(value, "0123456789.eE+-")];
	if (end == value || *end || !decimal)
		return param_refuse(t, EINVAL, value, e);
	if (number < t->least || number > most_of(p, t))
		return param_refuse(t, ERANGE, value, e);
	*(double *)param_place(p, t) = number;
	return 0;
}

const char *print_number(char text[NUMBER_SIZE], double number)
{
	for (int digits = 3; digits <= 17; digits++) {
		(void)snprintf(text, NUMBER_SIZE, "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	return text;
}

static char *get_number(const struct params *p, const struct param *t)
{
	char text[NUMBER_SIZE];
	return strdup(print_number(text, *(double *)param_place(p, t)));
}

const struct param_kind kind_number = {set_number, get_number, sizeof(double)};

static int set_count(struct params *p, const struct param *t, const char *value, struct err *e)
{
	char *end;
	errno = 0;
	uint64_t number = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end)
		return param_refuse(t, EINVAL, value, e);
	if (errno || (double)number > most_of(p, t))
		return param_refuse(t, ERANGE, value, e);
	*(uint64_t *)param_place(p, t) = number;
	return 0;
}

static char *get_count(const struct params *p, const struct param *t)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%" PRIu64, *(uint64_t *)param_place(p, t));
	return strdup(text);
}

const struct param_kind kind_count = {set_count, get_count, sizeof(uint64_t)};

static int set_seed(struct params *p, const struct param *t, const char *value, struct err *e)
{
	bool random = !strcmp(value, "random");
	int failed = random ? 0 : set_count(p, t, value, e);
	if (!failed)
		p->seed_random = random;
	return failed;
}

static char *get_seed(const struct params *p, const struct param *t)
{
	return p->seed_random ? strdup("random") : get_count(p, t);
}

const struct param_kind kind_seed = {set_seed, get_seed, sizeof(uint64_t)};

/* ---- words ---- */

static int set_switch(struct params *p, const struct param *t, const char *value, struct err *e)
{
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return param_refuse(t, EINVAL, value, e);
	*(bool *)param_place(p, t) = !strcmp(value, "on");
	return 0;
}

static char *get_switch(const struct params *p, const struct param *t)
{
	return strdup(*(bool *)param_place(p, t) ? "on" : "off");
}

const struct param_kind kind_switch = {set_switch, get_switch, sizeof(bool)};

static const char *const chats[] = {[CHAT_UNSET] = "auto", [CHAT_OFF] = "off", [CHAT_ON] = "on"};

/* Not auto: that is a default's word, params_is_auto. */
static int set_chat(struct params *p, const struct param *t, const char *value, struct err *e)
{
	for (int mode = CHAT_OFF; mode <= CHAT_ON; mode++)
		if (!strcmp(value, chats[mode])) {
			p->chat = (enum chat_mode)mode;
			return 0;
		}
	return param_refuse(t, EINVAL, value, e);
}

static char *get_chat(const struct params *p, const struct param *t)
{
	(void)t;
	return strdup(chats[p->chat]);
}

const struct param_kind kind_chat = {set_chat, get_chat, sizeof(enum chat_mode)};

static int set_word(struct params *p, const struct param *t, const char *value, struct err *e)
{
	for (int i = 0; t->words[i]; i++)
		if (!strcmp(value, t->words[i])) {
			memcpy(param_place(p, t), &i, sizeof i);
			return 0;
		}
	return param_refuse(t, EINVAL, value, e);
}

static char *get_word(const struct params *p, const struct param *t)
{
	int word;
	memcpy(&word, param_place(p, t), sizeof word);
	return strdup(t->words[word]);
}

const struct param_kind kind_word = {set_word, get_word, sizeof(int)};
