/* Removes what must not outlive a command, even after kill -9: its own session, its own mount. A
 * second process, the keeper, waits until the command ends, which closes a socket between them, and
 * then removes the session or the mount. */
#ifndef MOEFS_FS_COMMANDS_KEEPER_H
#define MOEFS_FS_COMMANDS_KEEPER_H

#include "cache/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct keeper {
	pid_t process; /* 0: none */
	int socket;    /* its closing tells the keeper that the command has ended */
};

/* Makes a session, which is removed at the end. If `stays`, the session may exist already (else
 * -EEXIST) and is not removed; if the command dies, the session is told to stop answering. */
int keeper_of_session(struct keeper *k, const char *folder, bool stays, struct err *e);
/* Mounts path (absolute) in a new folder that nobody else may enter; it is unmounted at the end.
 * Returns once the tree answers. *mountpoint is malloc'ed. -ECANCELED: mounting failed, and moefs
 * has printed the reason. */
int keeper_of_mount(struct keeper *k, const char *path, char **mountpoint, struct err *e);
/* Call at the orderly end of the command: returns once everything is removed. Close all files of
 * the mount before. */
void keeper_end(struct keeper *k);

#endif
