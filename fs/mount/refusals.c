/* Remembering refused prompts. See refusals.h. */
#include "fs/mount/refusals.h"

#include <stdlib.h>

enum { WRITER, OPENER, ROLES };

struct refusal {
	struct link link; /* on conversation.refusals, the oldest first */
	struct link all;  /* on mount.refusals, likewise */
	struct conversation *of;
	struct line who[ROLES]; /* the first of each is whose doing it was; after it its parent */
	/* Since then a child of one of them was accepted: that child and its parent. */
	struct line accepted;
	bool parent_accepted; /* since then the parent itself was */
	struct err why;
};

static void forget(struct refusal *r)
{
	list_remove(&r->link);
	list_remove(&r->all);
	r->of->refusal_count--;
	r->of->model->mount->refusal_count--;
	free(r);
}

static struct refusal *oldest(const struct link *list, bool of_all)
{
	return of_all ? LINK_OWNER(list->next, struct refusal, all)
		      : LINK_OWNER(list->next, struct refusal, link);
}

void refusals_forget(struct conversation *c)
{
	while (!list_empty(&c->refusals))
		forget(oldest(&c->refusals, false));
}

/* ---- lines ---- */

/* Where a process stands in a line; -1: not there. */
static int place_in(const struct line *line, const struct process *p)
{
	for (unsigned i = 0; i < line->count; i++)
		if (process_same(&line->of[i], p))
			return (int)i;
	return -1;
}

/* Its own refusal: it wrote, or it opened. */
static bool is_own(const struct refusal *r, const struct process *p)
{
	return place_in(&r->who[WRITER], p) == 0 || place_in(&r->who[OPENER], p) == 0;
}

static bool is_parents(const struct refusal *r, const struct process *p)
{
	return place_in(&r->who[WRITER], p) == 1 || place_in(&r->who[OPENER], p) == 1;
}

/* The second of a line, if what the first did counts as his, since it has ended. */
static bool speaks_for(const struct line *line, const struct process *p)
{
	return place_in(line, p) == 1 && !process_lives(&line->of[0]);
}

/* Whether one that stands `depth` steps above the reader makes a refusal the reader's business. */
static bool concerns(const struct refusal *r, const struct process *p, unsigned depth)
{
	if (is_own(r, p))
		return depth > 0 || !r->parent_accepted;
	if (depth <= 1)
		return is_parents(r, p);
	/* All are descendants of the first process. */
	return p->id != 1 && (speaks_for(&r->who[WRITER], p) || speaks_for(&r->who[OPENER], p));
}

static bool first_lives(const struct line *line)
{
	return line->count && process_lives(&line->of[0]);
}

/* From now on it is no business of this process any more. False: so it is nobody's, and gone. */
static bool strike(struct refusal *r, const struct process *p)
{
	bool own = is_own(r, p);
	if (!own && !is_parents(r, p))
		return true;
	for (int role = 0; role < ROLES; role++)
		if (place_in(&r->who[role], p) == 1)
			r->who[role].count = 1;
	if (!own && (first_lives(&r->who[WRITER]) || first_lives(&r->who[OPENER])))
		return true;
	forget(r);
	return false;
}

/* ---- deeds ---- */

/* One process that tries again and again leaves one refusal. */
static void forget_own(struct conversation *c, const struct process *p)
{
	struct link *next;
	for (struct link *l = c->refusals.next; l != &c->refusals; l = next) {
		struct refusal *r = LINK_OWNER(l, struct refusal, link);
		next = l->next;
		if (is_own(r, p))
			forget(r);
	}
}

void refusals_add(const struct node *n, pid_t thread, const struct line *opener,
		  const struct err *why)
{
	struct conversation *c = n->conversation;
	struct mount *m = n->mount;
	struct line writer;
	process_line(thread, REFUSAL_LINE, &writer);
	if (!writer.count && (!opener || !opener->count))
		return;
	if (writer.count)
		forget_own(c, &writer.of[0]);
	if (opener && opener->count)
		forget_own(c, &opener->of[0]);
	struct refusal *r = calloc(1, sizeof *r);
	if (!r)
		return;
	if (c->refusal_count == REFUSALS_PER_SESSION)
		forget(oldest(&c->refusals, false));
	if (m->refusal_count == REFUSALS_MOST)
		forget(oldest(&m->refusals, true));
	r->of = c;
	r->who[WRITER] = writer;
	if (opener)
		r->who[OPENER] = *opener;
	r->why = *why;
	list_append(&c->refusals, &r->link);
	list_append(&m->refusals, &r->all);
	c->refusal_count++;
	m->refusal_count++;
}

void refusals_accepted(struct conversation *c, const struct line *opener)
{
	const struct process *by = &opener->of[0], *parent = &opener->of[1];
	struct link *next;
	c->asker = *opener;
	for (struct link *l = c->refusals.next; l != &c->refusals && opener->count; l = next) {
		struct refusal *r = LINK_OWNER(l, struct refusal, link);
		next = l->next;
		r->parent_accepted |= is_parents(r, by);
		if (strike(r, by) && opener->count > 1 &&
		    (is_own(r, parent) || is_parents(r, parent)))
			r->accepted = *opener;
	}
}

/* ---- readers ---- */

/* The newest refusal that concerns a reader through one of his line. */
static struct refusal *newest(struct conversation *c, const struct process *p, unsigned depth)
{
	struct link *next;
	for (struct link *l = c->refusals.prev; l != &c->refusals; l = next) {
		struct refusal *r = LINK_OWNER(l, struct refusal, link);
		next = l->prev;
		if (speaks_for(&r->accepted, p))
			strike(r, p);
		else if (concerns(r, p, depth))
			return r;
	}
	return NULL;
}

/* Whether the newest turn is his. */
static bool asked(const struct conversation *c, const struct process *p)
{
	return place_in(&c->asker, p) == 0 || speaks_for(&c->asker, p);
}

static void told(struct conversation *c, const struct process *p)
{
	struct link *next;
	for (struct link *l = c->refusals.next; l != &c->refusals; l = next) {
		next = l->next;
		strike(LINK_OWNER(l, struct refusal, link), p);
	}
}

bool refusals_tell(const struct node *n, pid_t thread, bool again)
{
	struct conversation *c = n->conversation;
	struct line reader;
	if (list_empty(&c->refusals))
		return false;
	process_line(thread, LINE_MOST, &reader);
	for (unsigned i = 0; i < reader.count; i++) {
		const struct process *p = &reader.of[i];
		const struct refusal *r = newest(c, p, i);
		if (r) {
			node_failure(n, &r->why);
			if (!again)
				told(c, p);
			return true;
		}
		if (asked(c, p))
			return false;
	}
	return false;
}
