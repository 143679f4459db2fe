/* Becoming another user: -o uid= and gid=, for root, before any of the user's files is opened.
 *
 * Models are opened as that user before anything is mounted, but mounting needs root. So a second
 * process, the mounter, stays root. A message on a socket makes it mount; it passes back the open
 * device, and ends. */
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

/* Sets the user from -o uid= (a name or number), with the user's own group and home. -EINVAL: there
 * is no such user; -EPERM: only root may become another user. */
int privilege_set_user(struct privilege *p, const char *user, struct err *e);
/* Sets the group from -o gid=. If both are given, call this after privilege_set_user. */
int privilege_set_group(struct privilege *p, const char *group, struct err *e);
void privilege_free(struct privilege *p);

/* Becomes that user for good: without other groups, with the user's HOME, and without root's
 * XDG_CACHE_HOME. Does nothing if neither is given. Call this before any thread starts. */
int privilege_drop(const struct privilege *p, struct err *e);

struct privilege_mounter {
	pid_t process;
	int socket; /* -1: there is no mounter */
};

/* Forks the mounter, as root. Call this before any thread starts. The mount will belong to p, with
 * libfuse's args. */
int privilege_begin_mounter(struct privilege_mounter *m, struct fuse_args *args, const char *point,
			    const struct privilege *p, struct err *e);
/* Mounts, and sets *device to the open device, which the caller then owns. Call this once.
 * Blocks. */
int privilege_mount(struct privilege_mounter *m, int *device, struct err *e);
void privilege_end_mounter(struct privilege_mounter *m);

/* Whether the kernel has already removed the mount of this device. */
bool privilege_is_unmounted(int device);

#endif
