/* state: a whole session to copy out, and to copy in again.
 *
 * Opened to be read it is what the session is at that moment, to the end of the handle, whatever
 * becomes of the session. What is written is put together piece by piece (cp's are of 128 KiB) and
 * refused by the write that shows that it is not this model's; it becomes the session at the FLUSH
 * of the process that opened it, if it is whole, else never.
 *
 * Contexts are large: bytes are copied, summed up and given back by the workers. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/late.h"

#include <errno.h>
#include <stdlib.h>

/* ---- opening ---- */

static int state_open(struct handle *h, struct err *e)
{
	const struct session *s = h->node.conversation->session;
	if (session_working(s))
		return err_set(e, EBUSY,
			       "state: the session is still answering: read its output to the "
			       "end, or `echo stop > ctl`");
	if (!handle_reads(h))
		return 0;
	return session_save(h->node.conversation->session, &h->saved, e);
}

static uint64_t state_size(const struct node *n)
{
	return session_state_bytes(n->conversation->session);
}

/* ---- reading ---- */

static int64_t state_read(const struct handle *h, uint64_t offset, void *buffer, size_t bytes,
			  struct err *e)
{
	(void)e;
	return (int64_t)saved_read(h->saved, offset, buffer, bytes);
}

/* ---- writing ---- */

static int feed(struct late_write *w, struct err *e)
{
	return restored_feed(w->handle->restored, w->offset, w->bytes, w->size, e);
}

static int state_write(struct handle *h, fuse_req_t req, const char *bytes, size_t size,
		       uint64_t offset, struct err *e)
{
	const struct late_write w = {
		.req = req, .handle = h, .offset = offset, .size = size, .take = feed};
	int code = h->restored ? 0 : restored_begin(h->node.model->model, &h->restored, e);
	if (!code) /* slow: the last one may have a long conversation to read */
		code = late_write(&w, bytes, true, e);
	h->dirty |= !code;
	return code;
}

/* ---- taking effect, and the end ---- */

static int state_flush(struct handle *h, bool by_opener, struct err *e)
{
	handle_flushed(h, by_opener);
	if (!h->dirty || !by_opener || h->late) /* RELEASE comes after the last write */
		return 0;
	h->dirty = false;
	int code = session_restore(h->node.conversation->session, h->restored, e);
	if (!code)
		failure_accepted(&h->node); /* what was refused before is another session's */
	return code;
}

struct state_close {
	struct job job;
	struct saved *saved;
	struct restored *restored;
};

static void close_work(struct job *job)
{
	const struct state_close *c = LINK_OWNER(job, struct state_close, job);
	saved_close(c->saved);
	restored_close(c->restored);
}

static void close_finish(struct job *job)
{
	free(LINK_OWNER(job, struct state_close, job));
}

/* Gives back what the handle has; here and now only where there is nobody else to do it. */
static void drop(struct handle *h)
{
	const struct state_close all = {
		.job = {.slow = true, .work = close_work, .finish = close_finish},
		.saved = h->saved,
		.restored = h->restored,
	};
	struct workers *workers = h->node.mount->workers;
	struct state_close *c = workers ? malloc(sizeof *c) : NULL;
	h->saved = NULL;
	h->restored = NULL;
	h->dirty = false;
	if (c) {
		*c = all;
		workers_run(workers, &c->job);
	} else {
		saved_close(all.saved);
		restored_close(all.restored);
	}
}

/* To nothing: it begins anew. Longer, as a copy with a hole at its end asks: its bytes tell. */
static int state_truncate(struct handle *h, uint64_t size, struct err *e)
{
	if (h->late)
		return err_set(e, EBUSY, "state: it is still being written; wait for that");
	if (!size && h->restored) {
		restored_close(h->restored);
		h->restored = NULL;
		h->dirty = false;
	}
	return 0;
}

static void state_release(struct handle *h)
{
	struct err e = {0};
	if (h->node.conversation->session && state_flush(h, true, &e))
		failure_refused(&h->node, &e);
	if (h->saved || h->restored)
		drop(h);
}

const struct file_ops state_ops = {
	.open = state_open,
	.read_in_worker = state_read,
	.write_later = state_write,
	.truncate = state_truncate,
	.flush = state_flush,
	.release = state_release,
	.size = state_size,
};
