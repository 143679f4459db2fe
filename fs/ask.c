/* ask: every open file is a conversation of its own. Write the question, read the answer; the first
 * read submits. After the answer's end a write begins the next turn, before it it is EBUSY.
 *
 * Reads follow the handle's own cursor and not the file's offset, which writes move as well. One
 * thing is taken from the offset: a seek back over what was just read reads it again, because that
 * is how bash's `read` returns what it read too far. */
#include "fs/handle.h"
#include "fs/unsubmitted.h"

#include <errno.h>
#include <poll.h>

static int ask_open(struct handle *h, struct err *e)
{
	if (!handle_reads(h))
		return err_set(
			e, EINVAL,
			"ask: open it for reading and writing, as in `exec 3<>ask`; the answer "
			"is read from the same open file");
	if (!handle_writes(h))
		return 0;
	struct conversation *c;
	int code = sessions_private(h->node.model, h->node.viewer, &c, e);
	if (!code)
		h->node.conversation = c;
	return code;
}

static bool ask_answering(const struct handle *h)
{
	bool complete = true;
	if (h->answer)
		answer_size(h->answer, &complete);
	return !complete;
}

static int ask_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e)
{
	(void)offset;
	uint64_t most = model_max_prompt_bytes(h->node.model->model);
	if (ask_answering(h))
		return err_set(e, EBUSY,
			       "ask: read the answer to its end before the next question");
	answer_unref(h->answer);
	h->answer = NULL;
	int code;
	if (h->poison)
		code = err_set(
			e, h->poison,
			"ask: an earlier write of this question failed; read, and ask again");
	else if (size > most || h->written.length > most - size)
		code = err_set(e, EFBIG,
			       "ask: more than %llu bytes do not fit into the context "
			       "(info/max_prompt_bytes); nothing was submitted",
			       (unsigned long long)most);
	else
		code = unsubmitted_add(h, data, size, e);
	h->poison = -code;
	return code;
}

static int ask_truncate(struct handle *h, uint64_t size, struct err *e)
{
	(void)e;
	if (size < h->written.length)
		text_cut(&h->written, (size_t)size);
	return 0;
}

static bool ask_pending(const struct handle *h)
{
	const struct text *t = &h->written;
	return h->poison || t->length > 1 || (t->length == 1 && t->data[0] != '\n');
}

static int ask_submit(struct handle *h, struct err *e)
{
	int code;
	if (h->poison)
		code = err_set(e, EIO, "ask: the question was not submitted: %s",
			       h->poison == EFBIG    ? "it was longer than info/max_prompt_bytes"
			       : h->poison == ENOSPC ? "too much text was written and not submitted"
						     : "out of memory");
	else
		code = session_submit(h->node.conversation->session, h->written.data,
				      h->written.length, &h->answer, e);
	h->poison = 0;
	unsubmitted_drop(h);
	h->cursor = 0;
	return code;
}

static ssize_t ask_read(struct handle *h, struct call *c, char *buffer)
{
	if (!h->node.conversation)
		return 0;
	struct err e = {0};
	if (!h->answer && ask_pending(h)) {
		h->first = h->next = c->offset;
		if (ask_submit(h, &e))
			return node_failure(&h->node, &e);
		node_accepted(&h->node);
	}
	if (!h->answer)
		return 0;
	if (c->offset >= h->first && c->offset < h->next) {
		uint64_t back = h->next - c->offset;
		h->cursor -= back < h->cursor ? back : h->cursor;
	}
	bool complete = false;
	ssize_t n = answer_read(h->answer, h->cursor, buffer, c->size, &complete);
	if (n == 0 && !complete && c->size)
		return read_waits(c, &h->node.conversation->for_text);
	if (n > 0) {
		h->cursor += (uint64_t)n;
		h->next = c->offset + (uint64_t)n;
	}
	return n;
}

static uint64_t ask_size(const struct node *n)
{
	(void)n;
	return 0;
}

/* With a question pending it is readable: a read is what submits it. */
static unsigned ask_poll(struct handle *h)
{
	if (!h->answer || !ask_answering(h))
		return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	bool complete;
	return answer_size(h->answer, &complete) > h->cursor ? POLLIN | POLLRDNORM : 0;
}

static void ask_release(struct handle *h)
{
	if (h->node.conversation)
		conversation_end(h->node.conversation);
}

const struct file_ops ask_ops = {
	.open = ask_open,
	.read = ask_read,
	.write = ask_write,
	.truncate = ask_truncate,
	.release = ask_release,
	.size = ask_size,
	.poll = ask_poll,
};
