/* What went wrong, and who is told: MOUNT/error, and the error beside prompt.
 *
 * The mount keeps the last failure of nobody (a model, the store) and the last of each user, since
 * a sentence may quote what he wrote. A session keeps the last refusal, until the next prompt that
 * it accepts; why its last turn failed is the engine's to say. */
#include "fs/base/said.h"
#include "fs/mount/node.h"
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
static struct failure *place_for(struct mount *m, uid_t uid)
{
	struct failure *oldest = &m->failures[0];
	for (struct failure *f = m->failures; f < m->failures + FAILURES_MOST; f++) {
		if (f->order && f->uid == uid)
			return f;
		if (f->order < oldest->order)
			oldest = f;
	}
	return oldest;
}

int mount_failure_of(struct mount *m, uid_t uid, const struct err *e)
{
	struct failure *f = place_for(m, uid);
	f->uid = uid;
	f->order = ++m->failure_order;
	f->why = *e;
	return -e->code;
}

const struct err *mount_failure_seen(const struct mount *m, uid_t viewer)
{
	const struct err *seen = m->error.code ? &m->error : NULL;
	uint64_t order = m->error_order;
	for (const struct failure *f = m->failures; f < m->failures + FAILURES_MOST; f++)
		if (f->order > order && (f->uid == viewer || viewer == m->uid)) {
			seen = &f->why;
			order = f->order;
		}
	return seen;
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

int node_failure(const struct node *n, const struct err *e)
{
	struct err named = *e;
	if (n->conversation && n->conversation->id)
		err_because(&named, e, e->code, "%s/%s/%s: %s", n->model->name,
			n->conversation->passing ? "ask.d" : "sessions", n->conversation->name,
			e->text);
	else if (n->model)
		err_because(&named, e, e->code, "%s: %s", n->model->name, e->text);
	struct conversation *c = concerned(n);
	if (c) {
		free(c->refused);
		c->refused = malloc(sizeof *c->refused);
		if (c->refused)
			*c->refused = named;
		c->refused_row = n->row;
		c->refused_item = n->item;
		pollers_wake(n->mount, &c->pollers);
	}
	return mount_failure_of(n->mount, n->viewer, &named);
}

void node_accepted(const struct node *n)
{
	struct conversation *c = concerned(n);
	if (!c)
		return;
	free(c->refused);
	c->refused = NULL;
	pollers_wake(n->mount, &c->pollers);
}

void node_took(const struct node *n)
{
	struct conversation *c = concerned(n);
	if (c && c->refused_row == n->row && c->refused_item == n->item)
		node_accepted(n);
}
