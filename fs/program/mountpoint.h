/* The place where to mount, and whether it can be mounted on: found out before anything is begun,
 * and said with the one cause, where libfuse and fusermount3 would say that something failed. */
#ifndef MOEFS_FS_MOUNTPOINT_H
#define MOEFS_FS_MOUNTPOINT_H

#include "cache/err.h"

#include <stdbool.h>

/* Makes *mountpoint (malloc'ed) a real path, or says why it is not one that can be mounted on. What
 * a killed moefs left there is unmounted; on one that is alive there is no second (EBUSY). */
int mountpoint_prepare(char **mountpoint, struct err *e);
/* Models must be there, and must not be read through the mount itself. */
int mountpoint_check_model(const char *mountpoint, const char *model, struct err *e);
/* Nor may the daemon write to its own tree: what it says there could be a prompt, and told again. */
int mountpoint_check_log(const char *mountpoint, const char *log, struct err *e);
/* What mounting there needs: the device, the rights, the helper where there are none, and leave to
 * let others in (-o allow_other, allow_root). */
int mountpoint_check_fuse(const char *mountpoint, bool others, struct err *e);
/* Refuses a folder that has anything in it, since the mount would hide that (ENOTEMPTY). A folder
 * that cannot be read passes. To be called before setsid(2): an automount point lets only its own
 * process group look. */
int mountpoint_check_empty(const char *mountpoint, struct err *e);

#endif
