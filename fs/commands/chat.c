/* moefs chat: a conversation, line by line. */
#include "fs/commands/asked.h"
#include "fs/commands/commands.h"
#include "fs/commands/interrupt.h"
#include "fs/commands/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: moefs chat [options] MODEL\n"
	"\n"
	"A conversation: each line is a question. /help in it lists what else there is.\n"
	"MODEL is the name of one that is mounted, or a path: of a mounted model, or of a\n"
	"checkpoint or GGUF file, which is mounted for as long as it takes if it is not yet.\n"
	"\n"
	"    -s SESSION         in this session of a mount, which stays; else in one of its own\n"
	"    -p PARAM=VALUE     sets a param of the session, as -p temperature=0; any number\n"
	"    --system TEXT      what stands before the conversation\n"
	"    -h, --help         this text\n"
	"\n"
	"See moefs-chat(1).\n";

struct chat {
	struct talk talk;
	struct lines *lines;
	bool quits, failed;
};

/* ---- answers ---- */

static int show(struct chat *c, const char *file, bool dim, struct err *e)
{
	struct screen screen;
	struct err ignored;
	screen_begin(&screen, STDOUT_FILENO, dim);
	int code = talk_show(&c->talk, file, &screen, e);
	int ended = screen_end(&screen, code ? &ignored : e);
	return code ? code : ended;
}

static int show_answer(struct chat *c, struct err *e)
{
	int code = lines_edited(c->lines) ? show(c, "thoughts", true, e) : 0;
	return code ? code : show(c, "output", false, e);
}

/* ---- verbs ---- */

static int undo(struct chat *c, char *rest, struct err *e)
{
	(void)rest;
	return talk_verb(&c->talk, "undo", e);
}

static int reset(struct chat *c, char *rest, struct err *e)
{
	(void)rest;
	return talk_verb(&c->talk, "reset", e);
}

static int retry(struct chat *c, char *rest, struct err *e)
{
	(void)rest;
	int code = talk_verb(&c->talk, "retry", e);
	return code ? code : show_answer(c, e);
}

/* ~/ is the shell's, which does not see this line. */
static int with_path(struct chat *c, const char *path, struct err *e,
		     int (*run)(const struct talk *, const char *, struct err *))
{
	const char *home = path[0] == '~' && path[1] == '/' ? getenv("HOME") : NULL;
	char *whole = NULL;
	if (asprintf(&whole, "%s%s", home ? home : "", path + (home ? 1 : 0)) < 0)
		return err_set(e, ENOMEM, "no memory for a file's name");
	int code = run(&c->talk, whole, e);
	free(whole);
	return code;
}

static int save(struct chat *c, char *rest, struct err *e)
{
	return with_path(c, rest, e, talk_save);
}

static int load(struct chat *c, char *rest, struct err *e)
{
	return with_path(c, rest, e, talk_load);
}

static int set(struct chat *c, char *rest, struct err *e)
{
	char *value = rest + strcspn(rest, " \t");
	if (*value)
		*value++ = 0;
	return talk_set(&c->talk, rest, value, strlen(value), e);
}

static int quit(struct chat *c, char *rest, struct err *e)
{
	(void)rest;
	(void)e;
	c->quits = true;
	return 0;
}

static int help(struct chat *c, char *rest, struct err *e);

