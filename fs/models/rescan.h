/* Folders of models: what comes into one while it is mounted appears in the tree, and what goes
 * from one goes. The loop's part; the looking is a worker's (scan.h). */
#ifndef MOEFS_FS_RESCAN_H
#define MOEFS_FS_RESCAN_H

#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>

/* Before the loop: mounts what is in the folder, with a line in mount.skipped for what cannot be,
 * and remembers it. An error if nothing is mounted. Blocks. */
int rescan_add_folder(struct mount *m, const char *folder, struct err *e);

/* Looks again, and answers a write of `size` bytes by `asker` when that is done. -ENOMEM. */
int rescan_ask(struct mount *m, fuse_req_t req, size_t size, struct err *e);
/* Readable when something has changed in a folder; -1: there is none, or that cannot be told. */
int rescan_fd(const struct mount *m);
void rescan_noticed(struct mount *m);
/* For the loop: milliseconds until rescan_expire has something to do; -1: nothing. */
int rescan_timeout(const struct mount *m);
void rescan_expire(struct mount *m);
void rescan_stop(struct mount *m); /* at the mount's end: answers who waits */
void rescan_free(struct mount *m); /* after the workers */

#endif
