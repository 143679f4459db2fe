/* The terminal, or the files and pipes in its place: what a model says goes there, lines come from
 * there, and Ctrl-C.
 *
 * A terminal gets no control character but newline and tab, whatever the model says: ^[ stands for
 * escape, and U+FFFD for control characters beyond ASCII and for bytes that are not UTF-8. Files
 * and pipes get every byte as it is. */
#ifndef MOEFS_FS_COMMANDS_TERMINAL_H
#define MOEFS_FS_COMMANDS_TERMINAL_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <stdbool.h>

/* ---- what a model says ---- */

struct terminal_output {
	int fd;
	bool terminal;	  /* fd is one */
	bool dim;	  /* in faint letters, on a terminal */
	bool begun;	  /* something was shown */
	char last;	  /* the last byte shown */
	struct text held; /* the first bytes of a character whose end has not come yet */
};

void terminal_begin(struct terminal_output *s, int fd, bool dim);
int terminal_show(struct terminal_output *s, const char *data, size_t size, struct err *e);
/* Shows what is still held and ends the line and the faint letters. */
int terminal_end(struct terminal_output *s, struct err *e);

/* ---- waiting ---- */

/* The line that a person sees while a model is converted or loaded, on standard error if that is a
 * terminal. */
struct terminal_progress {
	const char *session; /* the session's folder */
	bool shown, over;    /* a line is shown; something else is shown from now on */
};
enum { TERMINAL_TICK_MS = 500 };

/* Shows how far the model is, in place of the line before. */
void terminal_show_progress(struct terminal_progress *p);
/* Removes the line for good. */
void terminal_end_progress(struct terminal_progress *p);

/* From now on Ctrl-C does not end the command: terminal_wait reports it. */
void terminal_catch_interrupts(void);
/* Waits until fd can be read or has ended, at most for milliseconds (-1: forever). 0; -EINTR:
 * Ctrl-C came first; -EAGAIN: the time is over. */
int terminal_wait(int fd, int milliseconds);

/* ---- lines that a person types ---- */

struct terminal_lines;

/* Lines of standard input; with editing and a history if it and standard output are terminals.
 * NULL: out of memory. */
struct terminal_lines *terminal_open_lines(void);
/* Writes the history to its file. */
void terminal_close_lines(struct terminal_lines *l);
bool terminal_edits(const struct terminal_lines *l);
/* The next line without its newline, valid until the next call. NULL at the end, or, with *cleared
 * set, if Ctrl-C has cleared the line. */
const char *terminal_next_line(struct terminal_lines *l, const char *prompt, bool *cleared);

#endif
