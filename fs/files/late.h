/* Writes that a worker takes, since they block or take long: each is answered when that is done. */
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
	int code;
	struct err why;
	char bytes[]; /* [size], a copy, and a zero */
};

/* What a file_ops.write_later returns; `w` has all but the last three and the job. slow: it may
 * take seconds. */
int late_write(const struct late_write *w, const char *bytes, bool slow, struct err *e);

#endif
