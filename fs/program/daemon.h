/* Moving to the background. */
#ifndef MOEFS_FS_PROGRAM_DAEMON_H
#define MOEFS_FS_PROGRAM_DAEMON_H

#include "cache/err.h"

/* Forks. In the child returns -1 and sets *pipe. In the parent returns the exit status: 0 after
 * daemon_ready; 1 if the child ended before (it has printed the reason), or if the process could
 * not fork (e->code is set). If a signal interrupts the parent, it ends the child and then itself
 * with that signal. Call this before any thread starts. */
int daemon_begin(int *pipe, struct err *e);
/* Call in the child, once the tree answers: lets the parent return, and gives up the terminal. */
void daemon_ready(int pipe);

#endif
