/* The contents of MOUNT/error and of the error beside prompt, for each user.
 *
 * The mount keeps the last failure that concerns all users (a model, the store) and the last
 * failure of each user, since a sentence may quote the user's text. A session keeps its last
 * refusal until it accepts a prompt. The engine keeps the reason why the session's last turn
 * failed. */
#include "fs/base/daemon_log.h"
#include "fs/mount/handle.h"

#include <stdlib.h>

int failure_of_mount(struct mount *m, const struct err *e)
{
	m->error = *e;
	m->error_order = ++m->failure_order;
	daemon_log_say(m->log, e->text);
	return -e->code;
}

/* The user's own place, else a free one, else the place of the oldest failure. */
static struct user_failure *failure_place(struct mount *m, uid_t uid, bool denied)
{
	struct user_failure *oldest = &m->failures[0];
	for (struct user_failure *f = m->failures; f < m->failures + FAILURES_MOST; f++) {
		if (f->order && f->uid == uid && f->denied == denied)
			return f;
		if (f->order < oldest->order)
			oldest = f;
	}
	return oldest;
}

static int failure_keep(struct mount *m, uid_t uid, bool denied, const struct err *e)
{
	struct user_failure *f = failure_place(m, uid, denied);
	f->uid = uid;
	f->denied = denied;
	f->order = ++m->failure_order;
	f->why = *e;
	return -e->code;
}

int failure_of_user(struct mount *m, uid_t uid, const struct err *e)
{
	return failure_keep(m, uid, false, e);
}

const struct err *failures_seen(const struct mount *m, uid_t viewer)
{
	const struct err *seen = m->error.code ? &m->error : NULL;
	uint64_t order = m->error_order;
	for (const struct user_failure *f = m->failures; f < m->failures + FAILURES_MOST; f++)
		if (f->order > order && !f->denied && (f->uid == viewer || viewer == m->uid)) {
			seen = &f->why;
			order = f->order;
		}
	return seen;
}

const struct err *failures_denial_seen(const struct mount *m, uid_t viewer)
{
	const struct err *seen = failures_seen(m, viewer);
	uint64_t after = m->error_order;
	if (!seen)
		after = 0;
	else if (seen != &m->error)
		after = LINK_OWNER((struct err *)(uintptr_t)seen, struct user_failure, why)->order;
	for (const struct user_failure *f = m->failures; f < m->failures + FAILURES_MOST; f++)
		if (f->denied && f->uid == viewer && f->order > after)
			return &f->why;
	return NULL;
}

/* ---- the error beside prompt ---- */

/* The session whose error shows a failure at a node: the node's own; or sessions/default for files
 * beside that session's files, such as ask. NULL if the session is another user's. */
static struct conversation *failure_session(const struct node *n)
{
	struct conversation *c = n->conversation;
	if (!c || !c->id || c->passing)
		c = n->model && n->model->session_count ? n->model->sessions[0] : NULL;
	return c && c->uid == n->viewer ? c : NULL;
}

/* The failure, preceded by the names of the model and the session. */
static struct err failure_named(const struct node *n, const struct err *e)
{
	struct err named = *e;
	if (n->conversation && n->conversation->id)
		err_because(&named, e, e->code, "%s/%s/%s: %s", n->model->name,
			    n->conversation->passing ? "ask.d" : "sessions", n->conversation->name,
			    e->text);
	else if (n->model)
		err_because(&named, e, e->code, "%s: %s", n->model->name, e->text);
	return named;
}

/* Keeps a copy of `by`, or nothing if memory is short. */
static void failure_replace(struct err **kept, const struct err *by)
{
	free(*kept);
	*kept = by ? malloc(sizeof **kept) : NULL;
	if (*kept)
		**kept = *by;
}

int failure_refused(const struct node *n, const struct err *e)
{
	struct err named = failure_named(n, e);
	struct conversation *c = failure_session(n);
	if (c) {
		failure_replace(&c->refused, &named);
		failure_replace(&c->denied, NULL);
		c->refused_row = n->row;
		c->refused_item = n->item;
		pollers_wake(n->mount, &c->pollers);
	}
	return failure_of_user(n->mount, n->viewer, &named);
}

int failure_denied(const struct node *n, const struct err *e)
{
	struct err named = failure_named(n, e);
	struct conversation *c = failure_session(n);
	const struct tree_row *row = c && c->refused ? c->refused_row : NULL;
	/* Keep the reason of a refused prompt; the denial goes beside it. */
	if (row && (row->verbs || (row->ops && row->ops->refuses))) {
		failure_replace(&c->denied, &named);
	} else if (c) {
		failure_replace(&c->refused, &named);
		c->refused_row = NULL;
	}
	if (c)
		pollers_wake(n->mount, &c->pollers);
	return failure_keep(n->mount, n->viewer, true, &named);
}

void failure_accepted(const struct node *n)
{
	struct conversation *c = failure_session(n);
	if (!c)
		return;
	failure_replace(&c->refused, NULL);
	failure_replace(&c->denied, NULL);
	pollers_wake(n->mount, &c->pollers);
	if (c->session)
		mount_note_change(c);
}

void failure_took(const struct node *n)
{
	struct conversation *c = failure_session(n);
	if (c && c->refused_row == n->row && c->refused_item == n->item)
		failure_accepted(n);
	else if (c && c->session)
		mount_note_change(c);
}
