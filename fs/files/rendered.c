/* rendered and rendered_tokens: what the model would read next, and how many tokens that is.
 *
 * To write a long conversation by its template takes tens of milliseconds, so the workers do it,
 * for a read of offset 0, which keeps the text for the rest of that pass, as for the size. Where
 * there is nothing to be shown (the model is not loaded, it has no template, or its template
 * refuses a conversation that has no messages yet) they are empty: looking is no failure. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>

struct rendering {
	struct job job;
	fuse_req_t req;
	struct file_call *call; /* a read; NULL: a GETATTR */
	size_fn *tell;
	struct node node;
	struct session *session; /* borrowed */
	char *text;		 /* NULL: `why` says why not */
	size_t length;		 /* 0 then */
	bool begun;		 /* there are messages */
	struct err why;
};

/* In a worker. */
static void work(struct job *job)
{
	struct rendering *r = LINK_OWNER(job, struct rendering, job);
	size_t length = 0;
	struct err e;
	char *messages = session_text_get(r->session, SESSION_MESSAGES, &length, &e);
	r->begun = length > sizeof "[]\n" - 1;
	free(messages);
	r->text = session_text_get(r->session, (enum session_text)r->node.row->fact, &r->length,
				   &r->why);
	if (!r->text)
		r->length = 0;
}

static bool is_failure(const struct rendering *r)
{
	return !r->text && r->begun && r->why.code != EAGAIN && r->why.code != ENOTSUP;
}

static void reply_read(struct rendering *r)
{
	struct file_call *c = r->call;
	struct handle *h = c->handle;
	char *buffer = c->mount->scratch;
	h->shown.failed = false;
	text_cut(&h->shown, 0);
	if (r->text)
		text_add(&h->shown, r->text, r->length);
	text_string(&h->shown, ""); /* so that there is a text */
	if (is_failure(r))
		failure_refused(&r->node, &r->why);
	if (is_failure(r) || h->shown.failed)
		fuse_reply_err(c->req, is_failure(r) ? EIO : ENOMEM);
	else
		fuse_reply_buf(
			c->req, buffer,
			(size_t)handle_read_slice(c, buffer, h->shown.data, h->shown.length));
	call_free(c);
}

static void finish(struct job *job)
{
	struct rendering *r = LINK_OWNER(job, struct rendering, job);
	if (!r->node.conversation->session) {
		fuse_reply_err(r->req, r->call ? EIO : ESTALE);
		if (r->call)
			call_free(r->call);
	} else if (!r->call) {
		r->tell(r->req, &r->node, r->length);
	} else {
		reply_read(r);
	}
	conversation_return(r->node.conversation);
	free(r->text);
	free(r);
}

static int begin(const struct node *n, fuse_req_t req, struct file_call *call, size_fn *tell)
{
	struct rendering *r = calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->job.slow = true;
	r->job.work = work;
	r->job.finish = finish;
	r->req = req;
	r->call = call;
	r->tell = tell;
	r->node = *n;
	r->session = conversation_borrow(n->conversation);
	workers_run(n->mount->workers, &r->job);
	return 0;
}

static ssize_t rendered_read(struct handle *h, struct file_call *c, char *buffer)
{
	if (c->offset && h->shown.data)
		return handle_read_slice(c, buffer, h->shown.data, h->shown.length);
	int code = begin(&h->node, c->req, c, NULL);
	return code ? code : CALL_KEPT;
}

static uint64_t rendered_size(const struct node *n)
{
	(void)n;
	return 0;
}

static int rendered_size_later(const struct node *n, fuse_req_t req, size_fn *tell)
{
	return begin(n, req, NULL, tell);
}

const struct file_ops rendered_ops = {
	.read = rendered_read,
	.size = rendered_size,
	.size_later = rendered_size_later,
};
