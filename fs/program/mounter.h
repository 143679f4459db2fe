/* The process that stays root to mount, where the daemon is to be another user (-o uid=, gid=): the
 * models are opened as that user before anything is mounted, so who mounts is asked only then, by a
 * socket, and hands back the open device. It does one mount, and ends. */
#ifndef MOEFS_FS_MOUNTER_H
#define MOEFS_FS_MOUNTER_H

#include "cache/err.h"
#include "fs/program/privilege.h"

#include <sys/types.h>

struct fuse_args;

struct mounter {
	pid_t process;
	int socket; /* -1: there is none */
};

/* Forks it, as root, before any thread is started. The mount will be p's, by libfuse's args. */
int mounter_begin(struct mounter *m, struct fuse_args *args, const char *point,
		  const struct privilege *p, struct err *e);
/* Mounts, and sets *device to the connection, which is the caller's. Blocks. Once. */
int mounter_mount(struct mounter *m, int *device, struct err *e);
void mounter_end(struct mounter *m);

/* Whether the kernel has taken the mount of this device away already. */
bool mounter_is_gone(int device);

#endif
