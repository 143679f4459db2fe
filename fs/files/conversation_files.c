/* The texts of a conversation: messages.json, template.json, tools.json, which are written whole,
 * and tool_calls.json, which grows. Which of the engine's texts it is stands in the row. A long one
 * is read and checked by the workers. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/live.h"
#include "fs/mount/handle.h"

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

/* What would be refused when it is closed is refused now, so that a shell hears of it. */
static int text_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		      struct err *e)
{
	if (!session_working(h->node.conversation->session))
		return assembled_write(h, data, size, offset, e);
	h->poison = EBUSY;
	return err_set(e, EBUSY,
		       "%s: the session is still answering: read its output to the end, or "
		       "`echo stop > ctl`",
		       h->node.row->name);
}

/* ---- long ones ---- */

enum { LONG_BYTES = 64 << 10 };

struct taking {
	struct job job;
	fuse_req_t req; /* a FLUSH; NULL: it is for a RELEASE */
	struct node node;
	struct session *session; /* borrowed */
	enum session_text what;
	struct text text; /* a copy: who shares the open file may go on writing */
	int code;
	struct err why;
};

static void take(struct job *job)
{
	struct taking *t = LINK_OWNER(job, struct taking, job);
	t->code = session_text_set(t->session, t->what, t->text.data, t->text.length, &t->why);
}

static void taken(struct job *job)
{
	struct taking *t = LINK_OWNER(job, struct taking, job);
	struct conversation *c = t->node.conversation;
	if (t->code)
		node_failure(&t->node, &t->why);
	else {
		node_took(&t->node);
		conversation_wake(c);
	}
	if (t->req) {
		fuse_reply_err(t->req, -t->code);
	} else {
		c->taking--;
		calls_wake(c->model->mount, &c->for_release);
	}
	conversation_return(c);
	text_free(&t->text);
	free(t);
}

static bool text_flush_later(struct handle *h, bool by_opener, fuse_req_t req)
{
	if (!h->dirty || h->poison || !by_opener || h->written.length < LONG_BYTES)
		return false;
	struct taking *t = calloc(1, sizeof *t);
	if (!t)
		return false;
	text_add(&t->text, h->written.data, h->written.length);
	if (t->text.failed) {
		free(t);
		return false;
	}
	h->dirty = false;
	h->flushed = true;
	h->node.conversation->taking += !req;
	t->job.slow = true;
	t->job.work = take;
	t->job.finish = taken;
	t->req = req;
	t->node = h->node;
	t->what = text_of(&h->node);
	t->session = conversation_borrow(h->node.conversation);
	workers_run(h->node.mount->workers, &t->job);
	return true;
}

/* Who closed it last is not who opened it: nobody waits for the answer. */
static void text_release(struct handle *h)
{
	if (!h->node.conversation->session || !text_flush_later(h, true, NULL))
		assembled_release(h);
}

const struct file_ops conversation_text_ops = {
	.read = live_read,
	.write = text_write,
	.truncate = assembled_truncate,
	.flush = assembled_flush,
	.flush_later = text_flush_later,
	.release = text_release,
	.size = conversation_text_size,
};

/* ---- tool_calls.json ---- */

static ssize_t calls_read(struct handle *h, struct call *c, char *buffer)
{
	ssize_t n = live_read(h, c, buffer);
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
