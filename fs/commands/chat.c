/* moefs chat: a conversation, line by line. */
#include "fs/commands/ask.h"
#include "fs/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: moefs chat [options] MODEL\n"
	"\n"
	"Holds a conversation: each line is a question. /help lists commands.\n"
	"MODEL is the name of a mounted model, or a path: of a mounted model, a checkpoint\n"
	"or a GGUF file. A model that is not mounted is mounted for this conversation.\n"
	"\n"
	"    -s SESSION         talk in this session, which stays (default: a new session,\n"
	"                       which is removed)\n"
	"    -p PARAM=VALUE     set a param of the session, such as temperature=0; may be\n"
	"                       repeated\n"
	"    --system TEXT      the system prompt\n"
	"    -h, --help         show this help\n"
	"\n"
	"See moefs-chat(1).\n";

struct chat_loop {
	struct talk talk;
	struct terminal_lines *lines;
	bool quits, failed;
};

static int chat_answer(struct chat_loop *c, struct err *e)
{
	int code = 0;
	if (terminal_edits(c->lines))
		code = talk_show(&c->talk, "thoughts", STDOUT_FILENO, true, e);
	return code ? code : talk_show(&c->talk, "output", STDOUT_FILENO, false, e);
}

/* ---- commands in the conversation ---- */

struct chat_verb {
	const char *name, *rest; /* rest: what must follow; NULL: nothing may follow */
	int (*run)(struct chat_loop *c, const struct chat_verb *v, char *rest, struct err *e);
	const char *what;
};

/* undo, reset and retry are verbs of the session's ctl. */
static int chat_ctl(struct chat_loop *c, const struct chat_verb *v, char *rest, struct err *e)
{
	(void)rest;
	int code = talk_verb(&c->talk, v->name, e);
	return code || strcmp(v->name, "retry") != 0 ? code : chat_answer(c, e);
}

/* Expands ~/, which no shell does for this line. */
static int chat_file(struct chat_loop *c, const struct chat_verb *v, char *path, struct err *e)
{
	const char *home = path[0] == '~' && path[1] == '/' ? getenv("HOME") : NULL;
	char *whole = NULL;
	if (asprintf(&whole, "%s%s", home ? home : "", path + (home ? 1 : 0)) < 0)
		return err_set(e, ENOMEM, "no memory for a file's name");
	int code = strcmp(v->name, "save") ? talk_load(&c->talk, whole, e)
					   : talk_save(&c->talk, whole, e);
	free(whole);
	return code;
}

static int chat_set(struct chat_loop *c, const struct chat_verb *v, char *rest, struct err *e)
{
	(void)v;
	char *value = rest + strcspn(rest, " \t");
	if (*value)
		*value++ = 0;
	return talk_set(&c->talk, rest, value, strlen(value), e);
}

static int chat_quit(struct chat_loop *c, const struct chat_verb *v, char *rest, struct err *e)
{
	(void)v, (void)rest, (void)e;
	c->quits = true;
	return 0;
}

static int chat_help(struct chat_loop *c, const struct chat_verb *v, char *rest, struct err *e);

