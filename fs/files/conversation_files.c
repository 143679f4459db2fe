/* The conversation of a session as files: messages.json, template.json and tools.json, which are
 * written as a whole; tool_calls.json, which grows; rendered and rendered_tokens; tool_result. The
 * row's `fact` says which of the engine's texts a file shows. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/values.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static enum session_text conversation_text(const struct node *n)
{
	return (enum session_text)n->row->fact;
}

void conversation_text_render(const struct node *n, struct text *out)
{
	size_t length;
	struct err e;
	char *text = session_text_get(n->conversation->session, conversation_text(n), &length, &e);
	if (text)
		text_add(out, text, length);
	else
		out->failed = true;
	free(text);
}

uint64_t conversation_text_size(const struct node *n)
{
	return session_text_bytes(n->conversation->session, conversation_text(n));
}

int conversation_text_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	int code =
		session_text_set(n->conversation->session, conversation_text(n), value, length, e);
	if (!code)
		conversation_wake(n->conversation);
	return code;
}

/* During a turn the close would be refused. Refuse the write already, so that a shell reports
 * it. */
static int conversation_text_write(struct handle *h, const char *data, size_t size, uint64_t offset,
				   struct err *e)
{
	if (!session_working(h->node.conversation->session))
		return value_text_write(h, data, size, offset, e);
	h->poison = EBUSY;
	return value_session_answers(h, e);
}

static int conversation_text_take(struct session *s, size_t which, const char *text, size_t length,
				  struct err *e)
{
	return session_text_set(s, (enum session_text)which, text, length, e);
}

/* A worker parses and checks long texts. */
static bool conversation_text_flush_later(struct handle *h, bool by_opener, fuse_req_t req)
{
	enum { LONG_BYTES = 64 << 10 };
	return h->dirty && !h->poison && by_opener && h->written.length >= LONG_BYTES &&
	       value_text_flush_deferred(h, req, conversation_text(&h->node),
					 conversation_text_take, NULL);
}

/* If a process other than the opener closes the file last, no process waits for the answer. */
static void conversation_text_release(struct handle *h)
{
	if (!h->node.conversation->session || !conversation_text_flush_later(h, true, NULL))
		value_text_release(h);
}

const struct file_ops conversation_text_ops = {
	.read = value_read,
	.write = conversation_text_write,
	.truncate = value_text_truncate,
	.flush = value_text_flush,
	.flush_later = conversation_text_flush_later,
	.release = conversation_text_release,
	.size = conversation_text_size,
};

/* ---- tool_calls.json ---- */

static ssize_t conversation_calls_read(struct handle *h, struct file_call *c, char *buffer)
{
	ssize_t n = value_read(h, c, buffer);
	h->cursor = h->shown.length;
	return n;
}

/* Ready if there are calls that this handle has not read, or if no more can come. */
static unsigned conversation_calls_poll(struct handle *h)
{
	enum { EMPTY = sizeof "[]\n" - 1 };
	uint64_t length = conversation_text_size(&h->node);
	bool news = length > EMPTY && length != h->cursor;
	return news || !session_working(h->node.conversation->session) ? POLLIN | POLLRDNORM : 0;
}

const struct file_ops tool_calls_ops = {
	.read = conversation_calls_read,
	.size = conversation_text_size,
	.poll = conversation_calls_poll,
};

/* ---- rendered and rendered_tokens: the text that the model would read next, and its tokens ----
 *
 * Rendering a long conversation takes tens of milliseconds, so a worker does it: for a read at
 * offset 0, which keeps the text for the reads that follow, and for the size. The files are empty
 * if there is nothing to show (the model is not loaded, it has no template, or its template refuses
 * a conversation without messages), since reading them must not count as a failure. */

struct rendering {
	struct job job;
	fuse_req_t req;
	struct file_call *call; /* a read; NULL: a GETATTR */
	size_fn *tell;
	struct node node;
	struct session *session; /* borrowed */
	char *text;		 /* NULL: `why` has the reason */
	size_t length;		 /* 0 if text is NULL */
	bool begun;		 /* there are messages */
	struct err why;
};

static void conversation_rendered_work(struct job *job)
{
	struct rendering *r = LINK_OWNER(job, struct rendering, job);
	size_t length = 0;
	struct err e;
	char *messages = session_text_get(r->session, SESSION_MESSAGES, &length, &e);
	r->begun = length > sizeof "[]\n" - 1;
	free(messages);
	r->text = session_text_get(r->session, conversation_text(&r->node), &r->length, &r->why);
	if (!r->text)
		r->length = 0;
}

static void conversation_rendered_reply(struct rendering *r)
{
	struct file_call *c = r->call;
	struct handle *h = c->handle;
	char *buffer = c->mount->scratch;
	bool failed = !r->text && r->begun && r->why.code != EAGAIN && r->why.code != ENOTSUP;
	h->shown.failed = false;
	text_cut(&h->shown, 0);
	if (r->text)
		text_add(&h->shown, r->text, r->length);
	text_string(&h->shown, ""); /* allocates it, also if it is empty */
	if (failed)
		failure_refused(&r->node, &r->why);
	if (failed || h->shown.failed)
		fuse_reply_err(c->req, failed ? EIO : ENOMEM);
	else
		fuse_reply_buf(
			c->req, buffer,
			(size_t)handle_read_slice(c, buffer, h->shown.data, h->shown.length));
	call_free(c);
}

