/* Going into the background, and the place where to mount. */
#ifndef MOEFS_FS_DAEMON_H
#define MOEFS_FS_DAEMON_H

#include "cache/err.h"

#include <stddef.h>

/* Forks. In the parent, returns the exit status (0: the child said daemon_ready; 1: it ended
 * before, and has said why). In the child, returns -1 and sets *pipe. Call it before any thread is
 * started. 1 with e->code set: could not fork. */
int daemon_begin(int *pipe, struct err *e);
/* In the child, once the tree answers: lets the parent return, and lets go of the terminal. */
void daemon_ready(int pipe);

/* Makes *mountpoint (malloc'ed) a real path, or says why it is not one that can be mounted on. What
 * a killed moefs left there is unmounted. */
int mountpoint_prepare(char **mountpoint, struct err *e);
/* Models must not be read through the mount itself. */
int mountpoint_check_model(const char *mountpoint, const char *model, struct err *e);
/* The device and the helper that mounting needs: in words what is missing. */
int mountpoint_check_fuse(struct err *e);

#endif
