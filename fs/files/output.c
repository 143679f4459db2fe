/* Files that read a session's answers: output, thoughts and logprobs.jsonl, which grow with the
 * answer; wait; log.
 *
 * An open output belongs to one answer: the newest one at the time of the open. (The open of a
 * ROW_GATED row waits for a prompt that is being closed.) Reads go by offset in that answer, so
 * each of several readers sees all of it. After a reader has reached the end, its next read at
 * offset 0 begins the newest answer. */
#include "fs/files/files.h"
#include "fs/files/values.h"
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

/* Polling binds a handle to the newest answer, like the next read would, if the handle has no
 * answer or is at its end, unless something was read already. */
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

/* ---- wait: the status, once the turn has ended ---- */

static ssize_t output_wait_read(struct handle *h, struct file_call *c, char *buffer)
{
	struct conversation *s = h->node.conversation;
	if (c->offset == 0 && session_working(s->session))
		return handle_read_waits(c, &s->for_turn);
	return value_read(h, c, buffer);
}

static uint64_t output_wait_size(const struct node *n)
{
	const struct session *s = n->conversation->session;
	return session_working(s) ? 0 : strlen(session_status_word(session_status(s))) + 1;
}

static unsigned output_wait_poll(struct handle *h)
{
	return session_working(h->node.conversation->session) ? 0 : POLLIN | POLLRDNORM;
}

static struct link *output_wait_pollers(const struct handle *h)
{
	return &h->node.conversation->turn_pollers;
}

const struct file_ops output_wait_ops = {
	.read = output_wait_read,
	.size = output_wait_size,
	.poll = output_wait_poll,
	.pollers = output_wait_pollers,
};

/* ---- log: the conversation as text ---- */

static uint64_t output_log_size(const struct node *n)
{
	return session_log_size(n->conversation->session);
}

static ssize_t output_log_read(struct handle *h, struct file_call *c, char *buffer)
{
	const struct session *s = h->node.conversation->session;
	size_t n = session_log_read(s, c->offset, buffer, c->size);
	h->cursor = n ? c->offset + n : session_log_size(s);
	return (ssize_t)n;
}

/* Readable when the length differs from the length read: text was added, or removed by undo. */
static unsigned output_log_poll(struct handle *h)
{
	return output_log_size(&h->node) != h->cursor ? POLLIN | POLLRDNORM : 0;
}

const struct file_ops output_log_ops = {
	.read = output_log_read,
	.size = output_log_size,
	.poll = output_log_poll,
};
