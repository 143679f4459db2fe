/* The texts of a conversation: messages.json, template.json, tools.json, which are written whole,
 * and tool_calls.json, which grows. Which of the engine's texts it is stands in the row.
 *
 * To read a long list of messages takes long, so the workers do it: who closes the file waits. */
#include "fs/files.h"
#include "fs/handle.h"
#include "fs/workers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

static enum session_text text_of(const struct node *n)
{
	return (enum session_text)n->row->fact;
}

void conversation_text_render(const struct node *n, struct text *out)
{
	size_t length;
	struct err e;
	char *text = session_text_get(n->conversation->session, text_of(n), &length, &e);
	if (text)
		text_add(out, text, length);
	else
		out->failed = true;
	free(text);
}

uint64_t conversation_text_size(const struct node *n)
{
	return session_text_bytes(n->conversation->session, text_of(n));
}

int conversation_text_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	int code = session_text_set(n->conversation->session, text_of(n), value, length, e);
	if (!code)
		conversation_wake(n->conversation);
	return code;
}

static ssize_t text_read(struct handle *h, struct call *c, char *buffer)
{
	return assembled_ops.read(h, c, buffer);
}

/* What would be refused when it is closed is refused now, so that a shell hears of it. */
static int text_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		      struct err *e)
{
	if (!session_working(h->node.conversation->session))
		return assembled_ops.write(h, data, size, offset, e);
	h->poison = EBUSY;
	return err_set(e, EBUSY,
		       "%s: the session is still answering: read its output to the end, or "
		       "`echo stop > ctl`",
		       h->node.row->name);
}

static int text_truncate(struct handle *h, uint64_t size, struct err *e)
{
	return assembled_ops.truncate(h, size, e);
}

/* ---- taking effect ---- */

enum { AT_ONCE_MOST = 64 << 10 }; /* bytes that the loop may read itself */

struct taking {
	struct job job;
	fuse_req_t req;	       /* a FLUSH; NULL: it is for the RELEASE */
	struct handle *handle; /* whose FLUSH it is: is released after the answer */
	struct node node;
	struct session *session; /* borrowed */
	struct text text;
	struct err why;
	int code;
};

static void take_work(struct job *job)
{
	struct taking *t = LINK_OWNER(job, struct taking, job);
	t->code = session_text_set(t->session, text_of(&t->node), t->text.data, t->text.length,
				   &t->why);
}

/* Who goes on to write in the same open file changes what he had written, as if it had been read at
 * once. */
static void give_back(struct taking *t)
{
	struct handle *h = t->handle;
	if (h && !h->dirty && !h->written.data) {
		h->written = t->text;
		t->text = (struct text){0};
	}
}

static void take_finish(struct job *job)
{
	struct taking *t = LINK_OWNER(job, struct taking, job);
	if (t->code)
		node_failure(&t->node, &t->why);
	else
		conversation_wake(t->node.conversation);
	give_back(t);
	if (t->req)
		fuse_reply_err(t->req, -t->code);
	conversation_return(t->node.conversation);
	text_free(&t->text);
	free(t);
}

static int take(struct handle *h, fuse_req_t req, struct err *e)
{
	struct taking *t = calloc(1, sizeof *t);
	if (!t)
		return err_set(e, ENOMEM, "%s: no memory to take it", h->node.row->name);
	t->job.slow = true;
	t->job.work = take_work;
	t->job.finish = take_finish;
	t->req = req;
	t->handle = req ? h : NULL;
	t->node = h->node;
	t->session = conversation_borrow(h->node.conversation);
	t->text = h->written;
	h->written = (struct text){0};
	h->dirty = false;
	workers_run(h->node.mount->workers, &t->job);
	return CALL_KEPT;
}

static bool is_long(const struct handle *h)
{
	return h->dirty && !h->poison && h->written.length > AT_ONCE_MOST;
}

static int text_flush(struct handle *h, fuse_req_t req, bool by_opener, struct err *e)
{
	return by_opener && is_long(h) ? take(h, req, e) : assembled_ops.flush(h, by_opener, e);
}

static void text_release(struct handle *h)
{
	struct err e = {0};
	if (!is_long(h))
		assembled_ops.release(h);
	else if (h->node.conversation->session && take(h, NULL, &e) != CALL_KEPT)
		node_failure(&h->node, &e);
}

const struct file_ops conversation_text_ops = {
	.read = text_read,
	.write = text_write,
	.truncate = text_truncate,
	.flush_later = text_flush,
	.release = text_release,
	.size = conversation_text_size,
};

/* ---- tool_calls.json ---- */

static ssize_t calls_read(struct handle *h, struct call *c, char *buffer)
{
	ssize_t n = live_ops.read(h, c, buffer);
	h->cursor = h->shown.length;
	return n;
}

/* Ready when there are calls that were not read through this handle, or no more can come. */
static unsigned calls_poll(struct handle *h)
{
	enum { EMPTY = sizeof "[]\n" - 1 };
	uint64_t length = conversation_text_size(&h->node);
	bool news = length > EMPTY && length != h->cursor;
	return news || !session_working(h->node.conversation->session) ? POLLIN | POLLRDNORM : 0;
}

const struct file_ops tool_calls_ops = {
	.read = calls_read,
	.size = conversation_text_size,
	.poll = calls_poll,
};
