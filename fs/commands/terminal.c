/* See terminal.h. libedit edits lines. */
#include "fs/commands/terminal.h"
#include "cache/utf8.h"
#include "fs/base/standard.h"
#include "fs/commands/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

/* ---- output of a model ---- */

static int terminal_write(const struct terminal_output *s, const char *data, size_t size,
			  struct err *e)
{
	int code = standard_write_all(s->fd, data, size);
	return code ? err_sys(e, code, "cannot write the answer") : 0;
}

/* Adds the whole characters of `from` (if `last`, all of it), and returns the number of bytes
 * added. */
static size_t terminal_add_characters(struct text *out, const struct text *from, bool last)
{
	static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
	size_t at = 0;
	while (at < from->length) {
		const char *c = from->data + at;
		size_t left = from->length - at, n = utf8_length(c, left), bytes;
		if (!n && utf8_promised_length(*c) > left && !last)
			break;
		uint32_t code = n ? utf8_decode(c, &bytes) : 0;
		if (n && (code < ' ' || code == 0x7f) && code != '\n' && code != '\t')
			text_format(out, "^%c", (char)(code ^ 0x40));
		else if (!n || (code >= 0x80 && code < 0xa0))
			text_string(out, replacement);
		else
			text_add(out, c, n);
		at += n ? n : 1;
	}
	return at;
}

static int terminal_show_held(struct terminal_output *s, bool last, struct err *e)
{
	struct text out = {0};
	if (s->dim && !s->begun)
		text_string(&out, "\033[2m");
	size_t before = out.length, done = terminal_add_characters(&out, &s->held, last);
	int code = out.failed || s->held.failed ? err_set(e, ENOMEM, "no memory for an answer") : 0;
	if (!code && out.length > before) {
		s->begun = true;
		s->last = out.data[out.length - 1];
		code = terminal_write(s, out.data, out.length, e);
	}
	if (done) {
		memmove(s->held.data, s->held.data + done, s->held.length - done);
		text_cut(&s->held, s->held.length - done);
	}
	text_free(&out);
	return code;
}

void terminal_begin(struct terminal_output *s, int fd, bool dim)
{
	*s = (struct terminal_output){.fd = fd, .terminal = isatty(fd)};
	s->dim = dim && s->terminal;
}

int terminal_show(struct terminal_output *s, const char *data, size_t size, struct err *e)
{
	if (!s->terminal)
		return terminal_write(s, data, size, e);
	text_add(&s->held, data, size);
	return terminal_show_held(s, false, e);
}

int terminal_end(struct terminal_output *s, struct err *e)
{
	int code = s->terminal ? terminal_show_held(s, true, e) : 0;
	text_free(&s->held);
	if (!code && s->begun && s->dim)
		code = terminal_write(s, "\033[0m", 4, e);
	if (!code && s->begun && s->last != '\n')
		code = terminal_write(s, "\n", 1, e);
	return code;
}

/* ---- waiting ---- */

void terminal_show_progress(struct terminal_progress *p)
{
	char state[64], progress[256];
	if (!isatty(STDERR_FILENO) ||
	    mounts_value(p->session, "../../info/state", state, sizeof state) ||
	    mounts_value(p->session, "../../info/progress", progress, sizeof progress))
		return;
	bool idle = strcmp(progress, "idle") == 0;
	if (!idle || strcmp(state, "loading") == 0) {
		(void)dprintf(STDERR_FILENO, "\r\033[Kmoefs: %s", idle ? state : progress);
		p->shown = true;
	}
}

void terminal_end_progress(struct terminal_progress *p)
{
	if (p->shown)
		(void)dprintf(STDERR_FILENO, "\r\033[K");
	p->shown = false;
	p->over = true;
}

static int interrupts = -1; /* a signalfd for SIGINT, once it is caught */

