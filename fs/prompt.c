/* prompt: what is written becomes a turn when the last descriptor of the open file is closed.
 *
 * Neither FLUSH nor a newline submits: shells flush early and more than once. But a FLUSH by the
 * process that opened the file says that RELEASE is near, and opens of output and the like then
 * wait for it (conversation_closing). At most one handle is the session's writer: from its first
 * byte to its RELEASE, or until it truncates what it wrote. Others get EBUSY.
 *
 * Pieces are joined in the order of their writes; offsets are not looked at, since the file has
 * none: what is read from it is the turn before. */
#include "fs/files.h"
#include "fs/handle.h"
#include "fs/unsubmitted.h"

#include <errno.h>
#include <stdlib.h>

static int busy(const struct conversation *c, struct err *e)
{
	if (session_working(c->session))
		return err_set(e, EBUSY,
			       "%s/sessions/%s is still answering: read its output to the end, or "
			       "`echo stop > ctl`",
			       c->model->name, c->name);
	return err_set(e, EBUSY,
		       "%s/sessions/%s: another process is writing the prompt; make a session of "
		       "your own with mkdir",
		       c->model->name, c->name);
}

static int prompt_open(struct handle *h, struct err *e)
{
	const struct conversation *c = h->node.conversation;
	if (handle_writes(h) && (c->writer || session_working(c->session)))
		return busy(c, e);
	return 0;
}

static void prompt_stop_writing(struct handle *h)
{
	struct conversation *c = h->node.conversation;
	if (c->writer != h)
		return;
	c->writer = NULL;
	calls_wake(h->node.mount, &c->for_release);
}

static int prompt_write(struct handle *h, const char *data, size_t size, uint64_t offset,
			struct err *e)
{
	(void)offset;
	struct conversation *c = h->node.conversation;
	uint64_t most = model_max_prompt_bytes(h->node.model->model);
	int code = 0;

	if (h->poison)
		code = err_set(e, h->poison,
			       "prompt: an earlier write to it failed; open it again");
	else if (c->writer != h && (c->writer || session_working(c->session)))
		code = busy(c, e);
	else if (size > most || h->written.length > most - size)
		code = err_set(e, EFBIG,
			       "prompt: more than %llu bytes do not fit into the context "
			       "(info/max_prompt_bytes); nothing was submitted",
			       (unsigned long long)most);
	else {
		c->writer = h;
		code = unsubmitted_add(h, data, size, e);
	}
	h->flushed = false;
	if (code)
		h->poison = -code;
	return code;
}

static int prompt_truncate(struct handle *h, uint64_t size, struct err *e)
{
	(void)e;
	if (size < h->written.length)
		text_cut(&h->written, (size_t)size);
	if (h->written.length == 0 && !h->poison)
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

/* A handle whose write failed submits nothing, and the session says why, unless it is at another's
 * turn. */
static void prompt_tell_poison(const struct handle *h)
{
	struct conversation *c = h->node.conversation;
	struct err e;
	if (h->poison == EBUSY || session_working(c->session))
		return;
	const char *why = h->poison == EFBIG ? "it is longer than info/max_prompt_bytes; shorten it"
			  : h->poison == ENOSPC
				  ? "too much text is written and not submitted; submit or close "
				    "what is open, and write it again"
				  : "out of memory; free some and write it again";
	err_set(&e, h->poison, "the prompt was not submitted, because a write to it failed: %s",
		why);
	session_fail(c->session, &e);
}

static void prompt_release(struct handle *h)
{
	struct conversation *c = h->node.conversation;
	const struct text *t = &h->written;
	struct err e = {0};

	if (c->session && h->poison)
		prompt_tell_poison(h);
	else if (c->session && c->writer == h && t->length &&
		 !(t->length == 1 && t->data[0] == '\n')) {
		c->error_told = false;
		if (session_submit(c->session, t->data, t->length, NULL, &e)) {
			mount_failure(h->node.mount, &e);
			if (!session_working(c->session))
				session_fail(c->session, &e);
		}
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

static ssize_t prompt_read(struct handle *h, struct call *c, char *buffer)
{
	return live_ops.read(h, c, buffer);
}

const struct file_ops prompt_ops = {
	.open = prompt_open,
	.read = prompt_read,
	.write = prompt_write,
	.truncate = prompt_truncate,
	.flush = prompt_flush,
	.release = prompt_release,
};
