/* Refused prompts: which readers must not take another prompt's answer for their own.
 *
 * Shells continue after a command that failed: `echo q > prompt; cat output` reads whether or not q
 * was accepted. So a refusal is recorded with the process that wrote, the process that opened the
 * file (in `{ echo a; cat b; } > prompt` the shell), and their parents. The next open of output or
 * wait by one of these processes, by a child of theirs, or by a descendant of the refused process
 * fails with EIO, once, and the session's error has the reason. Opens by other processes are not
 * affected.
 *
 * The nearest event in a reader's lineage (the reader, its parent, and so on) decides. If one of
 * these had a prompt accepted, earlier refusals are forgotten, and refusals of its ancestors do not
 * count. A child's refused or accepted prompt also counts for its parent's other children: the
 * child wrote for a script that now reads. An accepted prompt counts in this way only after the
 * child has ended, since a running child reads for itself.
 *
 * Processes of other PID namespaces have no number here, so their refusals are not recorded. */
#include "fs/mount/node.h"

#include <stdlib.h>

enum { WRITER, OPENER, ROLES };

struct refusal {
	struct link link; /* on conversation.refusals, the oldest first */
	struct link all;  /* on mount.refusals, the oldest first */
	struct conversation *of;
	struct lineage who[ROLES]; /* the process that wrote or opened, and its parent */
	/* A child of one of these that had a prompt accepted since, and the child's parent. */
	struct lineage accepted;
	bool parent_accepted; /* the parent itself had a prompt accepted since */
	struct err why;
};

static void refusal_forget(struct refusal *r)
{
	list_remove(&r->link);
	list_remove(&r->all);
	r->of->refusal_count--;
	r->of->model->mount->refusal_count--;
	free(r);
}

static struct refusal *refusals_oldest(const struct link *list, bool of_all)
{
	return of_all ? LINK_OWNER(list->next, struct refusal, all)
		      : LINK_OWNER(list->next, struct refusal, link);
}

void refusals_forget(struct conversation *c)
{
	while (!list_empty(&c->refusals))
		refusal_forget(refusals_oldest(&c->refusals, false));
}

/* ---- lineages ---- */

/* The index of a process in a lineage; -1: not in it. */
static int refusal_place(const struct lineage *l, const struct process *p)
{
	for (unsigned i = 0; i < l->count; i++)
		if (proc_same(&l->of[i], p))
			return (int)i;
	return -1;
}

/* Whether the process itself wrote or opened the prompt. */
static bool refusal_is_own(const struct refusal *r, const struct process *p)
{
	return refusal_place(&r->who[WRITER], p) == 0 || refusal_place(&r->who[OPENER], p) == 0;
}

static bool refusal_is_parents(const struct refusal *r, const struct process *p)
{
	return refusal_place(&r->who[WRITER], p) == 1 || refusal_place(&r->who[OPENER], p) == 1;
}

/* Whether p is the parent of a lineage's first process, which has ended, so that its prompts count
 * as p's. */
static bool refusal_speaks_for(const struct lineage *l, const struct process *p)
{
	return refusal_place(l, p) == 1 && !proc_lives(&l->of[0]);
}

/* Whether a refusal concerns a reader through its ancestor p, `depth` steps above the reader. */
static bool refusal_concerns(const struct refusal *r, const struct process *p, unsigned depth)
{
	if (refusal_is_own(r, p))
		return depth > 0 || !r->parent_accepted;
	if (depth <= 1)
		return refusal_is_parents(r, p);
	/* Every process descends from process 1. */
	return p->id != 1 &&
	       (refusal_speaks_for(&r->who[WRITER], p) || refusal_speaks_for(&r->who[OPENER], p));
}

/* Removes a process from the processes that a refusal concerns. If none is left, frees the refusal
 * and returns false. */
static bool refusal_strike(struct refusal *r, const struct process *p)
{
	bool own = refusal_is_own(r, p), lives = false;
	if (!own && !refusal_is_parents(r, p))
		return true;
	for (int role = 0; role < ROLES; role++) {
		struct lineage *l = &r->who[role];
		if (refusal_place(l, p) == 1)
			l->count = 1;
		lives |= !own && l->count && proc_lives(&l->of[0]);
	}
	if (!own && lives)
		return true;
	refusal_forget(r);
	return false;
}

/* ---- refused and accepted prompts ---- */

/* Forgets the process's own refusals, so that a process that retries leaves only one refusal. */
static void refusals_forget_own(struct conversation *c, const struct process *p)
{
	struct link *next;
	for (struct link *l = c->refusals.next; l != &c->refusals; l = next) {
		struct refusal *r = LINK_OWNER(l, struct refusal, link);
		next = l->next;
		if (refusal_is_own(r, p))
			refusal_forget(r);
	}
}

void refusals_add(const struct node *n, pid_t thread, const struct lineage *opener,
		  const struct err *why)
{
	struct conversation *c = n->conversation;
	struct mount *m = n->mount;
	struct lineage writer;
	proc_lineage(thread, REFUSAL_LINEAGE, &writer);
	if (!writer.count && (!opener || !opener->count))
		return;
	if (writer.count)
		refusals_forget_own(c, &writer.of[0]);
	if (opener && opener->count)
		refusals_forget_own(c, &opener->of[0]);
	struct refusal *r = calloc(1, sizeof *r);
	if (!r)
		return;
	if (c->refusal_count == REFUSALS_PER_SESSION)
		refusal_forget(refusals_oldest(&c->refusals, false));
	if (m->refusal_count == REFUSALS_MOST)
		refusal_forget(refusals_oldest(&m->refusals, true));
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

void refusals_accepted(struct conversation *c, const struct lineage *opener)
{
	const struct process *by = &opener->of[0], *parent = &opener->of[1];
	struct link *next;
	c->asker = *opener;
	for (struct link *l = c->refusals.next; l != &c->refusals && opener->count; l = next) {
		struct refusal *r = LINK_OWNER(l, struct refusal, link);
		next = l->next;
		r->parent_accepted |= refusal_is_parents(r, by);
		if (refusal_strike(r, by) && opener->count > 1 &&
		    (refusal_is_own(r, parent) || refusal_is_parents(r, parent)))
			r->accepted = *opener;
	}
}

/* ---- readers ---- */

/* The newest refusal that concerns a reader through its ancestor p. */
static struct refusal *refusals_newest(struct conversation *c, const struct process *p,
				       unsigned depth)
{
	struct link *next;
	for (struct link *l = c->refusals.prev; l != &c->refusals; l = next) {
		struct refusal *r = LINK_OWNER(l, struct refusal, link);
		next = l->prev;
		if (refusal_speaks_for(&r->accepted, p))
			refusal_strike(r, p);
		else if (refusal_concerns(r, p, depth))
			return r;
	}
	return NULL;
}

bool refusals_tell(const struct node *n, pid_t thread, bool again)
{
	struct conversation *c = n->conversation;
	struct lineage reader;
	if (list_empty(&c->refusals))
		return false;
	proc_lineage(thread, LINEAGE_MOST, &reader);
	for (unsigned i = 0; i < reader.count; i++) {
		const struct process *p = &reader.of[i];
		const struct refusal *r = refusals_newest(c, p, i);
		if (r) {
			failure_refused(n, &r->why);
			for (struct link *next, *l = c->refusals.next; !again && l != &c->refusals;
			     l = next) {
				next = l->next;
				refusal_strike(LINK_OWNER(l, struct refusal, link), p);
			}
			return true;
		}
		if (refusal_place(&c->asker, p) == 0 || refusal_speaks_for(&c->asker, p))
			return false; /* the newest turn is p's */
	}
	return false;
}