void terminal_catch_interrupts(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	interrupts = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (interrupts >= 0) /* else Ctrl-C ends the command as usual */
		(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Checks Ctrl-C first: the terminal drops the input typed before it. */
int terminal_wait(int fd, int milliseconds)
{
	struct pollfd wanted[] = {{.fd = interrupts, .events = POLLIN},
				  {.fd = fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	int ready = poll(wanted, 2, milliseconds);
	if (ready == 0)
		return -EAGAIN;
	if (ready < 0) /* reading fd shows other errors */
		return errno == EINTR ? -EAGAIN : 0;
	return wanted[0].revents && read(interrupts, &info, sizeof info) > 0 ? -EINTR : 0;
}

/* ---- lines of input ---- */

enum { HISTORY_LINES = 1000 };

struct terminal_lines {
	EditLine *edit; /* NULL: lines are read without editing */
	int keys;	/* the terminal, opened again */
	History *history;
	char *file; /* of the history; NULL: no history is kept */
	const char *prompt;
	bool cleared;
	char *line; /* from getline, or a copy of the edited one */
	size_t size;
};

/* $XDG_STATE_HOME/moefs/history. Makes its folders with access only for the user. */
static char *terminal_history_file(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *file = NULL;
	int n = -1;
	if (state && *state == '/')
		n = asprintf(&file, "%s/moefs/history", state);
	else if (home && *home == '/')
		n = asprintf(&file, "%s/.local/state/moefs/history", home);
	if (n < 0)
		return NULL;
	for (char *at = file + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		(void)mkdir(file, 0700); /* a failure shows when the history is written */
		*at = '/';
	}
	return file;
}

static struct terminal_lines *terminal_lines_of(EditLine *edit)
{
	void *l = NULL;
	(void)el_get(edit, EL_CLIENTDATA, &l);
	return l;
}

static char *terminal_prompt(EditLine *edit)
{
	return (char *)terminal_lines_of(edit)->prompt;
}

/* libedit's EL_GETCFN: reads one character in the locale's encoding. Ctrl-C cancels the line. */
static int terminal_get_character(EditLine *edit, wchar_t *out)
{
	mbstate_t state = {0};
	struct terminal_lines *l = terminal_lines_of(edit);
	for (;;) {
		char byte;
		int woken = terminal_wait(l->keys, -1);
		if (woken == -EAGAIN)
			continue;
		if (woken) {
			l->cleared = true;
			return -1;
		}
		ssize_t n = read(l->keys, &byte, 1);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return (int)n;
		if (!byte) /* Ctrl-D, if it was typed while no line was edited */
			byte = 'D' & 0x1f;
		size_t used = mbrtowc(out, &byte, 1, &state);
		if (used == (size_t)-1)
			state = (mbstate_t){0}; /* bytes that are not a character are dropped */
		else if (used != (size_t)-2)
			return 1;
	}
}

/* Opens the terminal again, nonblocking: Ctrl-C drops input that was readable a moment before, so
 * no read may block, and the description shared with the shell must not change. */
static void terminal_begin_editing(struct terminal_lines *l)
{
	char name[64];
	HistEvent event;
	if (ttyname_r(STDIN_FILENO, name, sizeof name) ||
	    (l->keys = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0)
		return;
	/* Output is UTF-8, so the locale must be, too. */
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void)setlocale(LC_CTYPE, "C.UTF-8");
	l->edit = el_init("moefs", stdin, stdout, stderr);
	if (!l->edit)
		return;
	(void)el_set(l->edit, EL_CLIENTDATA, l);
	(void)el_set(l->edit, EL_PROMPT, terminal_prompt);
	(void)el_set(l->edit, EL_EDITOR, "emacs");
	(void)el_set(l->edit, EL_GETCFN, terminal_get_character);
	l->history = history_init();
	if (l->history) {
		(void)history(l->history, &event, H_SETSIZE, HISTORY_LINES);
		(void)history(l->history, &event, H_SETUNIQUE, 1);
		l->file = terminal_history_file();
		if (l->file)
			(void)history(l->history, &event, H_LOAD, l->file);
		(void)el_set(l->edit, EL_HIST, history, l->history);
	}
	(void)el_source(l->edit, NULL); /* the user's ~/.editrc */
}

struct terminal_lines *terminal_open_lines(void)
{
	struct terminal_lines *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->keys = -1;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		terminal_begin_editing(l);
	return l;
}

void terminal_close_lines(struct terminal_lines *l)
{
	HistEvent event;
	mode_t mask = umask(S_IRWXG | S_IRWXO); /* nobody else may read the history */
	if (l->history && l->file)
		(void)history(l->history, &event, H_SAVE, l->file);
	(void)umask(mask);
	if (l->history)
		history_end(l->history);
	if (l->edit)
		el_end(l->edit);
	if (l->keys >= 0)
		close(l->keys);
	free(l->file);
	free(l->line);
	free(l);
}

bool terminal_edits(const struct terminal_lines *l)
{
	return l->edit != NULL;
}

static const char *terminal_edit_line(struct terminal_lines *l, bool *cleared)
{
	int count = 0;
	HistEvent event;
	l->cleared = false;
	el_resize(l->edit);
	const char *line = el_gets(l->edit, &count);
	*cleared = l->cleared;
	if (*cleared || !line || count <= 0) {
		(void)putchar('\n');
		(void)fflush(stdout);
		return NULL;
	}
	if (l->history && line[strspn(line, " \t\n")])
		(void)history(l->history, &event, H_ENTER, line);
	free(l->line);
	l->line = strdup(line);
	return l->line;
}

const char *terminal_next_line(struct terminal_lines *l, const char *prompt, bool *cleared)
{
	l->prompt = prompt;
	*cleared = false;
	if (l->edit) {
		if (!terminal_edit_line(l, cleared))
			return NULL;
	} else if (getline(&l->line, &l->size, stdin) < 0) {
		return NULL;
	}
	l->line[strcspn(l->line, "\n")] = 0;
	return l->line;
}
