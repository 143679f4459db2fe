/* moefs ask: one question, with the answer on standard output. Also the functions of ask.h. */
#include "fs/commands/ask.h"
#include "fs/commands/commands.h"
#include "fs/program/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
	"usage: moefs ask [options] MODEL [WORDS...]\n"
	"\n"
	"Asks a model a question and writes the answer to standard output. The question is\n"
	"the words, followed by standard input if that is not a terminal:\n"
	"    moefs ask MODEL \"Sum up:\" < text\n"
	"MODEL is the name of a mounted model, or a path: of a mounted model, a checkpoint\n"
	"or a GGUF file. A model that is not mounted is mounted for this question.\n"
	"\n"
	"    -s SESSION         ask in this session, which stays (default: a new session,\n"
	"                       which is removed)\n"
	"    -p PARAM=VALUE     set a param of the session, such as temperature=0; may be\n"
	"                       repeated\n"
	"    --system TEXT      the system prompt\n"
	"    --json             the answer is JSON\n"
	"    --schema FILE      the answer follows this JSON schema\n"
	"    --thoughts         show what the model thinks, on standard error\n"
	"    --plan             do not ask: show what the answer would cost\n"
	"    -h, --help         show this help\n"
	"\n"
	"Exit status: 0, 1 if it failed, 2 if the command line is wrong. See moefs-ask(1).\n";

/* ---- the command line ---- */

enum { SYSTEM = 256, JSON, SCHEMA, THOUGHTS, PLAN };

static const struct option long_options[] = {
	{"help", no_argument, NULL, 'h'},	   {"system", required_argument, NULL, SYSTEM},
	{"json", no_argument, NULL, JSON},	   {"schema", required_argument, NULL, SCHEMA},
	{"thoughts", no_argument, NULL, THOUGHTS}, {"plan", no_argument, NULL, PLAN},
	{NULL, 0, NULL, 0},
};

static int ask_add_setting(struct ask_options *a, const char *setting, struct err *e)
{
	if (!strchr(setting, '='))
		return err_set(e, EINVAL, "-p %s: write -p PARAM=VALUE", setting);
	const char **grown = realloc(a->settings, (a->setting_count + 1) * sizeof *grown);
	if (!grown)
		return err_set(e, ENOMEM, "no memory for -p %s", setting);
	a->settings = grown;
	grown[a->setting_count++] = setting;
	return 0;
}

/* word: the word at which getopt_long stopped, for the sentence. */
static int ask_take_option(struct ask_options *a, int option, const char *word, struct err *e)
{
	if (!a->asks && option >= JSON)
		return err_set(e, EINVAL, "only moefs ask has --json, --schema, --thoughts and --plan");
	switch (option) {
	case 's':
		a->session = optarg;
		return 0;
	case 'p':
		return ask_add_setting(a, optarg, e);
	case 'h':
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
	case PLAN:
		a->plan = true;
		return 0;
	case ':':
		return err_set(e, EINVAL, "%s needs a value after it", word);
	default:
		if (optopt > 0 && strncmp(word, "--", 2) != 0) /* may be one of several letters */
			return err_set(e, EINVAL, "-%c: there is no such option", optopt);
		return err_set(e, EINVAL, "%s: there is no such option", word);
	}
}

/* Reads options until a word or --. *ended: it was --, which is skipped. */
static int ask_take_options(struct ask_options *a, int argc, char **argv, bool *ended,
			    struct err *e)
{
	for (;;) {
		int before = optind;
		int option = getopt_long(argc, argv, "+:hs:p:", long_options, NULL);
		if (option == -1) {
			*ended = optind > before && !strcmp(argv[optind - 1], "--");
			return 0;
		}
		int code = ask_take_option(a, option, argv[optind - 1], e);
		if (code)
			return code;
	}
}

/* Options come before the model or directly after it. After -- there are no options, so words may
 * begin with a hyphen. */
