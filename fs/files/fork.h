/* `fork NAME`: a session's copy under another name, beside it in sessions/. */
#ifndef MOEFS_FS_FORK_H
#define MOEFS_FS_FORK_H

#include "fs/mount/handle.h"

/* Has a write of `size` bytes to the session's ctl answered once the copy is there. 0, or an error
 * in words: -EINVAL and -ENAMETOOLONG for the name[n], -EEXIST, -EBUSY while a turn runs, -ENOMEM.
 * The copy belongs to who writes. */
int fork_later(struct handle *h, fuse_req_t req, const char *name, size_t n, size_t size,
	       struct err *e);

#endif
