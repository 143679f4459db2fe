/* The command line of ask and chat. See asked.h. */
#include "fs/commands/asked.h"
#include "fs/commands/option_word.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP = 'h', SYSTEM = 256, JSON, SCHEMA, THOUGHTS };

/* Of these only the first two are chat's, too. */
static const struct option options[] = {
	{"help", no_argument, NULL, HELP},	   {"system", required_argument, NULL, SYSTEM},
	{"json", no_argument, NULL, JSON},	   {"schema", required_argument, NULL, SCHEMA},
	{"thoughts", no_argument, NULL, THOUGHTS}, {NULL, 0, NULL, 0},
};

static int add_setting(struct asked *a, const char *setting, struct err *e)
{
	const char **grown = realloc(a->settings, (a->setting_count + 1) * sizeof *grown);
	if (!grown)
		return err_set(e, ENOMEM, "no memory for -p %s", setting);
	a->settings = grown;
	grown[a->setting_count++] = setting;
	return 0;
}

static int take(struct asked *a, int option, struct err *e)
{
	if (!a->asks && option >= JSON)
		return err_set(e, EINVAL, "--json, --schema and --thoughts are of moefs ask");
	switch (option) {
	case 's':
		a->session = optarg;
		return 0;
	case 'p':
		if (!strchr(optarg, '='))
			return err_set(e, EINVAL, "-p %s: a param is set by -p PARAM=VALUE",
				       optarg);
		return add_setting(a, optarg, e);
	case HELP:
		a->help = true;
		return 0;
	case SYSTEM:
		a->system = optarg;
		return 0;
	case JSON:
		a->json = true;
		return 0;
	case SCHEMA:
		a->schema = optarg;
		return 0;
	case THOUGHTS:
		a->thoughts = true;
		return 0;
	default:
		return -EINVAL; /* refuse() has said why */
	}
}

/* What getopt_long has stopped at. */
static int refuse(int option, const char *word, struct err *e)
{
	if (option == ':')
		return err_set(e, EINVAL, "%s needs a value behind it", word);
	if (optopt > 0 && strncmp(word, "--", 2) != 0) /* perhaps one of several letters */
		return err_set(e, EINVAL, "-%c: there is no such option", optopt);
	return err_set(e, EINVAL, "%s: there is no such option", word);
}

static int check_words(const struct asked *a, struct err *e)
{
	if (!a->model)
		return err_set(e, EINVAL, "a model is needed (moefs list has what is mounted)");
	if (a->json && a->schema)
		return err_set(e, EINVAL, "--json and --schema exclude each other");
	if (!a->asks && a->word_count)
		return err_set(e, EINVAL, "chat takes its questions line by line, and no words");
	return 0;
}

/* Takes options until a word or -- ends them; ended: it was --, which is passed over. */
static int take_options(struct asked *a, int argc, char **argv, bool *ended, struct err *e)
{
	for (;;) {
		int before = optind;
		int option = getopt_long(argc, argv, "+:hs:p:", options, NULL);
		if (option == -1) {
			*ended = optind > before && !strcmp(argv[optind - 1], "--");
			return 0;
		}
		bool wrong = option == '?' || option == ':';
		int code = wrong ? refuse(option, argv[optind - 1], e) : take(a, option, e);
		if (code)
			return code;
	}
}

/* Options stand before the model or right behind it. Behind -- there are none, so that words may
 * begin with a hyphen. */
int asked_read(struct asked *a, int argc, char **argv, struct err *e)
{
	bool ended = false;
	opterr = 0;
	optind = 0; /* of GNU's: begins anew */
	int code = take_options(a, argc, argv, &ended, e);
	if (!code && optind < argc)
		a->model = argv[optind++];
	if (!code && !ended)
		code = take_options(a, argc, argv, &ended, e);
	if (code || a->help)
		return code;
	a->words = argv + optind;
	a->word_count = a->model ? (size_t)(argc - optind) : 0;
	if (!ended)
		code = option_word_refuse(a->words, a->word_count, "the question", e);
	return code ? code : check_words(a, e);
}

void asked_free(struct asked *a)
{
	free(a->settings);
}

/* ---- the session's params ---- */

static int set(const struct talk *t, const char *param, const char *value, struct err *e)
{
	return talk_set(t, param, value, strlen(value), e);
}

static int set_schema(const struct talk *t, const char *path, struct err *e)
{
	struct text source = {0};
	FILE *f = fopen(path, "re");
	if (!f)
		return err_sys(e, errno, "%s", path);
	char piece[4096];
	for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
		text_add(&source, piece, n);
	int code = ferror(f) ? err_sys(e, errno, "cannot read %s", path) : 0;
	(void)fclose(f);
	if (!code && source.failed)
		code = err_set(e, ENOMEM, "no memory for %s", path);
	if (!code)
		code = set(t, "format", "schema", e);
	if (!code)
		code = talk_set(t, "grammar", source.data ? source.data : "", source.length, e);
	text_free(&source);
	return code;
}

static int apply_setting(const struct talk *t, const char *setting, struct err *e)
{
	const char *value = strchr(setting, '=') + 1;
	char param[256];
	(void)snprintf(param, sizeof param, "%.*s", (int)(value - setting - 1), setting);
	return set(t, param, value, e);
}

int asked_apply(const struct asked *a, const struct talk *t, struct err *e)
{
	int code = a->system ? set(t, "system", a->system, e) : 0;
	if (!code && a->json)
		code = set(t, "format", "json", e);
	if (!code && a->schema)
		code = set_schema(t, a->schema, e);
	for (size_t i = 0; i < a->setting_count && !code; i++)
		code = apply_setting(t, a->settings[i], e);
	return code;
}