int ask_read_options(struct ask_options *a, int argc, char **argv, struct err *e)
{
	bool ended = false;
	opterr = 0;
	optind = 0; /* GNU: begin again */
	int code = ask_take_options(a, argc, argv, &ended, e);
	if (!code && optind < argc)
		a->model = argv[optind++];
	if (!code && !ended)
		code = ask_take_options(a, argc, argv, &ended, e);
	if (code || a->help)
		return code;
	a->words = argv + optind;
	a->word_count = a->model ? (size_t)(argc - optind) : 0;
	code = ended ? 0 : options_refuse_words(a->words, a->word_count, "the question", e);
	if (code)
		return code;
	if (!a->model)
		return err_set(e, EINVAL, "no MODEL is given (moefs list shows the mounted ones)");
	if (a->json && a->schema)
		return err_set(e, EINVAL, "--json and --schema exclude each other");
	if (!a->asks && a->word_count)
		return err_set(e, EINVAL, "chat takes no words: type questions line by line");
	return 0;
}

void ask_free_options(struct ask_options *a)
{
	free(a->settings);
}

/* ---- the session's params ---- */

static int ask_set(const struct talk *t, const char *param, const char *value, struct err *e)
{
	return talk_set(t, param, value, strlen(value), e);
}

static int ask_set_schema(const struct talk *t, const char *path, struct err *e)
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
		code = ask_set(t, "format", "schema", e);
	if (!code)
		code = talk_set(t, "grammar", source.data ? source.data : "", source.length, e);
	text_free(&source);
	return code;
}

int ask_set_params(const struct ask_options *a, const struct talk *t, struct err *e)
{
	int code = a->system ? ask_set(t, "system", a->system, e) : 0;
	if (!code && a->json)
		code = ask_set(t, "format", "json", e);
	if (!code && a->schema)
		code = ask_set_schema(t, a->schema, e);
	for (size_t i = 0; i < a->setting_count && !code; i++) {
		const char *value = strchr(a->settings[i], '=') + 1;
		char param[256];
		(void)snprintf(param, sizeof param, "%.*s", (int)(value - a->settings[i] - 1),
			       a->settings[i]);
		code = ask_set(t, param, value, e);
	}
	return code;
}

/* ---- the question and its answer ---- */

/* Adds standard input below the words, unless it is a terminal. If the input is too long, adds just
 * enough for the tree to refuse the question with a sentence. */
static int ask_add_input(struct text *question, size_t most, struct err *e)
{
	bool words = question->length > 0;
	char piece[1 << 16];
	while (!isatty(STDIN_FILENO) && question->length <= most + 1 && !question->failed) {
		ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "cannot read standard input");
		if (n > 0 && words)
			text_string(question, "\n");
		words = words && n <= 0;
		text_add(question, piece, n > 0 ? (size_t)n : 0);
	}
	return 0;
}

static int ask_no_question(struct err *e)
{
	err_set(e, EINVAL,
		"no question is given: type it after MODEL, or pass it on standard input");
	return COMMAND_WRONG;
}

static int ask_answer(const struct ask_options *a, const struct talk *t, struct err *e)
{
	struct text question = {0};
	for (size_t i = 0; i < a->word_count; i++) {
		text_string(&question, i ? " " : "");
		text_string(&question, a->words[i]);
	}
	int code = ask_add_input(&question, talk_longest(t), e), status = COMMAND_FAILED;
	if (!code && question.failed)
		code = err_set(e, ENOMEM, "no memory for the question");
	if (!code && !question.length)
		status = ask_no_question(e);
	else if (!code) {
		code = ask_set_params(a, t, e);
		if (!code && a->plan)
			code = talk_plan(t, question.data, question.length, e);
		else if (!code)
			code = talk_ask(t, question.data, question.length, e);
		if (!code && a->thoughts && !a->plan)
			code = talk_show(t, "thoughts", STDERR_FILENO, true, e);
		if (!code && !a->plan)
			code = talk_show(t, "output", STDOUT_FILENO, false, e);
		status = code ? COMMAND_FAILED : 0;
	}
	text_free(&question);
	return status;
}

int ask_run(int argc, char **argv, struct err *e)
{
	struct ask_options a = {.asks = true};
	struct talk t;
	int status = COMMAND_WRONG;
	if (ask_read_options(&a, argc, argv, e) == 0) {
		if (a.help)
			status = fputs(help, stdout) == EOF;
		else if (!a.word_count && isatty(STDIN_FILENO))
			status = ask_no_question(e);
		else {
			status = talk_begin(&t, a.model, a.session, "ask", e)
					 ? COMMAND_FAILED
					 : ask_answer(&a, &t, e);
			talk_end(&t);
		}
	}
	ask_free_options(&a);
	return status;
}
