/* A call: a request (open or read) that may have to wait. A waiting call needs no thread: it is on
 * a list. News moves it to the mount's list of woken calls, and the loop serves it again. A call
 * ends with a reply, or with EINTR as soon as the kernel says that its process was interrupted. */
#ifndef MOEFS_FS_MOUNT_CALL_H
#define MOEFS_FS_MOUNT_CALL_H

#include "fs/base/list.h"
#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>

struct file_call {
	struct link link; /* on the list that it waits on, on mount.woken or mount.interrupted */
	struct link deadline_link; /* on mount.deadlines, the earliest first */
	uint64_t deadline;	   /* CLOCK_MONOTONIC, nanoseconds */
	fuse_req_t req;
	struct mount *mount;
	/* Replies and calls call_free, or lets the call wait. */
	void (*serve)(struct file_call *c);
	uint64_t inode;		    /* for open */
	struct fuse_file_info file; /* for open */
	struct handle *handle;	    /* for read, like the next three */
	size_t size;
	uint64_t offset;
	bool nonblocking;
	bool waited; /* has waited at least once */
};

/* Returned by file_ops.read if it lets the call wait or gives it to a worker. */
#define CALL_KEPT ((ssize_t)-100000)

struct file_call *call_new(fuse_req_t req, struct mount *m, void (*serve)(struct file_call *c));
void call_free(struct file_call *c); /* call this after the reply */
/* Lets the call wait on a list until the list is woken, or for some milliseconds if that is not 0.
 * Then the call is served again. */
void call_wait(struct file_call *c, struct link *list, unsigned milliseconds);
void calls_wake(struct mount *m, struct link *list);

/* For the loop. calls_serve_woken and calls_end_interrupted reply to at most `most` woken calls and
 * to the interrupted calls. calls_expire wakes calls whose deadline has passed. calls_timeout
 * returns the milliseconds until the next deadline, or -1. */
void calls_serve_woken(struct mount *m, unsigned most);
void calls_end_interrupted(struct mount *m);
void calls_expire(struct mount *m);
int calls_timeout(const struct mount *m);

#endif
