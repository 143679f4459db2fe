/* Becoming another user: -o uid= and gid=, for root, before anything of the user's is opened.
 *
 * Models are opened as that user before anything is mounted, and mounting needs root. So a second
 * process, the mounter, stays root: it is asked by a socket to mount, hands back the open device,
 * and ends. */
#ifndef MOEFS_FS_PROGRAM_PRIVILEGE_H
#define MOEFS_FS_PROGRAM_PRIVILEGE_H

#include "cache/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct fuse_args;

struct privilege {
	bool changes;
	uid_t uid;
	gid_t gid;
	char *home; /* the user's; NULL: unknown */
};

/* Takes a name or number of -o uid=, with the user's own group and home. -EINVAL: there is no such
 * user; -EPERM: only root becomes another user. */
int privilege_set_user(struct privilege *p, const char *user, struct err *e);
/* Takes -o gid=. After privilege_set_user, if both are given. */
int privilege_set_group(struct privilege *p, const char *group, struct err *e);
void privilege_free(struct privilege *p);

/* Becomes that user for good: without other groups, with the user's HOME, and without root's
 * XDG_CACHE_HOME. Does nothing if nothing changes. Before any thread is started. */
int privilege_drop(const struct privilege *p, struct err *e);

struct privilege_mounter {
	pid_t process;
	int socket; /* -1: there is no mounter */
};

/* Forks the mounter, as root, before any thread is started. The mount will be p's, with libfuse's
 * args. */
int privilege_begin_mounter(struct privilege_mounter *m, struct fuse_args *args, const char *point,
			    const struct privilege *p, struct err *e);
/* Mounts, and sets *device to the open device, which is the caller's. Once. Blocks. */
int privilege_mount(struct privilege_mounter *m, int *device, struct err *e);
void privilege_end_mounter(struct privilege_mounter *m);

/* Whether the kernel has already taken away the mount of this device. */
bool privilege_is_unmounted(int device);

#endif
