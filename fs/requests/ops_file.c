/* FUSE's operations on open files: open, read, write, flush, release, poll. See ops.h. */
#include "fs/base/workers.h"
#include "fs/mount/handle.h"
#include "fs/mount/node.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct handle *file_handle(const struct fuse_file_info *file)
{
	return (struct handle *)(uintptr_t)file->fh; // NOLINT(performance-no-int-to-ptr)
}

/* ---- open ---- */

static int file_open_check(const struct file_call *c, struct node *n)
{
	int code = tree_node(c->mount, c->inode, fuse_req_ctx(c->req)->uid, n);
	if (code)
		return code;
	/* The mount, and with it the session, has ended while this open waited for its prompt. */
	if (n->conversation && !n->conversation->session)
		return -EIO;
	int mode = c->file.flags & O_ACCMODE;
	int wanted = (mode != O_WRONLY ? R_OK : 0) | (mode != O_RDONLY ? W_OK : 0);
	if (c->file.flags & O_TRUNC)
		wanted |= W_OK;
	return tree_allows(n, n->viewer, wanted) ? 0 : -EACCES;
}

static void file_open_reply(struct file_call *c, struct handle *h)
{
	const struct tree_row *row = h->node.row;
	c->file.fh = (uintptr_t)h;
	c->file.direct_io = row->caching != CACHING_STATIC;
	c->file.keep_cache = row->caching == CACHING_STATIC;
	if (handle_reads(h))
		splice_opened(&h->node);
	/* -ENOENT: the process was killed in the meantime, so there will be no RELEASE. */
	if (fuse_reply_open(c->req, &c->file) == -ENOENT)
		handle_release(h);
}

static void file_open_serve(struct file_call *c)
{
	struct node n;
	struct handle *h;
	struct err e = {0};
	pid_t thread = fuse_req_ctx(c->req)->pid;
	int code = file_open_check(c, &n);
	if (!code && n.row->flags & ROW_GATED && !c->waited &&
	    conversation_closing(n.conversation)) {
		call_wait(c, &n.conversation->for_release, conversation_closing_ms(n.conversation));
		return;
	}
	if (!code && n.row->flags & ROW_TELLS && (c->file.flags & O_ACCMODE) != O_WRONLY &&
	    refusals_tell(&n, thread, n.row->flags & ROW_REPEATS))
		code = -EIO;
	if (!code && (code = handle_open(&h, &n, c->file.flags, thread, &e)))
		failure_refused(&n, &e);
	if (code)
		fuse_reply_err(c->req, -code);
	else
		file_open_reply(c, h);
	call_free(c);
}

void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct file_call *c = call_new(req, fuse_req_userdata(req), file_open_serve);
	if (!c) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	c->inode = inode;
	c->file = *file;
	c->serve(c);
}

/* ---- reads in a worker, for files whose reads block (file_ops.read_in_worker) ---- */

struct worker_read {
	struct job job;
	struct file_call *call;
	char *buffer;
	int64_t result;
	struct err why;
};

static void file_read_work(struct job *job)
{
	struct worker_read *r = LINK_OWNER(job, struct worker_read, job);
	const struct handle *h = r->call->handle; /* released after the answer */
	r->result = h->node.row->ops->read_in_worker(h, r->call->offset, r->buffer, r->call->size,
						     &r->why);
}

static void file_read_finish(struct job *job)
{
	struct worker_read *r = LINK_OWNER(job, struct worker_read, job);
	if (r->result < 0) {
		failure_of_mount(r->call->mount, &r->why);
		fuse_reply_err(r->call->req, (int)-r->result);
	} else
		fuse_reply_buf(r->call->req, r->buffer, (size_t)r->result);
	call_free(r->call);
	free(r->buffer);
	free(r);
}

/* -ENOMEM, or CALL_KEPT. */
static ssize_t file_read_in_worker(struct handle *h, struct file_call *c)
{
	struct worker_read *r = calloc(1, sizeof *r);
	if (!r || !(r->buffer = malloc(c->size + 1))) {
		free(r);
		return -ENOMEM;
	}
	r->job = (struct job){.work = file_read_work, .finish = file_read_finish};
	r->call = c;
	workers_run(h->node.mount->workers, &r->job);
	return CALL_KEPT;
}

/* ---- read ---- */

/* Another file system (sshfs) may cut a long read into several and send all of them at once. If one
 * of them gets less than it asked for, the next would wait for text that the program does not need
 * yet, and the program would wait, too. So a read that starts at the end of the last request
 * (h->rest) gets an end of file instead of waiting. */
