/* The mountpoint: whether one can be mounted there, which is checked before anything else so that
 * the user gets the cause, where libfuse and fusermount3 would only report that something failed;
 * and unmounting. */
#ifndef MOEFS_FS_PROGRAM_MOUNTPOINT_H
#define MOEFS_FS_PROGRAM_MOUNTPOINT_H

#include "cache/err.h"

#include <stdbool.h>

/* Makes *mountpoint (malloc'ed) a real path that can be mounted on, or an error. Unmounts what a
 * killed moefs left there. -EBUSY: something is mounted there. */
int mountpoint_prepare(char **mountpoint, struct err *e);
/* The model must exist and must not be inside the mount. */
int mountpoint_check_model(const char *mountpoint, const char *model, struct err *e);
/* The log must not be inside the mount: a line could become a prompt, and that a line again. */
int mountpoint_check_log(const char *mountpoint, const char *log, struct err *e);
/* What mounting needs: the device, the right to mount or the helper that has it, and the permission
 * to let others in
 * (-o allow_other, allow_root). */
int mountpoint_check_fuse(const char *mountpoint, bool others, struct err *e);
/* -ENOTEMPTY: the folder has something in it, which the mount would hide. A folder that cannot be
 * read passes. Call it before setsid(2): an automount point lets only its own process group look.
 */
int mountpoint_check_empty(const char *mountpoint, struct err *e);

/* Unmounts by umount2(2), or by fusermount3, which may unmount for the mount's user; lazily: files
 * in use stay until they are closed. -EBUSY: it is in use; -EPERM: the caller may not. Blocks. */
int mountpoint_unmount(const char *point, bool lazily, struct err *e);

#endif
