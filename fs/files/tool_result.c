/* tool_result: what tools gave, a JSON object a result: {"tool_call_id": ID, "content": TEXT}.
 *
 * A result is taken by the write that completes its object, so that a wrong one is EINVAL there;
 * one that comes in pieces is put together before, and one that never becomes whole is refused at
 * the FLUSH of who opened the file. The handle that brought the last result that was missing is the
 * session's writer from then on, and its RELEASE submits them all: until then opens of output wait
 * as they do for a prompt (conversation_closing). It reads as the results that are not submitted.
 */
#include "fs/files/files.h"
#include "fs/files/live.h"
#include "fs/mount/handle.h"
#include "fs/mount/node.h"

#include <errno.h>
#include <string.h>

/* Where the object that a text begins with ends; 0: not yet. It is not looked at any closer: what
 * begins otherwise ends at once. */
static size_t object_end(const char *text, size_t n)
{
	size_t depth = 0;
	bool quoted = false;
	for (size_t i = 0; i < n; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (!quoted && (text[i] == '{' || text[i] == '['))
			depth++;
		else if (!quoted && (text[i] == '}' || text[i] == ']') && depth-- <= 1)
			return i + 1;
		if (depth == 0)
			return n;
	}
	return 0;
}

static size_t blanks(const char *text, size_t n)
{
	size_t i = 0;
	while (i < n && text[i] && strchr(" \t\r\n", text[i]))
		i++;
	return i;
}

static int refuse(struct handle *h, int code, const struct err *e)
{
	unsubmitted_drop(h);
	refusals_add(&h->node, h->caller, &h->opener, e);
	return code;
}

static int add(struct handle *h, const struct session_result *results, size_t count, struct err *e)
{
	struct conversation *c = h->node.conversation;
	bool complete = false;
	int code = session_tool_results_add(c->session, results, count, &complete, e);
	if (code)
		return refuse(h, code, e);
	failure_took(&h->node);
	if (complete && !c->writer) {
		conversation_set_writer(c, h);
		h->completes = true;
	}
	return 0;
}

/* Takes whole objects from what was written, all or none; blanks between them are nothing. */
static int take(struct handle *h, struct err *e)
{
	const struct text *t = &h->written;
	struct session_result results[SESSION_RESULTS_MOST];
	size_t at = 0, end, count = 0;
	while (count < SESSION_RESULTS_MOST) {
		at += blanks(t->data + at, t->length - at);
		end = object_end(t->data + at, t->length - at);
		if (!end)
			break;
		results[count++] = (struct session_result){t->data + at, end};
		at += end;
	}
	int code = count ? add(h, results, count, e) : 0;
	if (code)
		return code;
	if (at == t->length) {
		unsubmitted_drop(h);
		return 0;
	}
	memmove(h->written.data, t->data + at, t->length - at);
	text_cut(&h->written, t->length - at);
	return 0;
}

static int result_write(struct handle *h, const char *data, size_t size, uint64_t offset,
			struct err *e)
{
	(void)offset;
	/* What is not whole yet is looked at from its beginning with each piece. */
	uint64_t most = model_max_prompt_bytes(h->node.model->model);
	int code = 0;
	h->flushed = false;
	if (h->written.length > most)
		code = err_set(e, EFBIG,
			       "tool_result: more than %llu bytes are too long for a result "
			       "(info/max_prompt_bytes)",
			       (unsigned long long)most);
	if (!code)
		code = unsubmitted_add(h, data, size, e);
	return code ? refuse(h, code, e) : take(h, e);
}

static int result_truncate(struct handle *h, uint64_t size, struct err *e)
{
	(void)e;
	if (size < h->written.length)
		text_cut(&h->written, (size_t)size);
	return 0;
}

static int result_flush(struct handle *h, bool by_opener, struct err *e)
{
	if (!by_opener)
		return 0;
	h->flushed = true;
	if (!h->written.length)
		return 0;
	int code = add(h, &(struct session_result){h->written.data, h->written.length}, 1, e);
	unsubmitted_drop(h);
	return code;
}

static void result_release(struct handle *h)
{
	struct conversation *c = h->node.conversation;
	struct err e = {0};
	if (!h->completes || c->writer != h)
		return;
	conversation_set_writer(c, NULL);
	if (c->session)
		handle_submitted(h, session_tool_results_submit(c->session, NULL, &e), &e);
	calls_wake(h->node.mount, &c->for_release);
	conversation_wake(c);
}

const struct file_ops tool_result_ops = {
	.refuses = true,
	.read = live_read,
	.write = result_write,
	.truncate = result_truncate,
	.flush = result_flush,
	.release = result_release,
	.size = conversation_text_size,
};
