/* Writes and closed texts that a worker takes, since they block or take long: each is answered when
 * that is done. Where it was taken and there is a sentence nevertheless, that is a warning, for
 * `error`. */
#ifndef MOEFS_FS_LATE_H
#define MOEFS_FS_LATE_H

#include "fs/base/workers.h"
#include "fs/mount/handle.h"

struct late_write {
	struct job job;
	fuse_req_t req;
	struct handle *handle; /* is released after the answer */
	uint64_t offset;
	size_t size;
	/* In a worker; 0, or an error in words. */
	int (*take)(struct late_write *w, struct err *e);
	void *of; /* whatever take needs besides */
	/* In the loop, before the answer: with the code that it will have. NULL: nothing. */
	void (*taken)(struct late_write *w);
	int code;
	struct err why;
	char bytes[]; /* [size], a copy, and a zero */
};

/* What a file_ops.write_later returns; `w` has all but code, why, bytes and the job. slow: it may
 * take seconds. */
int late_write(const struct late_write *w, const char *bytes, bool slow, struct err *e);

/* What a session is given as a whole when its file is closed. */
struct late_text {
	struct job job;
	fuse_req_t req; /* a FLUSH; NULL: it is for a RELEASE */
	struct node node;
	struct session *session; /* borrowed */
	size_t which;
	struct text text; /* a copy: who shares the open file may go on writing */
	int (*take)(struct session *s, size_t which, const char *text, size_t length,
		    struct err *e);
	void (*taken)(const struct node *n); /* in the loop, if it was; NULL: nothing */
	int code;
	struct err why;
};
/* What a file_ops.flush_later returns. False: no memory for it. */
bool late_text(struct handle *h, fuse_req_t req, size_t which,
	       int (*take)(struct session *s, size_t which, const char *text, size_t length,
			   struct err *e),
	       void (*taken)(const struct node *n));

#endif
