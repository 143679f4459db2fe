/* What the daemon reports: sentences, to the terminal while it is in the foreground and to a log
 * (-o log=); and a line of progress, to the terminal alone.
 *
 * The loop never waits here: a thread of the log's own writes. What comes faster than a slow
 * terminal or disk takes it is dropped and counted. Callers never pass what users wrote or a model
 * answered. */
#ifndef MOEFS_FS_BASE_DAEMON_LOG_H
#define MOEFS_FS_BASE_DAEMON_LOG_H

#include "cache/err.h"

#include <stdbool.h>

struct daemon_log;

/* log: a file, created with mode 0600, appended to, and opened for each line, so that it may be
 * moved away at any time; "journal": the system's log; NULL: none. terminal: standard error is
 * shown to somebody. */
int daemon_log_begin(struct daemon_log **out, const char *log, bool terminal, struct err *e);
/* To the terminal and the log. Any thread. In this and the next two a NULL log drops the sentence.
 */
void daemon_log_say(struct daemon_log *l, const char *sentence);
/* To the log alone. */
void daemon_log_note(struct daemon_log *l, const char *sentence);
/* Replaces the line of progress; empty: the progress is over. */
void daemon_log_progress(struct daemon_log *l, const char *line);
/* Writes everything that is left and ends the thread. NULL does nothing. */
void daemon_log_end(struct daemon_log *l);

#endif
