/* A mount's life: it is created, served by the loop until it is unmounted, stopped and destroyed.
 *
 * The loop is one thread. It serves the kernel's requests, runs posts, wakes waiting calls and
 * keeps their deadlines. It never blocks except in poll. After a second without requests it returns
 * free memory to the system.
 *
 *     loop_share_heap → mount_create → engine, models → loop_run → mount_stop → unmount →
 *     mount_destroy
 */
#ifndef MOEFS_FS_REQUESTS_MOUNT_LOOP_H
#define MOEFS_FS_REQUESTS_MOUNT_LOOP_H

#include "fs/mount/mount.h"

/* Fails only if memory, threads or descriptors are missing. The caller sets m->engine afterwards.
 */
int mount_create(struct mount **out, struct err *e);
/* Call after the loop: ends every session, answers every waiting call, and asks background work to
 * end. */
void mount_stop(struct mount *m);
/* Call after unmounting: ends the workers, closes the models and the engine, and frees everything.
 * Blocks until reads and steps in progress end. m may be NULL. */
void mount_destroy(struct mount *m);
/* The callback engine_options.changed; user: a conversation. From any thread. */
void mount_changed(void *ctx, void *user);

struct loop_hooks {
	void (*started)(void *ctx); /* once, when the tree answers */
	/* Called a few times a second while a model loads, after news, and as long as it returns
	 * true. */
	bool (*tick)(void *ctx, const struct mount *m);
	void *ctx;
};

/* Makes all threads share one heap, so that freed memory can be returned. Call this before the
 * first thread starts. */
void loop_share_heap(void);
/* Blocks SIGTERM, SIGINT and SIGHUP, so that they reach the loop. Call this before the first thread
 * starts, since threads inherit the mask. */
void loop_block_signals(void);
/* Serves until the tree is unmounted or one of these signals arrives. */
int loop_run(struct mount *m, const struct loop_hooks *hooks, struct err *e);

#endif
