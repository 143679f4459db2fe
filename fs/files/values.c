/* Values, texts, and their deferred forms. See values.h. */
#include "fs/files/values.h"
#include "fs/files/files.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file's own name; for a row that represents several files, the member's name. */
static void value_name(const struct node *n, char name[NAME_SIZE])
{
	/* Members are numbered from 1 and items from 0: the member after n->item is n's own. */
	if (!n->row->family || !n->row->family->next(n, n->item, name))
		(void)snprintf(name, NAME_SIZE, "%s", n->row->name);
}

ssize_t value_read(struct handle *h, struct file_call *c, char *buffer)
{
	if (c->offset == 0 || !h->looked) {
		h->looked = true;
		h->shown.failed = false;
		text_cut(&h->shown, 0);
		h->node.row->render(&h->node, &h->shown);
		if (h->shown.failed)
			return -ENOMEM;
	}
	return handle_read_slice(c, buffer, h->shown.data, h->shown.length);
}

static int value_set(struct handle *h, const char *value, size_t length, struct err *e)
{
	int code = h->node.row->set(&h->node, value, length, e);
	if (!code)
		failure_took(&h->node);
	return code;
}

int value_write(struct handle *h, const char *data, size_t size, uint64_t offset, struct err *e)
{
	(void)offset; /* ignored: `>>` means the same as `>` */
	if (size > VALUE_MAX_BYTES) {
		char name[NAME_SIZE];
		value_name(&h->node, name);
		return err_set(e, EFBIG, "%s: a value has at most %d bytes, not %zu", name,
			       VALUE_MAX_BYTES, size);
	}
	return value_set(h, data, size, e);
}

const struct file_ops value_ops = {
	.read = value_read,
	.write = value_write,
};

/* Readable before the first read, and again when a new read would return something else. */
static unsigned value_poll(struct handle *h)
{
	struct text now = {0};
	if (!h->looked)
		return POLLIN | POLLRDNORM;
	h->node.row->render(&h->node, &now);
	bool same = !now.failed && now.length == h->shown.length &&
		    (!now.length || memcmp(now.data, h->shown.data, now.length) == 0);
	text_free(&now);
	return same ? 0 : POLLIN | POLLRDNORM;
}

const struct file_ops polled_value_ops = {
	.read = value_read,
	.write = value_write,
	.poll = value_poll,
};

/* ---- texts of several writes ---- */

/* A file that was opened without O_TRUNC begins with the present text, so that `>>` appends to it.
 */
static int value_text_begin(struct handle *h, struct err *e)
{
	if (h->dirty || h->written.data || h->flags & O_TRUNC)
		return 0;
	h->node.row->render(&h->node, &h->written);
	return h->written.failed ? err_set(e, ENOMEM, "no memory to write a text") : 0;
}

int value_text_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e)
{
	uint64_t most = h->node.row->most;
	if (!most)
		most = model_max_prompt_bytes(h->node.model->model);
	int code = value_text_begin(h, e);
	if (!code && (offset > most || size > most - offset)) {
		char name[NAME_SIZE];
		value_name(&h->node, name);
		code = err_set(e, EFBIG, "%s: the text is too long; at most %llu bytes are allowed",
			       name, (unsigned long long)most);
	}
	if (!code)
		code = unsubmitted_put(h, (size_t)offset, data, size, e);
	if (code)
		h->poison = -code;
	else
		h->dirty = true;
	return code;
}

int value_text_cut(struct handle *h, uint64_t size, struct err *e)
{
	(void)e;
	if (size < h->written.length)
		text_cut(&h->written, (size_t)size);
	return 0;
}

int value_session_answers(const struct handle *h, struct err *e)
{
	return err_set(e, EBUSY,
		       "%s: the session is still answering: read its output to the end, or "
		       "`echo stop > ctl`",
		       h->node.row->name);
}

int value_text_truncate(struct handle *h, uint64_t size, struct err *e)
{
	int code = value_text_begin(h, e);
	if (code)
		return code;
	if (size > h->written.length) {
		char name[NAME_SIZE];
		value_name(&h->node, name);
		return err_set(e, EINVAL, "%s: truncate cannot make a text longer; write it", name);
	}
	text_cut(&h->written, (size_t)size);
	h->dirty = true;
	return 0;
}

