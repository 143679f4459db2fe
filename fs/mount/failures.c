/* What went wrong, and who is told: MOUNT/error, and the error beside prompt.
 *
 * The mount keeps the last failure of nobody (a model, the store) and the last of each user, since
 * a sentence may quote what he wrote. A session keeps the last refusal, until the next prompt that
 * it accepts; why its last turn failed is the engine's to say. */
#include "fs/base/said.h"
#include "fs/mount/handle.h"
#include "fs/mount/pollers.h"

#include <stdlib.h>

int mount_failure(struct mount *m, const struct err *e)
{
	m->error = *e;
	m->error_order = ++m->failure_order;
	said_line(m->said, e->text);
	return -e->code;
}

/* His own place, else a free one, else that of the user who has not failed for longest. */
static struct failure *place_for(struct mount *m, uid_t uid, bool denied)
{
	struct failure *oldest = &m->failures[0];
	for (struct failure *f = m->failures; f < m->failures + FAILURES_MOST; f++) {
		if (f->order && f->uid == uid && f->denied == denied)
			return f;
		if (f->order < oldest->order)
			oldest = f;
	}
	return oldest;
}

static int keep(struct mount *m, uid_t uid, bool denied, const struct err *e)
{
	struct failure *f = place_for(m, uid, denied);
	f->uid = uid;
	f->denied = denied;
	f->order = ++m->failure_order;
	f->why = *e;
	return -e->code;
}

int mount_failure_of(struct mount *m, uid_t uid, const struct err *e)
{
	return keep(m, uid, false, e);
}

static uint64_t order_of(const struct mount *m, const struct err *seen)
{
	const struct failure *f = NULL;
	if (seen && seen != &m->error)
		f = LINK_OWNER(seen, struct failure, why);
	return f ? f->order : seen ? m->error_order : 0;
}

const struct err *mount_failure_seen(const struct mount *m, uid_t viewer)
{
	const struct err *seen = m->error.code ? &m->error : NULL;
	uint64_t order = m->error_order;
	for (const struct failure *f = m->failures; f < m->failures + FAILURES_MOST; f++)
		if (f->order > order && !f->denied && (f->uid == viewer || viewer == m->uid)) {
			seen = &f->why;
			order = f->order;
		}
	return seen;
}

const struct err *mount_denial_seen(const struct mount *m, uid_t viewer)
{
	uint64_t after = order_of(m, mount_failure_seen(m, viewer));
	for (const struct failure *f = m->failures; f < m->failures + FAILURES_MOST; f++)
		if (f->denied && f->uid == viewer && f->order > after)
			return &f->why;
	return NULL;
}

/* ---- the error beside prompt ---- */

/* The session whose error it belongs into: the node's, or for what stands beside sessions/default's
 * files, as ask does, that one. Another user's failures are no business of its owner's. */
static struct conversation *concerned(const struct node *n)
{
	struct conversation *c = n->conversation;
	if (!c || !c->id || c->passing)
		c = n->model && n->model->session_count ? n->model->sessions[0] : NULL;
	return c && c->uid == n->viewer ? c : NULL;
}

/* With the model and the session before it. */
static struct err named_failure(const struct node *n, const struct err *e)
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

/* Without memory for it nothing is kept. */
static void replace(struct err **kept, const struct err *by)
{
	free(*kept);
	*kept = by ? malloc(sizeof **kept) : NULL;
	if (*kept)
		**kept = *by;
}

int node_failure(const struct node *n, const struct err *e)
{
	struct err named = named_failure(n, e);
	struct conversation *c = concerned(n);
	if (c) {
		replace(&c->refused, &named);
		replace(&c->denied, NULL);
		c->refused_row = n->row;
		c->refused_item = n->item;
		pollers_wake(n->mount, &c->pollers);
	}
	return mount_failure_of(n->mount, n->viewer, &named);
}

/* Of a file whose writing begins turns. */
static bool is_prompts(const struct row *row)
{
	return row && (row->verbs || (row->ops && row->ops->refuses));
}

int node_denied(const struct node *n, const struct err *e)
{
	struct err named = named_failure(n, e);
	struct conversation *c = concerned(n);
	if (c && c->refused && is_prompts(c->refused_row)) {
		replace(&c->denied, &named);
	} else if (c) {
		replace(&c->refused, &named);
		c->refused_row = NULL;
	}
	if (c)
		pollers_wake(n->mount, &c->pollers);
	return keep(n->mount, n->viewer, true, &named);
}

void node_accepted(const struct node *n)
{
	struct conversation *c = concerned(n);
	if (!c)
		return;
	replace(&c->refused, NULL);
	replace(&c->denied, NULL);
	pollers_wake(n->mount, &c->pollers);
}

void node_took(const struct node *n)
{
	struct conversation *c = concerned(n);
	if (c && c->refused_row == n->row && c->refused_item == n->item)
		node_accepted(n);
}
