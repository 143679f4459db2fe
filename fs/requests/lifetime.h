/* A mount's beginning, made before the engine, and its end, after the last session. */
#ifndef MOEFS_FS_LIFETIME_H
#define MOEFS_FS_LIFETIME_H

#include "fs/mount/mount.h"

/* The engine must exist. Fails only for want of memory, threads or descriptors. */
int mount_create(struct mount **out, struct err *e);
/* After the loop: ends every session and answers whoever waits, and asks what goes on in the
 * background to end. */
void mount_stop(struct mount *m);
/* After unmounting: ends the workers, closes the models and the engine, which may take as long as
 * the reads and steps that they are at, and frees everything. NULL is fine. */
void mount_destroy(struct mount *m);
/* The engine_options.changed callback: user is a conversation. Any thread. */
void mount_changed(void *ctx, void *user);

#endif