static const struct chat_verb verbs[] = {
	{"undo", NULL, chat_ctl, "forget the last question and its answer"},
	{"retry", NULL, chat_ctl, "answer the last question again"},
	{"reset", NULL, chat_ctl, "forget the conversation"},
	{"save", "FILE", chat_file, "save the conversation and its computed state"},
	{"load", "FILE", chat_file, "go on with a saved conversation"},
	{"set", "PARAM VALUE", chat_set, "set a param for the next answers; see moefs(5)"},
	{"help", NULL, chat_help, "show this list"},
	{"quit", NULL, chat_quit, "end the conversation, like Ctrl-D"},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int chat_help(struct chat_loop *c, const struct chat_verb *v, char *rest, struct err *e)
{
	(void)c, (void)rest, (void)e;
	for (v = verbs; v < verbs + VERBS; v++)
		(void)printf("/%s%s%-*s %s\n", v->name, v->rest ? " " : "",
			     18 - (int)strlen(v->name) - (v->rest != NULL), v->rest ? v->rest : "",
			     v->what);
	(void)puts("Ctrl-C stops an answer. A line that ends in \\ goes on in the next line. A "
		   "text of "
		   "several\nlines may stand between \"\"\" and \"\"\". To begin a question with "
		   "/, type //.");
	(void)fflush(stdout);
	return 0;
}

static int chat_run_verb(struct chat_loop *c, char *line, struct err *e)
{
	char *rest = line + strcspn(line, " \t");
	size_t length = (size_t)(rest - line);
	rest += strspn(rest, " \t");
	for (size_t i = 0; i < VERBS; i++) {
		const struct chat_verb *v = &verbs[i];
		if (strlen(v->name) != length || strncmp(v->name, line, length) != 0)
			continue;
		if (!*rest != !v->rest)
			return err_set(e, EINVAL, "write /%s%s%s", v->name, v->rest ? " " : "",
				       v->rest ? v->rest : "");
		return v->run(c, v, rest, e);
	}
	return err_set(
		e, EINVAL,
		"\"/%.*s\" is not a command: /help lists the commands; to begin a question with /, "
		"type //",
		(int)length, line);
}

/* ---- questions ---- */

static const char fence[] = "\"\"\"";
enum { FENCE = sizeof fence - 1 };

static bool chat_cut_end(struct text *t, const char *end)
{
	size_t length = strlen(end);
	if (t->length < length || memcmp(t->data + t->length - length, end, length) != 0)
		return false;
	text_cut(t, t->length - length);
	return true;
}

/* Reads one line, or several that belong together, and a NUL. False: the end, or Ctrl-C cleared the
 * line. */
static bool chat_read_question(struct chat_loop *c, struct text *out, bool *cleared)
{
	const char *line = terminal_next_line(c->lines, "> ", cleared);
	bool fenced = line && strncmp(line, fence, FENCE) == 0, more = false;
	if (fenced)
		line += FENCE;
	while (line) {
		text_string(out, line);
		more = fenced ? !chat_cut_end(out, fence) : chat_cut_end(out, "\\");
		if (!more)
			break;
		text_string(out, "\n");
		line = terminal_next_line(c->lines, ". ", cleared);
	}
	text_add(out, "", 1);
	return line ||
	       (more && !*cleared); /* if the input ends within a question, ask the question */
}

static int chat_run_line(struct chat_loop *c, struct text *line, struct err *e)
{
	char *text = line->data;
	if (line->failed)
		return err_set(e, ENOMEM, "no memory for a line");
	if (!text[strspn(text, " \t\n")])
		return 0;
	if (text[0] == '/' && text[1] != '/')
		return chat_run_verb(c, text + 1, e);
	text += text[0] == '/';
	int code = talk_ask(&c->talk, text, strlen(text), e);
	return code ? code : chat_answer(c, e);
}

/* A failure does not end the conversation. */
static void chat_converse(struct chat_loop *c)
{
	bool more = true;
	while (more && !c->quits) {
		struct text line = {0};
		struct err e = {0};
		bool cleared = false;
		more = chat_read_question(c, &line, &cleared);
		if (more && chat_run_line(c, &line, &e)) {
			c->failed = true;
			(void)fprintf(stderr, "moefs: %s\n", e.text);
		}
		more = more || cleared;
		text_free(&line);
	}
}

static int chat_begin(const struct ask_options *a, struct err *e)
{
	struct chat_loop c = {0};
	int code = talk_begin(&c.talk, a->model, a->session, "chat", e);
	if (!code)
		code = ask_set_params(a, &c.talk, e);
	if (!code && !(c.lines = terminal_open_lines()))
		code = err_set(e, ENOMEM, "no memory for lines");
	if (!code) {
		terminal_catch_interrupts();
		if (terminal_edits(c.lines))
			(void)printf("%s. /help lists commands, Ctrl-D ends.\n", a->model);
		chat_converse(&c);
		c.failed = c.failed && !terminal_edits(c.lines); /* a person has seen it */
		terminal_close_lines(c.lines);
	}
	talk_end(&c.talk);
	return code || c.failed ? COMMAND_FAILED : 0;
}

int chat_run(int argc, char **argv, struct err *e)
{
	struct ask_options a = {0};
	int status = COMMAND_WRONG;
	if (ask_read_options(&a, argc, argv, e) == 0)
		status = a.help ? fputs(usage, stdout) == EOF : chat_begin(&a, e);
	ask_free_options(&a);
	return status;
}
