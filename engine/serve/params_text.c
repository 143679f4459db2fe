/* Kinds of params that are kept as text, or are read from lines of it. */
#include "engine/serve/param.h"
#include "engine/answer/stream.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool params_clock(const struct params *p, struct tm *clock)
{
	return *p->date && parse_date(p->date, clock);
}

static int set_date(struct params *p, const struct param *t, const char *value, struct err *e)
{
	struct tm clock;
	if (!parse_date(value, &clock))
		return param_refuse(t, EINVAL, value, e);
	(void)snprintf(p->date, PARAMS_DATE, "%s", value);
	return 0;
}

static char *get_date(const struct params *p, const struct param *t)
{
	(void)t;
	return strdup(*p->date ? p->date : "auto");
}

const struct param_kind kind_date = {set_date, get_date, PARAMS_DATE};

static int set_tool(struct params *p, const struct param *t, const char *value, struct err *e)
{
	size_t n = strlen(value);
	bool plain = n && n < PARAMS_TOOL && utf8_valid_length(value, n) == n;
	for (const char *c = value; *c; c++)
		plain &= (uint8_t)*c > ' ';
	if (!plain)
		return param_refuse(t, EINVAL, value, e);
	(void)snprintf(p->tool_choice, PARAMS_TOOL, "%s", value);
	return 0;
}

static char *get_tool(const struct params *p, const struct param *t)
{
	(void)t;
	return strdup(*p->tool_choice ? p->tool_choice : "auto");
}

const struct param_kind kind_tool = {set_tool, get_tool, PARAMS_TOOL};

static int set_bias(struct params *p, const struct param *t, const char *value, struct err *e)
{
	(void)t;
	return bias_set(&p->logit_bias, value, p->model_vocabulary, e);
}

static char *get_bias(const struct params *p, const struct param *t)
{
	(void)t;
	return bias_text(&p->logit_bias);
}

const struct param_kind kind_bias = {set_bias, get_bias, 0};

static int set_text(struct params *p, const struct param *t, const char *value, struct err *e)
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

static char *get_text(const struct params *p, const struct param *t)
{
	return strdup(*(char **)param_place(p, t));
}

const struct param_kind kind_text = {set_text, get_text, 0};
