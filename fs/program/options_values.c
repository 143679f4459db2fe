/* Options with a value: reading them from the command line, then applying them. See options.h. */
#include "engine/session.h"
#include "fs/base/human.h"
#include "fs/base/text.h"
#include "fs/models/models.h"
#include "fs/program/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_kind {
	WORD,	/* checked by the engine */
	NUMBER, /* from 1; the engine checks the upper bound */
	SIZE,
	SIZE_OR_OFF,
	SECONDS, /* or off */
	SWITCH,	 /* one of two words; `what` is "ON or OFF" */
	CARD,	 /* off, or a number */
	CARD_SIZE,
	PATH,
	SOURCE,
	NAME,
	LOG,
	SESSIONS,
	KEYS,
	ADDRESS,
	USER,
	GROUP,
	MODE,
};

static const struct option_value {
	const char *name;
	enum option_kind kind;
	size_t offset;	  /* of a const char *, uint32_t or uint64_t in engine_options */
	const char *what; /* what the value is, for the sentence of a refusal */
} values[] = {
#define ENGINE(member) offsetof(struct engine_options, member)
	{"quant", WORD, ENGINE(quant), "auto, 2bit, 3bit, 4bit, 6bit, 8bit, tq2, tq3, tq4 or bf16"},
	{"kv", WORD, ENGINE(kv), "f16, q8, q4, q8q4 or auto"},
	{"codec", WORD, ENGINE(codec), "zstd, none or auto"},
	{"template", PATH, ENGINE(template_file), "the name of a file"},
	{"store", PATH, ENGINE(store), "the name of a folder"},
	{"budget", SIZE, ENGINE(budget), "a size such as 512M, 1.5G or 50%, or auto"},
	{"context_budget", SIZE, ENGINE(context_budget),
	 "a size such as 512M, 1.5G or 50%, or auto"},
	{"offload", SIZE_OR_OFF, ENGINE(offload), "a size such as 20G, off or auto"},
	{"remember", PATH, ENGINE(remember), "the name of a folder"},
	{"remember_size", SIZE, ENGINE(remember_size), "a size such as 512M or 2G, or auto"},
	{"context", NUMBER, ENGINE(context), "a whole number from 1, or auto"},
	{"threads", NUMBER, ENGINE(threads), "a whole number from 1, or auto"},
	{"chunk", NUMBER, ENGINE(chunk), "a whole number from 1, or auto"},
	{"step_ms", NUMBER, ENGINE(step_ms), "a whole number of milliseconds from 1, or auto"},
	{"idle", SECONDS, ENGINE(idle), "a time such as 30s, 10m or 2h, off or auto"},
	{"share", SWITCH, ENGINE(share_all), "all or user"},
	{"refine", SWITCH, ENGINE(refine), "idle or off"},
	{"gpu", CARD, ENGINE(gpu), "auto, off, or the number of a GPU, from 0"},
	{"gpu_budget", CARD_SIZE, ENGINE(gpu_budget), "a size such as 20G, or auto"},
	{"sessions", SESSIONS, 0, "the name of a folder"},
	{"fsname", SOURCE, 0, "the name of a source"},
	{"name", NAME, 0, "a name for the model's folder"},
	{"log", LOG, 0, "the name of a file, or journal"},
	{"http", ADDRESS, 0, "ADDR:PORT or unix:PATH"},
	{"key_file", KEYS, 0, "the name of a file"},
	{"uid", USER, 0, "a user's name or number"},
	{"gid", GROUP, 0, "a group's name or number"}, /* after uid, which also sets the group */
	{"umask", MODE, 0, "a mode in octal, such as 077"},
};
_Static_assert(sizeof values / sizeof *values == OPTION_VALUES, "struct options has room for all");

/* ---- taking arguments ---- */

/* Reads PARAM=VALUE. 1: arg is something else. Values are tried in the order given, like writes to
 * the param's file. */
static int options_take_param(struct options *o, const char *arg)
{
	size_t length = strcspn(arg, "="), i = 0;
	while (i < params_count() &&
	       (strlen(params_name(i)) != length || strncmp(arg, params_name(i), length) != 0))
		i++;
	if (!arg[length] || i == params_count())
		return 1;
	struct param_given *grown =
		reallocarray(o->params, o->param_count + 1, sizeof(struct param_given));
	char *copy = strdup(arg + length + 1);
	if (grown)
		o->params = grown;
	if (!grown || !copy) {
		free(copy);
		return -1;
	}
	o->params[o->param_count++] = (struct param_given){i, copy};
	return 0;
}

int options_take_value(struct options *o, const char *arg)
{
	for (size_t i = 0; i < OPTION_VALUES; i++) {
		size_t length = strlen(values[i].name);
		if (strncmp(arg, values[i].name, length) != 0 ||
		    (arg[length] && arg[length] != '='))
			continue;
		char *copy = strdup(arg[length] ? arg + length + 1 : "");
		if (!copy)
			return -1;
		free(o->values[i]); /* the last value counts */
		o->values[i] = copy;
		return 0;
	}
	return options_take_param(o, arg);
}

/* ---- applying ---- */

