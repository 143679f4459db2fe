/* Values and texts: files that are rendered when they are read and applied when they are written.
 * Rows of the tree use these functions in their struct file_ops (fs/mount/handle.h). The row's own
 * functions render and apply (render, set).
 *
 * A value is applied at each write. A text is collected over several writes and applied when the
 * file is closed. If applying blocks or takes long, a worker does it (deferred), and the write or
 * the close is answered afterwards. */
#ifndef MOEFS_FS_FILES_VALUES_H
#define MOEFS_FS_FILES_VALUES_H

#include "fs/base/workers.h"
#include "fs/mount/handle.h"

enum { VALUE_MAX_BYTES = 64 << 10 };

/* Reads the row's rendered contents. A read at offset 0 renders and keeps them for the reads that
 * follow, so that a table never mixes two moments. */
ssize_t value_read(struct handle *h, struct file_call *c, char *buffer);
/* Applies each write as one value (row.set). */
int value_write(struct handle *h, const char *data, size_t size, uint64_t offset, struct err *e);

/* A text of any number of writes. It is applied at the FLUSH of the process that opened the file,
 * or, if that process never closes it, at RELEASE. */
int value_text_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e);
int value_text_truncate(struct handle *h, uint64_t size, struct err *e);
/* For file_ops.truncate: cuts the written text without applying it. */
int value_text_cut(struct handle *h, uint64_t size, struct err *e);
int value_text_flush(struct handle *h, bool by_opener, struct err *e);
void value_text_release(struct handle *h);

/* Refuses an open or a write during a turn: -EBUSY. */
int value_session_answers(const struct handle *h, struct err *e);

/* ---- deferred to a worker ---- */

/* A value that a worker applies. If `take` returns 0 and err has a sentence nevertheless, the
 * sentence is a warning, which goes to `error`. */
struct deferred_write {
	struct job job;
	fuse_req_t req;
	struct handle *handle; /* released after the answer */
	uint64_t offset;
	size_t size;
	/* Applies the bytes, in a worker. Returns 0, or an error with a sentence. */
	int (*take)(struct deferred_write *w, struct err *e);
	void *of; /* for take */
	/* Called in the loop after `take`, whose result is w->code, and before the write is
	 * answered; may be NULL. */
	void (*taken)(struct deferred_write *w);
	int code;
	struct err why;
	char bytes[]; /* [size + 1]: a copy, and a zero */
};
/* For file_ops.write_later: copies *w and the bytes, and has a worker apply them. The caller fills
 * all of *w but job, code, why and bytes. slow: applying may take seconds. */
int value_write_deferred(const struct deferred_write *w, const char *bytes, bool slow,
			 struct err *e);

/* For file_ops.flush_later: has a worker call take(session, which, the collected text). which: the
 * number of a param or an enum session_text. req: the FLUSH to answer; NULL at a RELEASE. taken:
 * called in the loop if take returned 0; may be NULL. Returns false if there is no memory for it.
 */
bool value_text_flush_deferred(struct handle *h, fuse_req_t req, size_t which,
			       int (*take)(struct session *s, size_t which, const char *text,
					   size_t length, struct err *e),
			       void (*taken)(const struct node *n));

#endif
