/* What kinds of files share: values, which are rendered when they are read and taken when they are
 * written. These functions are members of their struct file_ops (mount/handle.h).
 *
 * A value takes effect at each write; a text value is collected and takes effect when it is closed.
 * Deferred ones are taken by a worker, since taking them blocks or takes long; the write or the
 * close is answered when that is done. */
#ifndef MOEFS_FS_VALUES_H
#define MOEFS_FS_VALUES_H

#include "fs/base/workers.h"
#include "fs/mount/handle.h"

enum { VALUE_MAX_BYTES = 64 << 10 };

/* Reads what the row renders. A read at offset 0 renders it and keeps it for the reads that follow,
 * so that a table never mixes two moments. */
ssize_t value_read(struct handle *h, struct file_call *c, char *buffer);
/* Takes each write as one value (row.set). */
int value_write(struct handle *h, const char *data, size_t size, uint64_t offset, struct err *e);

/* A text of any number of writes, taken at the FLUSH of the process that opened the file, else at
 * RELEASE. */
int value_text_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e);
int value_text_truncate(struct handle *h, uint64_t size, struct err *e);
int value_text_flush(struct handle *h, bool by_opener, struct err *e);
void value_text_release(struct handle *h);

/* ---- deferred to a worker ---- */

/* If something was taken and err has a sentence all the same, the sentence is a warning, and goes
 * to `error`. */
struct deferred_write {
	struct job job;
	fuse_req_t req;
	struct handle *handle; /* is released after the answer */
	uint64_t offset;
	size_t size;
	/* In a worker; 0, or an error in words. */
	int (*take)(struct deferred_write *w, struct err *e);
	void *of; /* for take */
	/* In the loop, before the answer, with w->code set; may be NULL. */
	void (*taken)(struct deferred_write *w);
	int code;
	struct err why;
	char bytes[]; /* [size + 1]: a copy, and a zero */
};
/* For file_ops.write_later. *w has all but the job, code, why and bytes. slow: taking it may last
 * for seconds. */
int value_write_deferred(const struct deferred_write *w, const char *bytes, bool slow,
			 struct err *e);

/* For file_ops.flush_later: has a worker give the collected text to the session, `which` being the
 * param or the text that it is. req: a FLUSH; NULL: this is for a RELEASE. taken: in the loop, if
 * it was taken; may be NULL. False: there is no memory to defer it. */
bool value_text_flush_deferred(struct handle *h, fuse_req_t req, size_t which,
			       int (*take)(struct session *s, size_t which, const char *text,
					   size_t length, struct err *e),
			       void (*taken)(const struct node *n));

#endif
