/* moefs ask: one question, its answer on standard output. */
#include "fs/commands/asked.h"
#include "fs/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char help[] =
	"usage: moefs ask [options] MODEL [WORDS...]\n"
	"\n"
	"Asks a model, and writes the answer to standard output. The question is the words, and\n"
	"below them what comes on standard input, if that is no terminal:\n"
	"    moefs ask MODEL \"Sum up:\" < text\n"
	"MODEL is the name of one that is mounted, or a path: of a mounted model, or of a\n"
	"checkpoint or GGUF file, which is mounted for as long as it takes if it is not yet.\n"
	"\n"
	"    -s SESSION         in this session of a mount, which stays; else in one of its own\n"
	"    -p PARAM=VALUE     sets a param of the session, as -p temperature=0; any number\n"
	"    --system TEXT      what stands before the conversation\n"
	"    --json             hold the answer to JSON\n"
	"    --schema FILE      hold it to this JSON schema\n"
	"    --thoughts         what the model thinks, on standard error\n"
	"    -h, --help         this text\n"
	"\n"
	"Status 0, 1 where it fails, 2 where this is not what was typed. See moefs-ask(1).\n";

/* Of standard input no more than shows that it is too long, which the tree then says. A terminal
 * has nothing to join. */
static int join_input(struct text *question, size_t most, struct err *e)
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

static int make_question(const struct asked *a, const struct talk *t, struct text *question,
			 struct err *e)
{
	for (size_t i = 0; i < a->word_count; i++) {
		text_string(question, i ? " " : "");
		text_string(question, a->words[i]);
	}
	int code = join_input(question, talk_most(t), e);
	if (!code && question->failed)
		code = err_set(e, ENOMEM, "no memory for the question");
	return code;
}

static int show(const struct talk *t, const char *file, int fd, struct err *e)
{
	struct screen screen;
	struct err ignored;
	screen_begin(&screen, fd, fd == STDERR_FILENO);
	int code = talk_show(t, file, &screen, e);
	int ended = screen_end(&screen, code ? &ignored : e);
	return code ? code : ended;
}

static int answer(const struct asked *a, const struct talk *t, const struct text *question,
		  struct err *e)
{
	int code = asked_apply(a, t, e);
	if (!code)
		code = talk_ask(t, question->data, question->length, e);
	if (!code && a->thoughts)
		code = show(t, "thoughts", STDERR_FILENO, e);
	return code ? code : show(t, "output", STDOUT_FILENO, e);
}

static int no_question(struct err *e)
{
	err_set(e, EINVAL,
		"there is no question: it is the words behind MODEL, or what comes on standard "
		"input");
	return COMMAND_WRONG;
}

static int converse(const struct asked *a, struct err *e)
{
	struct talk t;
	struct text question = {0};
	int code = talk_begin(&t, a->model, a->session, "ask", e);
	if (!code)
		code = make_question(a, &t, &question, e);
	int status = code ? COMMAND_FAILED : 0;
	if (!code && !question.length)
		status = no_question(e);
	else if (!code)
		status = answer(a, &t, &question, e) ? COMMAND_FAILED : 0;
	talk_end(&t);
	text_free(&question);
	return status;
}

int ask_run(int argc, char **argv, struct err *e)
{
	struct asked a = {.asks = true};
	int status = COMMAND_WRONG;
	if (asked_read(&a, argc, argv, e) == 0) {
		if (a.help)
			status = fputs(help, stdout) == EOF;
		else if (a.word_count || !isatty(STDIN_FILENO))
			status = converse(&a, e);
		else
			status = no_question(e);
	}
	asked_free(&a);
	return status;
}
