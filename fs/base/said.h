/* What the daemon has to say: whole sentences, to the terminal while it is in the foreground, and
 * to a log (-o log=); and a line of progress, to the terminal alone.
 *
 * The loop says it and never waits: a thread of its own writes, and what comes faster than a slow
 * terminal or disk takes is left out, and counted. Nothing that users write, and no answer, is ever
 * said here: callers see to that. */
#ifndef MOEFS_FS_SAID_H
#define MOEFS_FS_SAID_H

#include "cache/err.h"

#include <stdbool.h>

struct said;

/* log: a file, which is made with mode 0600, appended to, and opened anew for each line, so that it
 * may be moved away at any time; "journal": the system's log; NULL: none. Errors in words. */
int said_begin(struct said **out, const char *log, bool terminal, struct err *e);
/* Any thread. NULL is fine: nobody listens. */
void said_line(struct said *s, const char *sentence);
/* To the log alone. */
void said_log(struct said *s, const char *sentence);
/* In place of the line of progress before; empty: it is over. */
void said_progress(struct said *s, const char *line);
/* Writes what was said, and ends the thread. NULL is fine. */
void said_end(struct said *s);

#endif
