/* Going into the background. */
#ifndef MOEFS_FS_PROGRAM_DAEMON_H
#define MOEFS_FS_PROGRAM_DAEMON_H

#include "cache/err.h"

/* Forks. In the child returns -1 and sets *pipe. In the parent returns the exit status: 0 after
 * daemon_ready, 1 if the child ended before and has printed why, or with e->code set if the process
 * could not fork. A parent that is interrupted meanwhile ends the child and then itself by that
 * signal. Call it before any thread is started. */
int daemon_begin(int *pipe, struct err *e);
/* In the child, once the tree answers: lets the parent return, and gives up the terminal. */
void daemon_ready(int pipe);

#endif
