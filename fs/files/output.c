/* output, thoughts and what else grows beside it, wait and log: what the session says.
 *
 * An open output is bound to one answer: the newest at open (the gate in ops.c has waited for a
 * prompt that was closing). Reads are by offset in that answer, so several readers each see all of
 * it. Having reached its end, a read at offset 0 binds to the answer that is then the newest. */
#include "fs/files/files.h"
#include "fs/files/live.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

static void output_bind(struct handle *h)
{
	answer_unref(h->answer);
	h->answer = h->node.row->grows(h->node.conversation->session);
	h->ended = false;
	h->cursor = 0;
}

static int output_open(struct handle *h, struct err *e)
{
	(void)e;
	output_bind(h);
	return 0;
}

static ssize_t output_read(struct handle *h, struct file_call *c, char *buffer)
{
	struct conversation *s = h->node.conversation;
	if (c->offset == 0 && (h->ended || !h->answer)) {
		if (conversation_closing(s) && !c->waited && !c->nonblocking) {
			call_wait(c, &s->for_release, conversation_closing_ms(s));
			return CALL_KEPT;
		}
		output_bind(h);
	}
	if (!h->answer)
		return 0;
	bool complete = false;
	ssize_t n = answer_read(h->answer, c->offset, buffer, c->size, &complete);
	if (n > 0 && c->offset + (uint64_t)n > h->cursor)
		h->cursor = c->offset + (uint64_t)n;
	if (n == 0 && !complete && c->size)
		return handle_read_waits(c, &s->for_text);
	if (n <= 0)
		h->ended = true;
	return n;
}

static uint64_t output_size(const struct node *n)
{
	struct answer *a = n->row->grows(n->conversation->session);
	bool complete = false;
	uint64_t size = a ? answer_size(a, &complete) : 0;
	answer_unref(a);
	return complete ? size : 0;
}

/* Of what nothing was read a read at offset 0 would bind to the newest answer. */
static unsigned output_poll(struct handle *h)
{
	bool complete = true;
	if (!h->cursor && (h->ended || !h->answer))
		output_bind(h);
	uint64_t size = h->answer ? answer_size(h->answer, &complete) : 0;
	return complete || size > h->cursor ? POLLIN | POLLRDNORM : 0;
}

const struct file_ops output_ops = {
	.open = output_open,
	.read = output_read,
	.size = output_size,
	.poll = output_poll,
};

static ssize_t wait_read(struct handle *h, struct file_call *c, char *buffer)
{
	struct conversation *s = h->node.conversation;
	if (c->offset == 0 && session_working(s->session))
		return handle_read_waits(c, &s->for_turn);
	return live_read(h, c, buffer);
}

static uint64_t wait_size(const struct node *n)
{
	const struct session *s = n->conversation->session;
	return session_working(s) ? 0 : strlen(session_status_word(session_status(s))) + 1;
}

static unsigned wait_poll(struct handle *h)
{
	return session_working(h->node.conversation->session) ? 0 : POLLIN | POLLRDNORM;
}

static struct link *wait_pollers(const struct handle *h)
{
	return &h->node.conversation->turn_pollers;
}

const struct file_ops wait_ops = {
	.read = wait_read,
	.size = wait_size,
	.poll = wait_poll,
	.pollers = wait_pollers,
};

static uint64_t log_size(const struct node *n)
{
	return session_log_size(n->conversation->session);
}

static ssize_t log_read(struct handle *h, struct file_call *c, char *buffer)
{
	const struct session *s = h->node.conversation->session;
	size_t n = session_log_read(s, c->offset, buffer, c->size);
	h->cursor = n ? c->offset + n : session_log_size(s);
	return (ssize_t)n;
}

/* Readable when it is another length than what was read: more was said, or some was taken back. */
static unsigned log_poll(struct handle *h)
{
	return log_size(&h->node) != h->cursor ? POLLIN | POLLRDNORM : 0;
}

const struct file_ops log_ops = {
	.read = log_read,
	.size = log_size,
	.poll = log_poll,
};
