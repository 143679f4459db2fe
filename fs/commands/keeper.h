/* What must not outlive a command, even after kill -9: its own session, its own mount. A second
 * process, the keeper, waits for the command's end, which closes a socket between them, and then
 * removes what was made. */
#ifndef MOEFS_FS_COMMANDS_KEEPER_H
#define MOEFS_FS_COMMANDS_KEEPER_H

#include "cache/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct keeper {
	pid_t process; /* 0: none */
	int socket;    /* the keeper notices when it closes */
};

/* Makes a session and removes it at the end. A session that `stays` may exist already (else
 * -EEXIST), is not removed, and is told to stop answering if the command dies. */
int keeper_of_session(struct keeper *k, const char *folder, bool stays, struct err *e);
/* Mounts path (absolute) in a new folder that nobody else may enter, and unmounts it at the end.
 * Returns once the tree answers. *mountpoint is malloc'ed. -ECANCELED: it cannot be mounted, and
 * moefs has printed the reason. */
int keeper_of_mount(struct keeper *k, const char *path, char **mountpoint, struct err *e);
/* The command's orderly end: returns once all is removed. Files of the mount must be closed before.
 */
void keeper_end(struct keeper *k);

#endif
