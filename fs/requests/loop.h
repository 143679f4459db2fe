/* The loop: one thread that serves the kernel's requests, runs posts, wakes calls and keeps their
 * deadlines, and never blocks but in poll. */
#ifndef MOEFS_FS_LOOP_H
#define MOEFS_FS_LOOP_H

#include "fs/mount/mount.h"

struct loop_hooks {
	void (*started)(void *ctx); /* once, when the tree answers */
	/* A few times a second while a model loads, after news, and again while it returns true. */
	bool (*tick)(void *ctx, const struct mount *m);
	void *ctx;
};

/* Blocks SIGTERM, SIGINT and SIGHUP, so that they come to the loop: call it before the first thread
 * is started, since threads inherit it. */
void loop_block_signals(void);
/* Serves until the tree is unmounted or one of those signals comes. */
int loop_run(struct mount *m, const struct loop_hooks *hooks, struct err *e);

#endif
