/* Taking a mount away, by the system's own call or by fusermount3, which may do it for the mount's
 * user. */
#ifndef MOEFS_FS_UNMOUNT_H
#define MOEFS_FS_UNMOUNT_H

#include "cache/err.h"

#include <stdbool.h>

/* Unmounts; lazily: what is in use goes with its last user. EBUSY: it is in use; EPERM: it is not
 * the caller's; others, in words. Blocks. */
int unmount(const char *point, bool lazily, struct err *e);

#endif
