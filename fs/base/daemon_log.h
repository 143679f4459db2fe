/* The daemon's messages: sentences, to the terminal while the daemon is in the foreground and to a
 * log (-o log=); and a line of progress, only to the terminal.
 *
 * The loop never waits here: the log has a thread of its own that writes. Sentences that come
 * faster than a slow terminal or disk accepts are dropped and counted. Callers must not pass
 * anything that a user wrote or a model answered. */
#ifndef MOEFS_FS_BASE_DAEMON_LOG_H
#define MOEFS_FS_BASE_DAEMON_LOG_H

#include "cache/err.h"

#include <stdbool.h>

struct daemon_log;

/* log: a file, created with mode 0600, appended to, and opened for each line, so that it may be
 * moved away at any time; "journal": the system's log; NULL: no log. terminal: whether messages
 * also go to standard error. */
int daemon_log_begin(struct daemon_log **out, const char *log, bool terminal, struct err *e);
/* Writes a sentence to the terminal and the log. From any thread. In this function and the next two
 * a NULL log drops the sentence.
 */
void daemon_log_say(struct daemon_log *l, const char *sentence);
/* Writes a sentence only to the log. */
void daemon_log_note(struct daemon_log *l, const char *sentence);
/* Replaces the line of progress. An empty line ends the progress. */
void daemon_log_progress(struct daemon_log *l, const char *line);
/* Writes everything that is queued and ends the thread. NULL does nothing. */
void daemon_log_end(struct daemon_log *l);

#endif
