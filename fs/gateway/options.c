/* The command line. See options.h. */
#include "fs/gateway/options.h"
#include "fs/gateway/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A regex may have commas: from ignore_line= on it is all one. */
static char *next_option(char **list)
{
	char *begin = *list, *end;
	if (!begin || !*begin)
		return NULL;
	end = strncmp(begin, "ignore_line=", 12) ? strchr(begin, ',') : NULL;
	if (end)
		*end++ = 0;
	*list = end;
	return begin;
}

static int take_number(const char *name, const char *value, unsigned least, unsigned *out,
		       struct err *e)
{
	char *end;
	errno = 0;
	unsigned long number = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || number < least || number > 1u << 30)
		return err_set(e, EINVAL, "%s=%s: it takes a whole number from %u on", name, value,
			       least);
	*out = (unsigned)number;
	return 0;
}

static int take_regex(struct options *o, const char *value, struct err *e)
{
	char why[256];
	regex_t *regex = calloc(1, sizeof *regex);
	int code = regex ? regcomp(regex, value, REG_EXTENDED | REG_NOSUB) : REG_ESPACE;
	if (!code && !o->ignored) {
		o->ignored = regex;
		return 0;
	}
	if (!code) {
		regfree(regex);
		free(regex);
		return err_set(e, EINVAL, "ignore_line=%s: it can be given once; A|B is both",
			       value);
	}
	(void)regerror(code, regex, why, sizeof why);
	free(regex);
	return err_set(e, EINVAL, "ignore_line=%s: %s", value, why);
}

static int take(struct options *o, const char *option, struct err *e)
{
	const struct {
		const char *name, **text;
		unsigned *number, least;
	} known[] = {
		{"listen", &o->listen, NULL, 0},
		{"cert", &o->cert, NULL, 0},
		{"key", &o->key, NULL, 0},
		{"key_file", &o->key_file, NULL, 0},
		{"host", &o->host, NULL, 0},
		{"cors", &o->cors, NULL, 0},
		{"poll", &o->poll, NULL, 0},
		{"active", NULL, &o->active, 1},
		{"queue", NULL, &o->queue, 0},
		{"keep", NULL, &o->keep, 0},
		{"connections", NULL, &o->connections, 1},
		{"body", NULL, &o->body, 1024},
		{"timeout", NULL, &o->timeout, 1},
	};
	const char *equals = strchr(option, '=');
	size_t n = equals ? (size_t)(equals - option) : strlen(option);
	if (!strcmp(option, "log_prompts")) {
		o->log_prompts = true;
		return 0;
	}
	if (equals && n == 11 && !strncmp(option, "ignore_line", n))
		return take_regex(o, equals + 1, e);
	for (size_t i = 0; equals && i < sizeof known / sizeof *known; i++) {
		if (strlen(known[i].name) != n || memcmp(known[i].name, option, n) != 0)
			continue;
		if (known[i].number)
			return take_number(known[i].name, equals + 1, known[i].least,
					   known[i].number, e);
		*known[i].text = equals + 1;
		return 0;
	}
	return err_set(e, EINVAL, "unknown option '%s': moefs-http --help lists them", option);
}

static int take_all(struct options *o, char *list, struct err *e)
{
	int code = 0;
	for (char *option; !code && (option = next_option(&list));)
		code = take(o, option, e);
	return code;
}

static int check(const struct options *o, struct err *e)
{
	if (o->help || o->version)
		return 0;
	if (!o->tree)
		return err_set(e, EINVAL, "which tree? moefs-http [options] TREE");
	if (!o->cert != !o->key)
		return err_set(e, EINVAL, "TLS needs both cert= and key=");
	if (o->poll && strcmp(o->poll, "on") != 0 && strcmp(o->poll, "off") != 0)
		return err_set(e, EINVAL, "poll=%s is not on or off", o->poll);
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	int code = 0;
	*o = (struct options){.listen = LISTEN_DEFAULT,
			      .timeout = 30,
			      .connections = 512,
			      .active = 32,
			      .queue = 256,
			      .keep = 16,
			      .body = 32 << 20};
	for (int i = 1; i < argc && !code; i++) {
		char *arg = argv[i];
		if (!strcmp(arg, "-v"))
			o->verbose = true;
		else if (!strcmp(arg, "-h") || !strcmp(arg, "--help"))
			o->help = true;
		else if (!strcmp(arg, "-V") || !strcmp(arg, "--version"))
			o->version = true;
		else if (!strcmp(arg, "-o") && i + 1 < argc)
			code = take_all(o, argv[++i], e);
		else if (!strncmp(arg, "-o", 2) && arg[2])
			code = take_all(o, arg + 2, e);
		else if (*arg == '-')
			code = err_set(e, EINVAL,
				       "unknown option '%s': moefs-http --help lists them", arg);
		else if (o->tree)
			code = err_set(e, EINVAL, "one tree alone can be served, not %s as well",
				       arg);
		else
			o->tree = arg;
	}
	return code ? code : check(o, e);
}

void options_free(struct options *o)
{
	if (o->ignored)
		regfree(o->ignored);
	free(o->ignored);
	o->ignored = NULL;
}
