/* A call: a request (open or read) that may have to wait. A waiting call costs no thread: it is on
 * the list of what it waits for. News moves it to the mount's list of woken calls, where it is
 * served again. It ends with a reply, or with EINTR as soon as the kernel says that its process was
 * interrupted. */
#ifndef MOEFS_FS_MOUNT_CALL_H
#define MOEFS_FS_MOUNT_CALL_H

#include "fs/base/list.h"
#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>

struct file_call {
	struct link link; /* on the list of what it waits for, on mount.woken or .interrupted */
	struct link deadline_link; /* on mount.deadlines, the first to expire first */
	uint64_t deadline;	   /* CLOCK_MONOTONIC, nanoseconds */
	fuse_req_t req;
	struct mount *mount;
	/* Replies and calls call_free, or lets the call wait. */
	void (*serve)(struct file_call *c);
	uint64_t inode;		    /* open */
	struct fuse_file_info file; /* open */
	struct handle *handle;	    /* read, as the next three */
	size_t size;
	uint64_t offset;
	bool nonblocking;
	bool waited; /* has waited before */
};

/* What file_ops.read returns once it has let the call wait or given it to a worker. */
#define CALL_KEPT ((ssize_t)-100000)

struct file_call *call_new(fuse_req_t req, struct mount *m, void (*serve)(struct file_call *c));
void call_free(struct file_call *c); /* after the reply */
/* Lets the call wait on a list until the list is woken, or for milliseconds if that is not 0. Then
 * it is served again. */
void call_wait(struct file_call *c, struct link *list, unsigned milliseconds);
void calls_wake(struct mount *m, struct link *list);

/* The loop's: replies to at most `most` woken calls, or to the interrupted ones; wakes calls whose
 * deadline has passed; milliseconds until there is something to do, or -1. */
void calls_serve_woken(struct mount *m, unsigned most);
void calls_end_interrupted(struct mount *m);
void calls_expire(struct mount *m);
int calls_timeout(const struct mount *m);

#endif
