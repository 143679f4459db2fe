/* A call: a request (open or read) that may have to wait. A waiting call is this struct on a list
 * of what it waits for, and no thread; when there is news it is put on the mount's list of woken
 * calls and served again. It ends with an answer, or with EINTR as soon as the kernel says that its
 * process was interrupted.
 */
#ifndef MOEFS_FS_CALL_H
#define MOEFS_FS_CALL_H

#include "fs/base/list.h"
#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>

struct call {
	struct link link;	   /* on what it waits for, or on mount.woken or .interrupted */
	struct link deadline_link; /* on mount.deadlines, the next to expire first */
	uint64_t deadline;	   /* CLOCK_MONOTONIC, nanoseconds */
	fuse_req_t req;
	struct mount *mount;
	/* Answers the request and calls call_free, or lets the call wait. */
	void (*serve)(struct call *c);
	uint64_t inode;		    /* open */
	struct fuse_file_info file; /* open */
	struct handle *handle;	    /* read, as the next three */
	size_t size;
	uint64_t offset;
	bool nonblocking;
	bool waited; /* it has waited before */
};

/* What a file's read returns when it has let the call wait or handed it over. */
#define CALL_KEPT ((ssize_t)-100000)

struct call *call_new(fuse_req_t req, struct mount *m, void (*serve)(struct call *c));
void call_free(struct call *c); /* after the request has been answered */
/* Waits on a list until it is woken, or milliseconds have passed if they are not 0; then it is
 * served again. */
void call_wait(struct call *c, struct link *list, unsigned milliseconds);
void calls_wake(struct mount *m, struct link *list);

/* For the loop. */
void calls_serve_woken(struct mount *m, unsigned most);
void calls_end_interrupted(struct mount *m);
void calls_expire(struct mount *m);
int calls_timeout(
	const struct mount *m); /* milliseconds until there is something to do; -1: none */

#endif
