/* The mountpoint: checks whether mounting is possible, and unmounts. The checks come before
 * anything else, so that the user learns the cause; libfuse and fusermount3 only report that
 * something failed. */
#ifndef MOEFS_FS_PROGRAM_MOUNTPOINT_H
#define MOEFS_FS_PROGRAM_MOUNTPOINT_H

#include "cache/err.h"

#include <stdbool.h>

/* Makes *mountpoint (malloc'ed) a real path that can be mounted on. Unmounts a mount left there by
 * a killed moefs. -EBUSY: something else is mounted there. */
int mountpoint_prepare(char **mountpoint, struct err *e);
/* Checks that the model exists and is not inside the mount. */
int mountpoint_check_model(const char *mountpoint, const char *model, struct err *e);
/* Checks that the log is not inside the mount: a line could become a prompt, whose line becomes a
 * prompt again. */
int mountpoint_check_log(const char *mountpoint, const char *log, struct err *e);
/* Checks what mounting needs: the device, the right to mount or a helper that has it, and the
 * permission to let other users in (-o allow_other, allow_root). */
int mountpoint_check_fuse(const char *mountpoint, bool others, struct err *e);
/* -ENOTEMPTY: the folder has contents, which the mount would hide. A folder that cannot be read
 * passes. Call this before setsid(2): an automount point lets only its own process group look. */
int mountpoint_check_empty(const char *mountpoint, struct err *e);

/* Unmounts with umount2(2), or with fusermount3, which may unmount for the mount's user. lazily:
 * files in use stay open until they are closed. -EBUSY: in use; -EPERM: not allowed. Blocks. */
int mountpoint_unmount(const char *point, bool lazily, struct err *e);

#endif