static void file_read_serve(struct file_call *c)
{
	struct handle *h = c->handle;
	char *buffer = c->mount->scratch;
	ssize_t n = c->waited ? -EIO : -ESTALE;
	if (!handle_ended(h) && h->rest && h->rest == c->offset && !c->waited)
		n = 0;
	else if (!handle_ended(h))
		n = h->node.row->ops->read_in_worker ? file_read_in_worker(h, c)
						     : h->node.row->ops->read(h, c, buffer);
	if (n == CALL_KEPT)
		return;
	bool less = h->node.row->caching == CACHING_STREAM && n >= 0 && (size_t)n < c->size;
	h->rest = less ? c->offset + c->size : 0;
	if (n < 0)
		fuse_reply_err(c->req, (int)-n);
	else
		fuse_reply_buf(c->req, buffer, (size_t)n);
	call_free(c);
}

void op_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
	     struct fuse_file_info *file)
{
	(void)inode;
	if (splice_refused(file_handle(file), file)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	struct file_call *c = call_new(req, fuse_req_userdata(req), file_read_serve);
	if (!c) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	c->handle = file_handle(file);
	c->size = size < READ_MAX_BYTES ? size : READ_MAX_BYTES;
	c->offset = (uint64_t)offset;
	c->nonblocking = file->flags & O_NONBLOCK;
	c->serve(c);
}

/* ---- write ---- */

/* Returns true if there was no error; otherwise answers the request, puts the sentence into
 * `error`, and returns false. */
static bool file_succeeded(fuse_req_t req, const struct handle *h, int code, const struct err *e)
{
	if (!code)
		return true;
	if (e->code)
		failure_refused(&h->node, e);
	fuse_reply_err(req, -code);
	return false;
}

void op_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *file)
{
	(void)inode;
	struct handle *h = file_handle(file);
	struct err e = {0};
	h->caller = fuse_req_ctx(req)->pid;
	const struct file_ops *ops = h->node.row->ops;
	h->rest = 0;
	handle_relayed(h);
	if (!handle_ended(h) && ops->write_later) {
		int code = ops->write_later(h, req, data, size, (uint64_t)offset, &e);
		(void)file_succeeded(req, h, code, &e);
		return;
	}
	int code = handle_ended(h) ? -ESTALE : ops->write(h, data, size, (uint64_t)offset, &e);
	if (file_succeeded(req, h, code, &e))
		fuse_reply_write(req, size);
}

int file_truncate(struct fuse_file_info *file, uint64_t size)
{
	struct handle *h = file_handle(file);
	struct err e = {0};
	if (handle_ended(h))
		return -ESTALE;
	int code = h->node.row->ops->truncate ? h->node.row->ops->truncate(h, size, &e) : 0;
	if (code)
		failure_refused(&h->node, &e);
	return code;
}

/* Each process that closes a descriptor sends a FLUSH; FUSE names the calling thread. */
static bool file_is_opener(const struct handle *h, pid_t caller)
{
	if (caller == h->opener_thread)
		return true;
	pid_t opener = handle_opener(h);
	return opener == caller || opener == proc_of_thread(caller);
}

void op_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	struct handle *h = file_handle(file);
	struct err e = {0};
	int code = 0;
	if (h->node.row->ops->flush && handle_writes(h) && !handle_ended(h)) {
		const struct file_ops *ops = h->node.row->ops;
		bool by_opener = file_is_opener(h, fuse_req_ctx(req)->pid);
		if (ops->flush_later && ops->flush_later(h, by_opener, req))
			return;
		code = ops->flush(h, by_opener, &e);
	}
	if (file_succeeded(req, h, code, &e))
		fuse_reply_err(req, 0);
}

/* fsync reports the error that close would report. sshfs does not wait for close and drops its
 * error, so there is no other way to learn the error. */
void op_fsync(fuse_req_t req, fuse_ino_t inode, int data_alone, struct fuse_file_info *file)
{
	(void)data_alone;
	op_flush(req, inode, file);
}

void op_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	handle_release(file_handle(file));
	fuse_reply_err(req, 0);
}

void op_poll(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file,
	     struct fuse_pollhandle *poll)
{
	(void)inode;
	struct handle *h = file_handle(file);
	unsigned ready = poller_ready(h);
	if (poll)
		poller_add(h, poll);
	fuse_reply_poll(req, ready);
}
