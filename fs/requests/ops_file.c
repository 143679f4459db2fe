/* Operations on open files: open, read, write, flush, release, poll. See ops.h. */
#include "fs/mount/handle.h"
#include "fs/mount/pollers.h"
#include "fs/mount/refusals.h"
#include "fs/requests/ops.h"
#include "fs/requests/pages.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <unistd.h>

static struct handle *handle_of(const struct fuse_file_info *file)
{
	return (struct handle *)(uintptr_t)file->fh; // NOLINT(performance-no-int-to-ptr)
}

/* ---- open ---- */

static int open_check(const struct node *n, const struct call *c)
{
	int mode = c->file.flags & O_ACCMODE;
	int wanted = (mode != O_WRONLY ? R_OK : 0) | (mode != O_RDONLY ? W_OK : 0);
	if (c->file.flags & O_TRUNC)
		wanted |= W_OK;
	return node_may(n, n->viewer, wanted) ? 0 : -EACCES;
}

static void open_answer(struct call *c, struct handle *h)
{
	const struct row *row = h->node.row;
	c->file.fh = (uintptr_t)h;
	c->file.direct_io = row->caching != CACHING_STATIC;
	c->file.keep_cache = row->caching == CACHING_STATIC;
	if (handle_reads(h))
		pages_opened(&h->node);
	/* The process may have been killed in the meantime: then there will be no RELEASE. */
	if (fuse_reply_open(c->req, &c->file) == -ENOENT)
		handle_release(h);
}

/* A session in the tree without the engine's is ending with the mount: who waited for a prompt
 * there is told so. */
static int open_node(const struct call *c, struct node *n)
{
	int code = tree_node(c->mount, c->inode, fuse_req_ctx(c->req)->uid, n);
	if (!code && n->conversation && !n->conversation->session)
		code = -EIO;
	return code ? code : open_check(n, c);
}

static void open_serve(struct call *c)
{
	struct node n;
	struct handle *h;
	struct err e = {0};
	pid_t thread = fuse_req_ctx(c->req)->pid;
	int code = open_node(c, &n);
	if (!code && n.row->flags & ROW_GATED && !c->waited &&
	    conversation_closing(n.conversation)) {
		call_wait(c, &n.conversation->for_release, conversation_closing_ms(n.conversation));
		return;
	}
	if (!code && n.row->flags & ROW_TELLS && (c->file.flags & O_ACCMODE) != O_WRONLY &&
	    refusals_tell(&n, thread, n.row->flags & ROW_REPEATS))
		code = -EIO;
	if (!code && (code = handle_open(&h, &n, c->file.flags, thread, &e)))
		node_failure(&n, &e);
	if (code)
		fuse_reply_err(c->req, -code);
	else
		open_answer(c, h);
	call_free(c);
}

void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct call *c = call_new(req, fuse_req_userdata(req), open_serve);
	if (!c) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	c->inode = inode;
	c->file = *file;
	c->serve(c);
}

/* ---- read ---- */

/* Another file system may cut a long read into several and send all of them at once (sshfs does):
 * what begins where one ends that got less than it asked for would wait for what no one has asked
 * for yet, and the reader with it. It is the end, for now. */
static bool is_rest(const struct handle *h, const struct call *c)
{
	return h->rest && h->rest == c->offset && !c->waited;
}

static void set_rest(struct handle *h, const struct call *c, ssize_t n)
{
	bool less = h->node.row->caching == CACHING_STREAM && n >= 0 && (size_t)n < c->size;
	h->rest = less ? c->offset + c->size : 0;
}

static void read_serve(struct call *c)
{
	struct handle *h = c->handle;
	char *buffer = c->mount->scratch;
	ssize_t n = c->waited ? -EIO : -ESTALE;
	if (!handle_ended(h) && is_rest(h, c))
		n = 0;
	else if (!handle_ended(h))
		n = h->node.row->ops->read_in_worker ? worker_read(h, c)
						     : h->node.row->ops->read(h, c, buffer);
	if (n == CALL_KEPT)
		return;
	set_rest(h, c, n);
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
	if (pages_refused(handle_of(file), file)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	struct call *c = call_new(req, fuse_req_userdata(req), read_serve);
	if (!c) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	c->handle = handle_of(file);
	c->size = size < READ_MAX_BYTES ? size : READ_MAX_BYTES;
	c->offset = (uint64_t)offset;
	c->nonblocking = file->flags & O_NONBLOCK;
	c->serve(c);
}

/* ---- write ---- */

/* Answers with an error if there is one, and remembers its sentence. True: there was none. */
static bool went_well(fuse_req_t req, const struct handle *h, int code, const struct err *e)
{
	if (!code)
		return true;
	if (e->code)
		node_failure(&h->node, e);
	fuse_reply_err(req, -code);
	return false;
}

void op_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *file)
{
	(void)inode;
	struct handle *h = handle_of(file);
	struct err e = {0};
	h->caller = fuse_req_ctx(req)->pid;
	const struct file_ops *ops = h->node.row->ops;
	h->rest = 0;
	handle_relayed(h);
	if (!handle_ended(h) && ops->write_later) {
		(void)went_well(req, h, ops->write_later(h, req, data, size, (uint64_t)offset, &e),
				&e);
		return;
	}
	int code = handle_ended(h) ? -ESTALE : ops->write(h, data, size, (uint64_t)offset, &e);
	if (went_well(req, h, code, &e))
		fuse_reply_write(req, size);
}

int file_truncate(struct fuse_file_info *file, uint64_t size)
{
	struct handle *h = handle_of(file);
	struct err e = {0};
	if (handle_ended(h))
		return -ESTALE;
	int code = h->node.row->ops->truncate ? h->node.row->ops->truncate(h, size, &e) : 0;
	if (code)
		node_failure(&h->node, &e);
	return code;
}

/* FLUSH comes from whoever closes a descriptor, and the caller is known by its thread. */
static bool is_opener(const struct handle *h, pid_t caller)
{
	if (caller == h->opener_thread)
		return true;
	pid_t opener = handle_opener(h);
	return opener == caller || opener == process_of(caller);
}

void op_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	struct handle *h = handle_of(file);
	struct err e = {0};
	int code = 0;
	if (h->node.row->ops->flush && handle_writes(h) && !handle_ended(h)) {
		const struct file_ops *ops = h->node.row->ops;
		bool by_opener = is_opener(h, fuse_req_ctx(req)->pid);
		if (ops->flush_later && ops->flush_later(h, by_opener, req))
			return;
		code = ops->flush(h, by_opener, &e);
	}
	if (went_well(req, h, code, &e))
		fuse_reply_err(req, 0);
}

/* Who wants to know now what a close would say has to ask by this: sshfs does not wait for it, and
 * tells nobody how it went. */
void op_fsync(fuse_req_t req, fuse_ino_t inode, int data_alone, struct fuse_file_info *file)
{
	(void)data_alone;
	op_flush(req, inode, file);
}

void op_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	handle_release(handle_of(file));
	fuse_reply_err(req, 0);
}

/* ---- poll ---- */

void op_poll(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file,
	     struct fuse_pollhandle *poll)
{
	(void)inode;
	struct handle *h = handle_of(file);
	unsigned ready = poll_ready(h);
	if (poll)
		poll_later(h, poll);
	fuse_reply_poll(req, ready);
}
