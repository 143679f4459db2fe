/* Going into the background. */
#ifndef MOEFS_FS_DAEMON_H
#define MOEFS_FS_DAEMON_H

#include "cache/err.h"

/* Forks. In the parent, returns the exit status (0: the child said daemon_ready; 1: it ended
 * before, and has said why). A parent that is interrupted meanwhile ends the child, and only then
 * itself, by that signal. In the child, returns -1 and sets *pipe. Call it before any thread is
 * started. 1 with e->code set: could not fork. */
int daemon_begin(int *pipe, struct err *e);
/* In the child, once the tree answers: lets the parent return, and lets go of the terminal. */
void daemon_ready(int pipe);

#endif