int value_text_flush(struct handle *h, bool by_opener, struct err *e)
{
	handle_flushed(h, by_opener);
	if (!h->dirty || h->poison || !by_opener)
		return 0;
	h->dirty = false;
	return value_set(h, h->written.data ? h->written.data : "", h->written.length, e);
}

void value_text_release(struct handle *h)
{
	struct err e = {0};
	if (h->node.conversation->session && value_text_flush(h, true, &e))
		failure_refused(&h->node, &e);
}

/* ---- deferred to a worker ---- */

static void value_took(const struct node *n, const struct err *warning)
{
	failure_took(n);
	if (warning->code)
		failure_refused(n, warning);
}

static void value_deferred_work(struct job *job)
{
	struct deferred_write *w = LINK_OWNER(job, struct deferred_write, job);
	w->code = w->take(w, &w->why);
}

static void value_deferred_finish(struct job *job)
{
	struct deferred_write *w = LINK_OWNER(job, struct deferred_write, job);
	w->handle->deferred--;
	if (w->taken)
		w->taken(w);
	if (w->code) {
		failure_refused(&w->handle->node, &w->why);
		fuse_reply_err(w->req, -w->code);
	} else {
		value_took(&w->handle->node, &w->why);
		fuse_reply_write(w->req, w->size);
	}
	free(w);
}

int value_write_deferred(const struct deferred_write *w, const char *bytes, bool slow,
			 struct err *e)
{
	struct deferred_write *own = malloc(sizeof *own + w->size + 1);
	if (!own)
		return err_set(e, ENOMEM, "%s: no memory for what is written",
			       w->handle->node.row->name);
	*own = *w;
	own->job = (struct job){
		.slow = slow, .work = value_deferred_work, .finish = value_deferred_finish};
	own->code = 0;
	own->why = (struct err){0};
	memcpy(own->bytes, bytes, w->size);
	own->bytes[w->size] = 0;
	w->handle->deferred++;
	workers_run(w->handle->node.mount->workers, &own->job);
	return 0;
}

struct deferred_text {
	struct job job;
	fuse_req_t req; /* a FLUSH; NULL: this is for a RELEASE */
	struct node node;
	struct session *session; /* borrowed */
	size_t which;
	struct text text; /* a copy, since other openers may continue writing */
	int (*take)(struct session *s, size_t which, const char *text, size_t length,
		    struct err *e);
	void (*taken)(const struct node *n);
	int code;
	struct err why;
};

static void value_text_deferred_work(struct job *job)
{
	struct deferred_text *t = LINK_OWNER(job, struct deferred_text, job);
	t->code = t->take(t->session, t->which, t->text.data, t->text.length, &t->why);
}

static void value_text_deferred_finish(struct job *job)
{
	struct deferred_text *t = LINK_OWNER(job, struct deferred_text, job);
	struct conversation *c = t->node.conversation;
	if (t->code)
		failure_refused(&t->node, &t->why);
	else {
		if (t->taken)
			t->taken(&t->node);
		value_took(&t->node, &t->why);
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

bool value_text_flush_deferred(struct handle *h, fuse_req_t req, size_t which,
			       int (*take)(struct session *s, size_t which, const char *text,
					   size_t length, struct err *e),
			       void (*taken)(const struct node *n))
{
	struct deferred_text *t = calloc(1, sizeof *t);
	if (!t)
		return false;
	text_add(&t->text, h->written.data ? h->written.data : "", h->written.length);
	if (t->text.failed) {
		free(t);
		return false;
	}
	h->dirty = false;
	h->flushed = true;
	h->node.conversation->taking += !req;
	t->job = (struct job){.slow = true,
			      .work = value_text_deferred_work,
			      .finish = value_text_deferred_finish};
	t->req = req;
	t->node = h->node;
	t->which = which;
	t->take = take;
	t->taken = taken;
	t->session = conversation_borrow(h->node.conversation);
	workers_run(h->node.mount->workers, &t->job);
	return true;
}