static void conversation_rendered_finish(struct job *job)
{
	struct rendering *r = LINK_OWNER(job, struct rendering, job);
	if (!r->node.conversation->session) {
		fuse_reply_err(r->req, r->call ? EIO : ESTALE);
		if (r->call)
			call_free(r->call);
	} else if (!r->call) {
		r->tell(r->req, &r->node, r->length);
	} else {
		conversation_rendered_reply(r);
	}
	conversation_return(r->node.conversation);
	free(r->text);
	free(r);
}

static int conversation_rendered_begin(const struct node *n, fuse_req_t req, struct file_call *call,
				       size_fn *tell)
{
	struct rendering *r = calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->job = (struct job){.slow = true,
			      .work = conversation_rendered_work,
			      .finish = conversation_rendered_finish};
	r->req = req;
	r->call = call;
	r->tell = tell;
	r->node = *n;
	r->session = conversation_borrow(n->conversation);
	workers_run(n->mount->workers, &r->job);
	return 0;
}

static ssize_t conversation_rendered_read(struct handle *h, struct file_call *c, char *buffer)
{
	if (c->offset && h->shown.data)
		return handle_read_slice(c, buffer, h->shown.data, h->shown.length);
	int code = conversation_rendered_begin(&h->node, c->req, c, NULL);
	return code ? code : CALL_KEPT;
}

static uint64_t conversation_rendered_size(const struct node *n)
{
	(void)n;
	return 0;
}

static int conversation_rendered_size_later(const struct node *n, fuse_req_t req, size_fn *tell)
{
	return conversation_rendered_begin(n, req, NULL, tell);
}

const struct file_ops rendered_ops = {
	.read = conversation_rendered_read,
	.size = conversation_rendered_size,
	.size_later = conversation_rendered_size_later,
};

/* ---- tool_result: a JSON object per result, {"tool_call_id": ID, "content": TEXT} ----
 *
 * The write that completes an object submits the result, so that a wrong result is EINVAL there. An
 * object may come in several writes. An object that is never completed is refused at the FLUSH of
 * the process that opened the file. The handle that brings the last missing result becomes the
 * session's writer, and its RELEASE submits all results. Until then opens of output wait as for a
 * prompt (conversation_closing). Reading gives the results that are not submitted yet. */

/* The end of the JSON object at the start of text[n]; 0: it is not complete. Checks nothing else:
 * for a text that does not begin with an object, returns n. */
static size_t conversation_object_end(const char *text, size_t n)
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

static int conversation_result_refuse(struct handle *h, int code, const struct err *e)
{
	unsubmitted_drop(h);
	refusals_add(&h->node, h->caller, &h->opener, e);
	return code;
}

static int conversation_results_add(struct handle *h, const struct session_result *results,
				    size_t count, struct err *e)
{
	struct conversation *c = h->node.conversation;
	bool complete = false;
	int code = session_tool_results_add(c->session, results, count, &complete, e);
	if (code)
		return conversation_result_refuse(h, code, e);
	failure_took(&h->node);
	if (complete && !c->writer) {
		conversation_set_writer(c, h);
		h->completes = true;
	}
	return 0;
}

/* Takes all complete objects of the written text, or none. */
static int conversation_results_take(struct handle *h, struct err *e)
{
	const struct text *t = &h->written;
	struct session_result results[SESSION_RESULTS_MOST];
	size_t at = 0, count = 0;
	while (count < SESSION_RESULTS_MOST) {
		while (at < t->length && t->data[at] && strchr(" \t\r\n", t->data[at]))
			at++;
		size_t end = conversation_object_end(t->data + at, t->length - at);
		if (!end)
			break;
		results[count++] = (struct session_result){t->data + at, end};
		at += end;
	}
	int code = count ? conversation_results_add(h, results, count, e) : 0;
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

static int conversation_result_write(struct handle *h, const char *data, size_t size,
				     uint64_t offset, struct err *e)
{
	(void)offset;
	/* Each write parses an incomplete object from its beginning, so its length is limited. */
	uint64_t most = model_max_prompt_bytes(h->node.model->model);
	int code = 0;
	h->flushed = false;
	if (h->written.length > most)
		code = err_set(
			e, EFBIG,
			"tool_result: the result is too long; at most %llu bytes are allowed "
			"(info/max_prompt_bytes)",
			(unsigned long long)most);
	if (!code)
		code = unsubmitted_add(h, data, size, e);
	return code ? conversation_result_refuse(h, code, e) : conversation_results_take(h, e);
}

static int conversation_result_flush(struct handle *h, bool by_opener, struct err *e)
{
	if (!by_opener)
		return 0;
	h->flushed = true;
	if (!h->written.length)
		return 0;
	const struct session_result rest = {h->written.data, h->written.length};
	int code = conversation_results_add(h, &rest, 1, e);
	unsubmitted_drop(h);
	return code;
}

static void conversation_result_release(struct handle *h)
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
	.read = value_read,
	.write = conversation_result_write,
	.truncate = value_text_cut,
	.flush = conversation_result_flush,
	.release = conversation_result_release,
	.size = conversation_text_size,
};
