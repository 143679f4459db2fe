/* The command line and --help of moefs-http. See gateway.h. The shells' completion is generated
 * from this --help (fs/install/pages). */
#include "fs/gateway/gateway.h"
#include "fs/gateway/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int options_take_number(const char *name, const char *value, unsigned least, unsigned *out,
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

static int options_take_regex(struct gateway_options *o, const char *value, struct err *e)
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
		return err_set(e, EINVAL,
			       "ignore_line=%s: it can be given once; write A|B for both", value);
	}
	(void)regerror(code, regex, why, sizeof why);
	free(regex);
	return err_set(e, EINVAL, "ignore_line=%s: %s", value, why);
}

static int options_take(struct gateway_options *o, const char *option, struct err *e)
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
		return options_take_regex(o, equals + 1, e);
	for (size_t i = 0; equals && i < sizeof known / sizeof *known; i++) {
		if (strlen(known[i].name) != n || memcmp(known[i].name, option, n) != 0)
			continue;
		if (known[i].number)
			return options_take_number(known[i].name, equals + 1, known[i].least,
						   known[i].number, e);
		*known[i].text = equals + 1;
		return 0;
	}
	return err_set(e, EINVAL, "unknown option \"%s\": moefs-http --help lists them", option);
}

/* Reads a list after -o. ignore_line= takes the rest of the list, since a regex may have commas. */
static int options_take_list(struct gateway_options *o, char *list, struct err *e)
{
	while (list && *list) {
		char *option = list;
		list = strncmp(option, "ignore_line=", 12) ? strchr(option, ',') : NULL;
		if (list)
			*list++ = 0;
		int code = options_take(o, option, e);
		if (code)
			return code;
	}
	return 0;
}

static int options_check(const struct gateway_options *o, struct err *e)
{
	if (o->help || o->version)
		return 0;
	if (!o->tree)
		return err_set(e, EINVAL, "no tree given: moefs-http [options] TREE");
	if (!o->cert != !o->key)
		return err_set(e, EINVAL, "TLS needs both cert= and key=");
	if (o->poll && strcmp(o->poll, "on") != 0 && strcmp(o->poll, "off") != 0)
		return err_set(e, EINVAL, "poll=%s: it must be on or off", o->poll);
	return 0;
}

int gateway_options_parse(struct gateway_options *o, int argc, char **argv, struct err *e)
{
	int code = 0;
	*o = (struct gateway_options){.listen = LISTEN_DEFAULT,
				      .timeout = 30,
				      .connections = 512,
				      .active = 32,
				      .queue = 256,
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
			code = options_take_list(o, argv[++i], e);
		else if (!strncmp(arg, "-o", 2) && arg[2])
			code = options_take_list(o, arg + 2, e);
		else if (*arg == '-')
			code = err_set(e, EINVAL,
				       "unknown option \"%s\": moefs-http --help lists them", arg);
		else if (o->tree)
			code = err_set(e, EINVAL, "only one tree can be served, not \"%s\" as well",
				       arg);
		else
			o->tree = arg;
	}
	return code ? code : options_check(o, e);
}

void gateway_options_free(struct gateway_options *o)
{
	if (o->ignored)
		regfree(o->ignored);
	free(o->ignored);
	o->ignored = NULL;
}

/* ---- --help ---- */

const char gateway_options_help[] =
	"usage: moefs-http [options] TREE\n"
	"\n"
	"Serves the models of a mounted tree over HTTP, to clients of OpenAI's and Anthropic's "
	"APIs.\n"
	"\n"
	"    -v                     log a line for each request, without its text\n"
	"    -h, --help             print this text\n"
	"    -V, --version          print the version\n"
	"    -o OPTION[,OPTION...]  options:\n"
	"\n"
	"    listen=ADDR:PORT       address to listen on (default: 127.0.0.1:11435), or unix:PATH\n"
	"    cert=FILE, key=FILE    serve HTTPS with this certificate and its key, in PEM\n"
	"    key_file=FILE          clients must send a key from this file (one key per line);\n"
	"                           without it only your own processes and root's are served\n"
	"    host=NAME              accept requests to this host name, besides localhost\n"
	"    cors=ORIGIN            let web pages of this origin send requests; *: all pages\n"
	"    ignore_line=REGEX      drop lines of system messages that match this expression\n"
	"    active=N               answer at most N requests at once (default: 32); others wait\n"
	"    queue=N                at most N requests wait (default: 256); others get status 429\n"
	"    connections=N          allow at most N connections (default: 512)\n"
	"    body=BYTES             accept requests up to this size (default: 33554432)\n"
	"    timeout=SECONDS        disconnect clients that are silent for so long (default: 30)\n"
	"    poll=on|off            poll the tree's files (default: on for a mount of moefs "
	"itself,\n"
	"                           off for a tree across sshfs)\n"
	"    log_prompts            log the text of requests, too\n";