static const struct verb {
	const char *name, *rest; /* rest: what must follow; NULL: nothing may */
	int (*run)(struct chat *c, char *rest, struct err *e);
	const char *what;
} verbs[] = {
	{"undo", NULL, undo, "forget the last question and its answer"},
	{"retry", NULL, retry, "make the last answer anew"},
	{"reset", NULL, reset, "forget the conversation"},
	{"save", "FILE", save, "save the conversation, with all that is computed of it"},
	{"load", "FILE", load, "go on with one that was saved"},
	{"set", "PARAM VALUE", set, "a param of the session, for the next answer; see moefs(5)"},
	{"help", NULL, help, "this list"},
	{"quit", NULL, quit, "end, as Ctrl-D does"},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int help(struct chat *c, char *rest, struct err *e)
{
	(void)c;
	(void)rest;
	(void)e;
	for (size_t i = 0; i < VERBS; i++)
		(void)printf("/%s%s%-*s %s\n", verbs[i].name, verbs[i].rest ? " " : "",
			     18 - (int)strlen(verbs[i].name) - (verbs[i].rest != NULL),
			     verbs[i].rest ? verbs[i].rest : "", verbs[i].what);
	(void)puts(
		"Ctrl-C stops an answer. A line that ends in \\ goes on, and one that begins "
		"with \"\"\"\nup to a line that ends so. One that begins with // begins with /.");
	(void)fflush(stdout);
	return 0;
}

static int run_verb(struct chat *c, char *line, struct err *e)
{
	char *rest = line + strcspn(line, " \t");
	size_t length = (size_t)(rest - line);
	rest += strspn(rest, " \t");
	for (size_t i = 0; i < VERBS; i++) {
		const struct verb *v = &verbs[i];
		if (strlen(v->name) != length || strncmp(v->name, line, length) != 0)
			continue;
		if (!*rest != !v->rest)
			return err_set(e, EINVAL, "it is /%s%s%s", v->name, v->rest ? " " : "",
				       v->rest ? v->rest : "");
		return v->run(c, rest, e);
	}
	return err_set(e, EINVAL, "/%.*s is no verb: /help lists them, and // begins a text with /",
		       (int)length, line);
}

/* ---- questions ---- */

static const char fence[] = "\"\"\"";
enum { FENCE = sizeof fence - 1 };

static bool cut_end(struct text *t, const char *end)
{
	size_t length = strlen(end);
	if (t->length < length || memcmp(t->data + t->length - length, end, length) != 0)
		return false;
	text_cut(t, t->length - length);
	return true;
}

/* One line, or several where they say so, with a NUL behind. False: the end, or it was cleared. */
static bool read_question(struct chat *c, struct text *out, bool *cleared)
{
	const char *line = lines_next(c->lines, "> ", cleared);
	bool fenced = line && strncmp(line, fence, FENCE) == 0, more = false;
	if (fenced)
		line += FENCE;
	while (line) {
		text_string(out, line);
		more = fenced ? !cut_end(out, fence) : cut_end(out, "\\");
		if (!more)
			break;
		text_string(out, "\n");
		line = lines_next(c->lines, ". ", cleared);
	}
	text_add(out, "", 1);
	return line || (more && !*cleared); /* what the end of a file cuts off is asked */
}

static int run_line(struct chat *c, struct text *line, struct err *e)
{
	char *text = line->data;
	if (line->failed)
		return err_set(e, ENOMEM, "no memory for a line");
	if (!text[strspn(text, " \t\n")])
		return 0;
	if (text[0] == '/' && text[1] != '/')
		return run_verb(c, text + 1, e);
	text += text[0] == '/';
	int code = talk_ask(&c->talk, text, strlen(text), e);
	return code ? code : show_answer(c, e);
}

/* What fails ends no conversation, and is the command's status where nobody saw it. */
static void converse(struct chat *c)
{
	bool more = true;
	while (more && !c->quits) {
		struct text line = {0};
		struct err e = {0};
		bool cleared = false;
		more = read_question(c, &line, &cleared);
		if (more && run_line(c, &line, &e)) {
			c->failed = true;
			(void)fprintf(stderr, "moefs: %s\n", e.text);
		}
		more = more || cleared;
		text_free(&line);
	}
}

static int chat(const struct asked *a, struct err *e)
{
	struct chat c = {0};
	int code = talk_begin(&c.talk, a->model, a->session, "chat", e);
	if (!code)
		code = asked_apply(a, &c.talk, e);
	if (!code && !(c.lines = lines_open()))
		code = err_set(e, ENOMEM, "no memory for lines");
	if (!code) {
		interrupt_catch();
		if (lines_edited(c.lines))
			(void)printf("%s. Ctrl-D ends, /help lists what else there is.\n",
				     a->model);
		converse(&c);
		c.failed = c.failed && !lines_edited(c.lines);
		lines_close(c.lines);
	}
	talk_end(&c.talk);
	return code || c.failed ? COMMAND_FAILED : 0;
}

int chat_run(int argc, char **argv, struct err *e)
{
	struct asked a = {0};
	int status = COMMAND_WRONG;
	if (asked_read(&a, argc, argv, e) == 0)
		status = a.help ? fputs(usage, stdout) == EOF : chat(&a, e);
	asked_free(&a);
	return status;
}