int options_absolute(char **path, struct err *e)
{
	char here[4096], full[2 * 4096];
	if (!**path)
		return err_set(e, EINVAL, "a path is empty; see moefs --help");
	if (**path == '/')
		return 0;
	if (!getcwd(here, sizeof here))
		return err_sys(e, errno, "cannot find the working directory");
	int n = snprintf(full, sizeof full, "%s/%s", here, *path);
	char *copy = n < (int)sizeof full ? strdup(full) : NULL;
	if (!copy)
		return err_set(e, ENOMEM, "%s: no memory for this path", *path);
	free(*path);
	*path = copy;
	return 0;
}

static int options_set_name(struct options *o, const char *name, struct err *e)
{
	if (o->all)
		return err_set(e, EINVAL, "-o name=%s is for one model: leave out -a", name);
	if (o->model_count > 1)
		return err_set(
			e, EINVAL,
			"-o name=%s is for one model, but %zu are given: mount them one by one",
			name, o->model_count);
	if (!models_name_fits(name))
		return err_set(
			e, EINVAL,
			"-o name=%s: a model's name has no slash and no control characters, does "
			"not begin with a dot, and has at most %d bytes",
			name, MODEL_NAME_MOST);
	o->name = name;
	return 0;
}

/* Applies an option of the mount, not of the engine. */
static int options_apply_to_mount(struct options *o, size_t i, struct err *e)
{
	const char *string = o->values[i];
	int failed = 0;
	uint64_t mode;
	switch (values[i].kind) {
	case NAME:
		return options_set_name(o, string, e);
	case LOG:
		if (strcmp(string, "journal") != 0)
			failed = options_absolute(&o->values[i], e);
		o->log = o->values[i];
		return failed;
	case SESSIONS:
		failed = options_absolute(&o->values[i], e);
		o->sessions = o->values[i];
		return failed;
	case ADDRESS:
		o->http = string;
		return 0;
	case KEYS:
		failed = options_absolute(&o->values[i], e);
		o->key_file = o->values[i];
		return failed;
	case USER:
		return privilege_set_user(&o->whose, string, e);
	case GROUP:
		return privilege_set_group(&o->whose, string, e);
	case MODE:
		if (!human_parse_number(string, 8, 0777, &mode))
			return err_set(e, EINVAL, "-o %s=%s is not %s", values[i].name, string,
				       values[i].what);
		o->umask = (mode_t)mode;
		return 0;
	default:
		return 0;
	}
}

/* False: it is neither of the two words. */
static bool options_switch(const struct option_value *v, const char *word, uint32_t *on)
{
	static const char between[] = " or ";
	const char *second = strstr(v->what, between);
	size_t n = (size_t)(second - v->what);
	*on = strlen(word) == n && !strncmp(word, v->what, n);
	return *on || !strcmp(word, second + sizeof between - 1);
}

/* False: neither off nor a number. The driver knows which numbers there are. */
static bool options_card(const char *word, int *gpu)
{
	uint64_t number;
	if (!strcmp(word, "off")) {
		*gpu = GPU_OFF;
		return true;
	}
	if (!human_parse_number(word, 10, INT16_MAX, &number))
		return false;
	*gpu = GPU_NUMBER + (int)number;
	return true;
}

int options_apply(struct options *o, size_t i, struct err *e)
{
	const struct option_value *v = &values[i];
	const char *string = o->values[i];
	void *place = (char *)&o->engine + v->offset;
	uint64_t number;
	bool named = v->kind >= PATH;
	bool good = string && (*string || v->kind == ADDRESS);
	if (!string || (!named && !strcmp(string, "auto")))
		return 0;
	if (good && v->kind == NUMBER) {
		good = human_parse_number(string, 10, UINT32_MAX, &number) && number;
		*(uint32_t *)place = (uint32_t)number;
	}
	if (good && v->kind == SIZE)
		good = human_parse_size(string, engine_memory(), place) && *(uint64_t *)place;
	if (good && v->kind == SIZE_OR_OFF)
		good = !strcmp(string, "off") || (human_parse_size(string, engine_memory(), place) &&
						  *(uint64_t *)place);
	if (good && v->kind == SECONDS)
		good = !strcmp(string, "off") || human_parse_seconds(string, place);
	if (good && v->kind == SWITCH)
		good = options_switch(v, string, place);
	if (good && v->kind == CARD)
		good = options_card(string, place);
	if (good && v->kind == CARD_SIZE) /* of a card that is not open yet: no percentage */
		good = human_parse_size(string, 0, place) && *(uint64_t *)place;
	if (!good)
		return err_set(e, EINVAL, "-o %s=%s is not %s", v->name, string, v->what);
	if (v->kind > PATH)
		return options_apply_to_mount(o, i, e);
	if (v->kind == PATH) {
		int failed = options_absolute(&o->values[i], e);
		if (failed)
			return failed;
	}
	if (v->kind == WORD || v->kind == PATH)
		*(const char **)place = o->values[i];
	return 0;
}

char *options_source(const struct options *o)
{
	for (size_t i = 0; i < OPTION_VALUES; i++)
		if (values[i].kind == SOURCE && o->values[i])
			return strdup(o->values[i]);
	if (o->all || o->model_count != 1)
		return strdup("moefs");
	char *real = realpath(*o->models, NULL);
	return real ? real : strdup(*o->models);
}
