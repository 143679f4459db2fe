/* The queues of requests for experts, and which request is taken next. Workers take requests that
 * occupy a thread until they are done; threads with a ring take the others (pager_loader.c). */
#include "cache/pager_inside.h"

#include <sys/eventfd.h>

/* ---- the queues ---- */

static void queue_push(struct pager_queue *q, struct pager_entry *x)
{
	x->next = NULL;
	*(q->last ? &q->last->next : &q->first) = x;
	q->last = x;
}

static struct pager_entry *queue_pop(struct pager_queue *q)
{
	struct pager_entry *x = q->first;
	if (x && !(q->first = x->next))
		q->last = NULL;
	return x;
}

bool queue_workers_serve(const struct pager *p)
{
	bool serve = !p->ring_threads;
	for (const struct pager_source *s = p->sources; s && !serve; s = s->next)
		serve = s->supply.make;
	return serve;
}

void queue_wake(struct pager *p, uint32_t requests)
{
	/* A thread that is awake looks for more requests before it sleeps, so waking more threads
	 * than there are is useless. */
	uint32_t n = requests < p->ring_threads ? requests : p->ring_threads;
	if (n)
		(void)eventfd_write(p->wake, n);
	for (uint32_t i = 0; i < requests && i < p->workers && queue_workers_serve(p); i++)
		pthread_cond_signal(&p->work);
}

/* Removes the entry after `before` from the queue; before == NULL: removes the first entry. */
static struct pager_entry *queue_take_after(struct pager_queue *q, struct pager_entry *before)
{
	struct pager_entry *x = before ? before->next : q->first;
	*(before ? &before->next : &q->first) = x->next;
	if (q->last == x)
		q->last = before;
	return x;
}

bool queue_must_be_made(const struct pager_entry *x)
{
	const struct pager_supply *s = &x->source->supply;
	return s->make && !store_has_expert(s->store, pager_entry_layer(x), pager_entry_expert(x));
}

/* Whether a request occupies its thread until it is done. This is decided when the request is
 * queued, so that the right kind of thread is woken. If the store gets the expert before its turn,
 * the worker that would have made the expert reads it. */
static bool queue_holds_thread(const struct pager *p, const struct pager_entry *x)
{
	return !p->ring_threads || queue_must_be_made(x);
}

void queue_demand(struct pager *p, struct pager_entry *x, struct pager_batch *batch)
{
	queue_forget(p, x); /* an entry can be in only one queue */
	x->batch = batch;
	x->holds = queue_holds_thread(p, x);
	queue_push(&p->demand, x);
}

void queue_prefetch(struct pager *p, struct pager_entry *x)
{
	x->queued = true;
	x->holds = queue_holds_thread(p, x);
	queue_push(&p->prefetches, x);
}

/* Drops the prefetches of entries begin … end - 1 of a source. */
static void queue_filter_prefetches(struct pager *p, const struct pager_source *s, size_t begin,
				    size_t end)
{
	struct pager_queue kept = {0};
	struct pager_entry *x;
	while ((x = queue_pop(&p->prefetches)))
		if (x->source == s && pager_entry_index(x) >= begin && pager_entry_index(x) < end)
			x->queued = false;
		else
			queue_push(&kept, x);
	p->prefetches = kept;
}

void queue_forget(struct pager *p, struct pager_entry *x)
{
	if (x->queued)
		queue_filter_prefetches(p, x->source, pager_entry_index(x),
					pager_entry_index(x) + 1);
}

void queue_forget_layer(struct pager *p, struct pager_source *s, uint32_t layer)
{
	size_t first = (size_t)layer * s->experts;
	queue_filter_prefetches(p, s, first, first + s->experts);
}

void queue_forget_source(struct pager *p, struct pager_source *s)
{
	queue_filter_prefetches(p, s, 0, (size_t)s->layers * s->experts);
}

/* ---- which is next ---- */

/* Whether a source may have another read in flight. holds: the read occupies a worker. */
static bool queue_has_place(const struct pager *p, const struct pager_source *s, bool holds)
{
	return s->flying < p->depth.depth && !(holds && s->held >= p->worker_share);
}

/* Whether a thread of this kind serves an expert that was asked for, which is in no queue.
 * Threads with a ring leave an expert to the workers while the store lacks it. If the store gets
 * the expert after that, the worker that was woken to make it reads it, since no other thread was
 * woken. */
static bool queue_serves(const struct pager *p, const struct pager_entry *x, bool worker)
{
	if (worker)
		return !p->ring_threads || x->source->supply.make;
	return !queue_holds_thread(p, x);
}

/* Whether a thread of this kind may begin to load this entry, which has no slot yet. A pinned
 * expert waits until the budget has room for all pins, since it would evict another pinned one. */
static bool queue_may_begin(const struct pager *p, const struct pager_entry *x, bool worker)
{
	return x->asked && x->state == ENTRY_ABSENT && (!x->pinned || p->pins_hold) &&
	       queue_serves(p, x, worker) && queue_has_place(p, x->source, worker);
}

struct pager_entry *queue_next_asked(struct pager *p, bool worker)
{
	for (struct pager_source *s = p->sources; s; s = s->next)
		for (size_t i = 0, left = s->asked; left > 0; i++) {
			struct pager_entry *x = &s->entries[i];
			left -= x->asked;
			if (!queue_may_begin(p, x, worker))
				continue;
			if (pool_take(p, x, x->spare ? NEED_FREE : NEED_ASKED) <= 0) {
				if (!x->spare)
					break; /* there is probably no room for the others either */
				pager_entry_ask(x, false);
				continue;
			}
			queue_forget(p, x);
			x->holds = worker;
			return x;
		}
	return NULL;
}

struct pager_entry *queue_next_prefetch(struct pager *p, bool worker)
{
	struct pager_entry *before = NULL, *x;
	while ((x = before ? before->next : p->prefetches.first)) {
		if (x->holds != worker) {
			before = x;
			continue;
		}
		queue_take_after(&p->prefetches, before);
		x->queued = false;
		if (x->state == ENTRY_ABSENT && pool_take(p, x, NEED_SPARE) > 0) {
			x->prefetched = true;
			pager_count(&p->total.prefetched, &x->source->own.prefetched, 1);
			return x;
		}
	}
	return NULL;
}

struct pager_entry *queue_next_demand(struct pager *p, bool worker)
{
	struct pager_entry *before = NULL, *x = p->demand.first;
	while (x && (x->holds != worker || !queue_has_place(p, x->source, worker))) {
		before = x;
		x = x->next;
	}
	return x ? queue_take_after(&p->demand, before) : NULL;
}
