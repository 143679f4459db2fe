/* The mounts of moefs that this process can see, as /proc/self/mountinfo lists them, and what is
 * read from their trees. What commands share. */
#ifndef MOEFS_FS_COMMANDS_MOUNTS_H
#define MOEFS_FS_COMMANDS_MOUNTS_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mount_seen {
	char *point, *source; /* as they are, without mountinfo's escapes */
	uid_t uid;	      /* whose mount it is: user_id= of the kernel's options */
	char device[32];      /* MAJOR:MINOR */
	bool hidden;	      /* something was mounted over it since */
};

struct mounts_seen {
	struct mount_seen *list;
	size_t count;
};

/* In the order in which they were mounted. table: NULL is /proc/self/mountinfo. On error nothing is
 * to be freed. */
int mounts_read(struct mounts_seen *out, const char *table, struct err *e);
void mounts_free(struct mounts_seen *m);

/* Calls for each model's folder of a mount, in the order of their names, with its path and name,
 * until one returns other than 0, which is returned. -errno where the tree cannot be read: another
 * user's (EACCES), or its program is gone (ENOTCONN). Blocks as long as the mount does. */
int mounts_models(const struct mount_seen *m,
		  int (*visit)(void *ctx, const char *folder, const char *name), void *ctx);
/* The value of a file of one line, such as MODEL/info/state, without its newline. -errno. */
int mounts_value(const char *folder, const char *file, char *value, size_t size);

#endif
