/* See late.h. */
#include "fs/files/late.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void work(struct job *job)
{
	struct late_write *w = LINK_OWNER(job, struct late_write, job);
	w->code = w->take(w, &w->why);
}

static void took(const struct node *n, const struct err *warning)
{
	failure_took(n);
	if (warning->code)
		failure_refused(n, warning);
}

static void finish(struct job *job)
{
	struct late_write *w = LINK_OWNER(job, struct late_write, job);
	w->handle->late--;
	if (w->taken)
		w->taken(w);
	if (w->code) {
		failure_refused(&w->handle->node, &w->why);
		fuse_reply_err(w->req, -w->code);
	} else {
		took(&w->handle->node, &w->why);
		fuse_reply_write(w->req, w->size);
	}
	free(w);
}

int late_write(const struct late_write *w, const char *bytes, bool slow, struct err *e)
{
	struct late_write *own = malloc(sizeof *own + w->size + 1);
	if (!own)
		return err_set(e, ENOMEM, "%s: no memory for what is written",
			       w->handle->node.row->name);
	*own = *w;
	own->job = (struct job){.slow = slow, .work = work, .finish = finish};
	own->code = 0;
	own->why = (struct err){0};
	memcpy(own->bytes, bytes, w->size);
	own->bytes[w->size] = 0;
	w->handle->late++;
	workers_run(w->handle->node.mount->workers, &own->job);
	return 0;
}

/* ---- texts ---- */

static void text_work(struct job *job)
{
	struct late_text *t = LINK_OWNER(job, struct late_text, job);
	t->code = t->take(t->session, t->which, t->text.data, t->text.length, &t->why);
}

static void text_finish(struct job *job)
{
	struct late_text *t = LINK_OWNER(job, struct late_text, job);
	struct conversation *c = t->node.conversation;
	if (t->code)
		failure_refused(&t->node, &t->why);
	else {
		if (t->taken)
			t->taken(&t->node);
		took(&t->node, &t->why);
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

bool late_text(struct handle *h, fuse_req_t req, size_t which,
	       int (*take)(struct session *s, size_t which, const char *text, size_t length,
			   struct err *e),
	       void (*taken)(const struct node *n))
{
	struct late_text *t = calloc(1, sizeof *t);
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
	t->job = (struct job){.slow = true, .work = text_work, .finish = text_finish};
	t->req = req;
	t->node = h->node;
	t->which = which;
	t->take = take;
	t->taken = taken;
	t->session = conversation_borrow(h->node.conversation);
	workers_run(h->node.mount->workers, &t->job);
	return true;
}
