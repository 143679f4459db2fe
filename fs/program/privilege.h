/* Becoming another user: -o uid= and gid=, for root, before anything of the user's is opened. */
#ifndef MOEFS_FS_PRIVILEGE_H
#define MOEFS_FS_PRIVILEGE_H

#include "cache/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct privilege {
	bool changes;
	uid_t uid;
	gid_t gid;
	char *home; /* the user's; NULL: not known. privilege_free */
};

/* By name or number, as -o uid= has it; sets the user's own group and home as well. EINVAL: there
 * is no such user; EPERM: only root becomes another. */
int privilege_user(struct privilege *p, const char *user, struct err *e);
/* After privilege_user, if there is one. */
int privilege_group(struct privilege *p, const char *group, struct err *e);
void privilege_free(struct privilege *p);

/* Becomes that user for good, without other groups, with his home and without root's cache folder
 * in the environment. Does nothing where nothing changes. Before any thread is started. */
int privilege_drop(const struct privilege *p, struct err *e);

#endif
