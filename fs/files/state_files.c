/* state: a whole session in one file, to save it, restore it or fork it.
 *
 * Opened for reading, the file is the session at that moment, until the handle is released,
 * whatever happens to the session meanwhile: session_save copies texts and ids, and shares the
 * computed context. Written pieces (cp writes 128 KiB at a time) are collected; the first write
 * that shows that the state is not this model's is refused. The FLUSH of the process that opened
 * the file makes it the session (session_restore exchanges pointers), if it is complete.
 *
 * Contexts are large, so workers copy, check and free them. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/values.h"

#include <errno.h>
#include <stdlib.h>

static int state_open(struct handle *h, struct err *e)
{
	const struct session *s = h->node.conversation->session;
	if (session_working(s))
		return value_session_answers(h, e);
	if (!handle_reads(h))
		return 0;
	return session_save(h->node.conversation->session, &h->saved, e);
}

static uint64_t state_size(const struct node *n)
{
	return session_state_bytes(n->conversation->session);
}

static int64_t state_read(const struct handle *h, uint64_t offset, void *buffer, size_t bytes,
			  struct err *e)
{
	(void)e;
	return (int64_t)saved_read(h->saved, offset, buffer, bytes);
}

static int state_feed(struct deferred_write *w, struct err *e)
{
	return restored_feed(w->handle->restored, w->offset, w->bytes, w->size, e);
}

static int state_write(struct handle *h, fuse_req_t req, const char *bytes, size_t size,
		       uint64_t offset, struct err *e)
{
	const struct deferred_write w = {
		.req = req, .handle = h, .offset = offset, .size = size, .take = state_feed};
	int code = h->restored ? 0 : restored_begin(h->node.model->model, &h->restored, e);
	if (!code) /* slow: the last piece parses a conversation, which may be long */
		code = value_write_deferred(&w, bytes, true, e);
	h->dirty |= !code;
	return code;
}

/* ---- taking effect, and releasing ---- */

static int state_flush(struct handle *h, bool by_opener, struct err *e)
{
	handle_flushed(h, by_opener);
	if (!h->dirty || !by_opener || h->deferred) /* RELEASE comes after the last write */
		return 0;
	h->dirty = false;
	int code = session_restore(h->node.conversation->session, h->restored, e);
	if (!code)
		failure_accepted(&h->node); /* earlier refusals belong to the old session */
	return code;
}

struct state_close {
	struct job job;
	struct saved *saved;
	struct restored *restored;
};

static void state_close_work(struct job *job)
{
	const struct state_close *c = LINK_OWNER(job, struct state_close, job);
	saved_close(c->saved);
	restored_close(c->restored);
}

static void state_close_finish(struct job *job)
{
	free(LINK_OWNER(job, struct state_close, job));
}

/* Frees the handle's contents: in a worker, or here if there are no workers or no memory. */
static void state_release(struct handle *h)
{
	struct err e = {0};
	if (h->node.conversation->session && state_flush(h, true, &e))
		failure_refused(&h->node, &e);
	if (!h->saved && !h->restored)
		return;
	const struct state_close all = {
		.job = {.slow = true, .work = state_close_work, .finish = state_close_finish},
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

/* To 0 bytes: begins again. Other sizes (from a copy that ends in a hole) do nothing, since the
 * written bytes say how long a state is. */
static int state_truncate(struct handle *h, uint64_t size, struct err *e)
{
	if (h->deferred)
		return err_set(e, EBUSY,
			       "state: an earlier write is still in progress; wait for it");
	if (!size && h->restored) {
		restored_close(h->restored);
		h->restored = NULL;
		h->dirty = false;
	}
	return 0;
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
