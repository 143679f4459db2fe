/* The terminal, or the files and pipes in its place: output of a model, lines of input, and Ctrl-C.
 *
 * A terminal gets no control characters except newline and tab. Others of ASCII are shown as ^ and
 * a letter (escape as ^[); those beyond ASCII, and bytes that are not UTF-8, as U+FFFD. Files and
 * pipes get every byte unchanged. */
#ifndef MOEFS_FS_COMMANDS_TERMINAL_H
#define MOEFS_FS_COMMANDS_TERMINAL_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <stdbool.h>

/* ---- output of a model ---- */

struct terminal_output {
	int fd;
	bool terminal;	  /* fd is a terminal */
	bool dim;	  /* in faint letters, on a terminal */
	bool begun;	  /* something was shown */
	char last;	  /* the last byte shown */
	struct text held; /* the first bytes of an incomplete character */
};

void terminal_begin(struct terminal_output *s, int fd, bool dim);
int terminal_show(struct terminal_output *s, const char *data, size_t size, struct err *e);
/* Shows the bytes still held, and ends the line and the faint letters. */
int terminal_end(struct terminal_output *s, struct err *e);

/* ---- waiting ---- */

/* The line that people see while a model is converted or loaded, on standard error if that is a
 * terminal. */
struct terminal_progress {
	const char *session; /* the session's folder */
	bool shown, over;    /* a line is shown; no line will be shown again */
};
enum { TERMINAL_TICK_MS = 500 };

/* Replaces the line by the model's present progress. */
void terminal_show_progress(struct terminal_progress *p);
/* Removes the line for good. */
void terminal_end_progress(struct terminal_progress *p);

/* From now on Ctrl-C does not end the command; terminal_wait reports it. */
void terminal_catch_interrupts(void);
/* Waits until fd can be read or has ended, for at most some milliseconds (-1: forever). Returns 0;
 * -EINTR: Ctrl-C came first; -EAGAIN: the time is over. */
int terminal_wait(int fd, int milliseconds);

/* ---- lines of input ---- */

struct terminal_lines;

/* Opens standard input for reading lines, with editing and a history if both standard input and
 * output are terminals. NULL: out of memory. */
struct terminal_lines *terminal_open_lines(void);
/* Writes the history to its file. */
void terminal_close_lines(struct terminal_lines *l);
bool terminal_edits(const struct terminal_lines *l);
/* The next line without its newline, valid until the next call. NULL: the end, or, with *cleared
 * set, Ctrl-C cleared the line. */
const char *terminal_next_line(struct terminal_lines *l, const char *prompt, bool *cleared);

#endif
