/* The texts of a conversation: messages.json, template.json, tools.json, which are written whole,
 * and tool_calls.json, which grows. Which of the engine's texts it is stands in the row. A long one
 * is read and checked by the workers. */
#include "fs/files/files.h"
#include "fs/files/late.h"
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

static int take(struct session *s, size_t which, const char *text, size_t length, struct err *e)
{
	return session_text_set(s, (enum session_text)which, text, length, e);
}

static bool text_flush_later(struct handle *h, bool by_opener, fuse_req_t req)
{
	return h->dirty && !h->poison && by_opener && h->written.length >= LONG_BYTES &&
	       late_text(h, req, text_of(&h->node), take, NULL);
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

static ssize_t calls_read(struct handle *h, struct file_call *c, char *buffer)
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
