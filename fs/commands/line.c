/* Lines by libedit, and its history in a file. See line.h. */
#include "fs/commands/line.h"
#include "fs/commands/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { REMEMBERED = 1000 }; /* lines of history */

struct lines {
	EditLine *edit; /* NULL: lines are read as they are */
	int keys;	/* the terminal, by an open file of our own */
	History *history;
	char *file; /* of the history; NULL: it is not kept */
	const char *prompt;
	bool cleared;
	char *line; /* of getline, or what was edited */
	size_t size;
};

/* ---- the history's file ---- */

/* $XDG_STATE_HOME/moefs/history, its folders made; nobody else may read it. */
static char *history_file(void)
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
		(void)mkdir(file, 0700); /* what cannot be made is seen when it is written */
		*at = '/';
	}
	return file;
}

static void history_begin(struct lines *l)
{
	HistEvent event;
	l->history = history_init();
	if (!l->history)
		return;
	(void)history(l->history, &event, H_SETSIZE, REMEMBERED);
	(void)history(l->history, &event, H_SETUNIQUE, 1);
	l->file = history_file();
	if (l->file)
		(void)history(l->history, &event, H_LOAD, l->file);
}

static void history_write(struct lines *l)
{
	HistEvent event;
	mode_t mask = umask(S_IRWXG | S_IRWXO);
	if (l->file)
		(void)history(l->history, &event, H_SAVE, l->file);
	(void)umask(mask);
}

/* ---- editing ---- */

static struct lines *owner(EditLine *edit)
{
	void *l = NULL;
	(void)el_get(edit, EL_CLIENTDATA, &l);
	return l;
}

static char *prompt_of(EditLine *edit)
{
	return (char *)owner(edit)->prompt;
}

/* One character, as the locale writes them. Ctrl-C gives up the line. */
static int next_character(EditLine *edit, wchar_t *out)
{
	mbstate_t state = {0};
	struct lines *l = owner(edit);
	for (;;) {
		char byte;
		int woken = interrupt_wait(l->keys, -1);
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
		if (!byte) /* what Ctrl-D becomes that was typed while no line was edited */
			byte = 'D' & 0x1f;
		size_t used = mbrtowc(out, &byte, 1, &state);
		if (used == (size_t)-1)
			state = (mbstate_t){0}; /* what is no character is left out */
		else if (used != (size_t)-2)
			return 1;
	}
}

/* Answers are UTF-8, whatever the locale says. */
static void use_utf8(void)
{
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void)setlocale(LC_CTYPE, "C.UTF-8");
}

/* Ctrl-C takes back what could be read a moment before, so no read may wait; and what is shared
 * with the shell stays as it is. */
static void edit_begin(struct lines *l)
{
	char name[64];
	if (ttyname_r(STDIN_FILENO, name, sizeof name) ||
	    (l->keys = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0)
		return;
	use_utf8();
	l->edit = el_init("moefs", stdin, stdout, stderr);
	if (!l->edit)
		return;
	history_begin(l);
	(void)el_set(l->edit, EL_CLIENTDATA, l);
	(void)el_set(l->edit, EL_PROMPT, prompt_of);
	(void)el_set(l->edit, EL_EDITOR, "emacs");
	(void)el_set(l->edit, EL_GETCFN, next_character);
	if (l->history)
		(void)el_set(l->edit, EL_HIST, history, l->history);
	(void)el_source(l->edit, NULL); /* the user's ~/.editrc */
}

static const char *edit_next(struct lines *l, bool *cleared)
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

/* ---- lines ---- */

struct lines *lines_open(void)
{
	struct lines *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->keys = -1;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		edit_begin(l);
	return l;
}

void lines_close(struct lines *l)
{
	if (l->history) {
		history_write(l);
		history_end(l->history);
	}
	if (l->edit)
		el_end(l->edit);
	if (l->keys >= 0)
		close(l->keys);
	free(l->file);
	free(l->line);
	free(l);
}

bool lines_edited(const struct lines *l)
{
	return l->edit != NULL;
}

const char *lines_next(struct lines *l, const char *prompt, bool *cleared)
{
	l->prompt = prompt;
	*cleared = false;
	if (l->edit) {
		if (!edit_next(l, cleared))
			return NULL;
	} else if (getline(&l->line, &l->size, stdin) < 0) {
		return NULL;
	}
	l->line[strcspn(l->line, "\n")] = 0;
	return l->line;
}
