/* prompt: the written text becomes a turn when the last descriptor of the open file is closed.
 *
 * Neither FLUSH nor a newline submits: shells flush early and more than once. But a FLUSH by the
 * process that opened the file means that its RELEASE is near, and opens of output and similar
 * files then wait for the RELEASE (conversation_closing). At most one handle is the session's
 * writer: from its first byte to its RELEASE, or until it truncates its text or is refused. Others
 * get EBUSY.
 *
 * A refusal is recorded with the process that was refused (mount/refusals.c), since a shell
 * continues and reads output.
 *
 * Writes are joined in order. Their offsets are ignored, since the text is not in the file: reading
 * gives the prompt of the last turn. */
#include "fs/files/files.h"
#include "fs/files/values.h"
#include "fs/mount/handle.h"
#include "fs/mount/node.h"

#include <errno.h>
#include <stdlib.h>

static int prompt_busy(const struct handle *h, struct err *e)
{
	if (session_working(h->node.conversation->session))
		return value_session_answers(h, e);
	return err_set(e, EBUSY,
		       "prompt: another process is writing it; create a session of your own with "
		       "mkdir");
}

static int prompt_open(struct handle *h, struct err *e)
{
	const struct conversation *c = h->node.conversation;
	if (!handle_writes(h) || (!c->writer && !session_working(c->session)))
		return 0;
	int code = prompt_busy(h, e);
	refusals_add(&h->node, h->caller, NULL, e);
	return code;
}

static void prompt_stop_writing(struct handle *h)
{
	struct conversation *c = h->node.conversation;
	if (c->writer != h)
		return;
	conversation_set_writer(c, NULL);
	calls_wake(h->node.mount, &c->for_release);
	pollers_trace_wake(c->model);
}

static int prompt_too_long(uint64_t bytes, uint64_t most, struct err *e)
{
	err_set(e, EFBIG,
		"prompt: the text is too long, and was not submitted; at most %llu bytes are "
		"allowed (info/max_prompt_bytes)",
		(unsigned long long)most);
	err_number(e, "bytes", bytes); /* so far */
	err_number(e, "maximum_bytes", most);
	return err_name(e, "prompt_too_long");
}

static int prompt_write(struct handle *h, const char *data, size_t size, uint64_t offset,
			struct err *e)
{
	(void)offset;
	struct conversation *c = h->node.conversation;
	uint64_t most = model_max_prompt_bytes(h->node.model->model);
	int code = 0;

	if (h->poison)
		return -h->poison; /* `error` already has the reason */
	if (c->writer != h && (c->writer || session_working(c->session)))
		code = prompt_busy(h, e);
	else if (size > most || h->written.length > most - size)
		code = prompt_too_long(h->written.length + (uint64_t)size, most, e);
	else {
		conversation_set_writer(c, h);
		code = unsubmitted_add(h, data, size, e);
	}
	h->flushed = false;
	if (code) {
		h->poison = -code;
		unsubmitted_drop(h);
		prompt_stop_writing(h);
		refusals_add(&h->node, h->caller, &h->opener, e);
	}
	return code;
}

static int prompt_truncate(struct handle *h, uint64_t size, struct err *e)
{
	(void)value_text_cut(h, size, e);
	if (h->written.length == 0)
		prompt_stop_writing(h);
	return 0;
}

static int prompt_flush(struct handle *h, bool by_opener, struct err *e)
{
	(void)e;
	if (by_opener)
		h->flushed = true;
	return 0;
}

/* A handle whose write failed submits nothing. */
static void prompt_release(struct handle *h)
{
	struct conversation *c = h->node.conversation;
	const struct text *t = &h->written;
	if (c->session && !h->poison && c->writer == h && t->length &&
	    !(t->length == 1 && t->data[0] == '\n')) {
		struct err e = {0};
		int code = c->embeds ? session_embed(c->session, t->data, t->length, false, NULL, &e)
				     : session_submit(c->session, t->data, t->length, NULL, &e);
		handle_submitted(h, code, &e);
		conversation_wake(c);
	}
	prompt_stop_writing(h);
}

void prompt_render(const struct node *n, struct text *out)
{
	size_t length = 0;
	char *text = session_prompt(n->conversation->session, &length);
	if (text) {
		text_add(out, text, length);
		if (length)
			text_string(out, "\n");
	} else
		out->failed = true;
	free(text);
}

const struct file_ops prompt_ops = {
	.refuses = true,
	.open = prompt_open,
	.read = value_read,
	.write = prompt_write,
	.truncate = prompt_truncate,
	.flush = prompt_flush,
	.release = prompt_release,
};
