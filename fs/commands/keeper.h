/* What must not outlive a command, however that ends, by kill -9 as well: a session of its own, a
 * mount of its own. A second process, the keeper, waits for the command's end, which closes a pipe
 * between them, and then undoes what was made. */
#ifndef MOEFS_FS_COMMANDS_KEEPER_H
#define MOEFS_FS_COMMANDS_KEEPER_H

#include "cache/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct keeper {
	pid_t process; /* 0: there is none */
	int pipe;      /* its end tells the keeper of ours */
};

/* Makes a session and removes it at the end. One that stays may be there already (else -EEXIST),
 * and is told to stop answering if the command dies. */
int keeper_of_session(struct keeper *k, const char *folder, bool stays, struct err *e);
/* Mounts path (absolute), of which nothing else is to be known, in a new folder that nobody else
 * may enter, and unmounts it at the end. Returns once the tree answers. *mountpoint is malloc'ed.
 * Where it cannot be (-ECANCELED), what
 * was started for it has said why on standard error. */
int keeper_of_mount(struct keeper *k, const char *path, char **mountpoint, struct err *e);
/* The command's orderly end: returns when all is undone. What is open of it must be closed. */
void keeper_end(struct keeper *k);

#endif
