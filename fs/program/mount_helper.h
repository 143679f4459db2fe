/* mount.moefs: the program as mount(8) calls it for a file system of type moefs,
 *
 *     mount.moefs SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t type]
 *
 * and what a line of fstab so comes to. */
#ifndef MOEFS_FS_MOUNT_HELPER_H
#define MOEFS_FS_MOUNT_HELPER_H

#include "cache/err.h"

#include <stdbool.h>

struct mount_helper {
	bool lenient; /* -s: what is not known is left out */
	bool fake;    /* -f: nothing is mounted */
	char *arguments[8];
	int count; /* of them, as moefs takes them; NULL follows */
};

/* Whether the program was called so. */
bool mount_helper_is(const char *program);
/* The arguments point into argv. EINVAL in words. */
int mount_helper_read(struct mount_helper *h, int argc, char **argv, struct err *e);

#endif
