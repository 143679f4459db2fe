/* The command line. See options.h. */
#include "fs/gateway/options.h"
#include "fs/gateway/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
	"usage: moefs-http [options] TREE\n"
	"\n"
	"Serves the models of a mounted tree over HTTP, as OpenAI's and Anthropic's interfaces "
	"are.\n"
	"\n"
	"    -v                     say a line for each request (none of its text)\n"
	"    -h, --help             this text\n"
	"    -V, --version          the version\n"
	"    -o OPTION[,OPTION...]  options:\n"
	"\n"
	"    listen=ADDR:PORT       where (default: 127.0.0.1:11435), or unix:PATH\n"
	"    cert=FILE, key=FILE    a certificate and its key, in PEM: TLS\n"
	"    key_file=FILE          who asks must have one of these keys, a line each; needed\n"
	"                           where others than this machine can ask\n"
	"    host=NAME              a name by which it is asked, besides localhost\n"
	"    cors=ORIGIN            pages of this origin may ask, too; *: all\n"
	"    ignore_line=REGEX      lines of system texts that models are not given\n"
	"    active=N               answers at once (default: 32); others wait\n"
	"    queue=N                that wait (default: 256); more are told to come again\n"
	"    keep=N                 finished conversations that are kept to go on (default: 16)\n"
	"    connections=N          (default: 512)\n"
	"    body=BYTES             of a request (default: 33554432)\n"
	"    timeout=SECONDS        that a client may be silent (default: 30)\n"
	"    poll=on|off            whether the tree's files can be polled (default: on a mount "
	"of\n"
	"                           moefs; across sshfs they cannot)\n"
	"    log_prompts            what is asked goes to standard error, too\n";

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
