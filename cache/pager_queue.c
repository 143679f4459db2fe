/* The queues of requests, and which of them is next. A request that keeps a thread until it is done
 * is a worker's, any other that of a thread with a ring (pager_loader.c says why). */
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
	/* Who is awake looks for more before it sleeps, so more than there are threads would only
	 * wake them in vain. */
	uint32_t n = requests < p->ring_threads ? requests : p->ring_threads;
	if (n)
		(void)eventfd_write(p->wake, n);
	for (uint32_t i = 0; i < requests && i < p->workers && queue_workers_serve(p); i++)
		pthread_cond_signal(&p->work);
}

/* Takes the entry behind `before` out; NULL: the first. */
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

/* Decided when it is queued, so that it is clear whom to wake: an expert that has come into its
 * store by the time that its turn comes is taken from there by who would have made it. */
static bool queue_holds_thread(const struct pager *p, const struct pager_entry *x)
{
	return !p->ring_threads || queue_must_be_made(x);
}

void queue_demand(struct pager *p, struct pager_entry *x, struct pager_batch *batch)
{
	queue_forget(p, x); /* it has one link for all queues */
	x->batch = batch;
	x->holds = queue_holds_thread(p, x);
	queue_push(&p->demand, x);
}

void queue_prefetch(struct pager *p, struct pager_entry *x)
{
	x->queued = true;
	x->holds = queue_holds_thread(p, x);
	queue_push(&p->foreseen, x);
}

/* Drops those of a source that are its entries begin … end - 1. */
static void queue_filter_prefetches(struct pager *p, const struct pager_source *s, size_t begin,
				    size_t end)
{
	struct pager_queue kept = {0};
	struct pager_entry *x;
	while ((x = queue_pop(&p->foreseen)))
		if (x->source == s && pager_entry_index(x) >= begin && pager_entry_index(x) < end)
			x->queued = false;
		else
			queue_push(&kept, x);
	p->foreseen = kept;
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

/* Whether a source has a place for a read, of a kind that keeps a thread or does not. */
static bool queue_has_place(const struct pager *p, const struct pager_source *s, bool holds)
{
	return s->flying < p->depth.depth && !(holds && s->held >= p->worker_share);
}

/* Whether a thread of this kind serves what is asked for, which is in no queue that it was decided
 * for. What has come into its store since those with a ring left it to be made is read by who was
 * woken to make it: nobody else is told. */
static bool queue_serves(const struct pager *p, const struct pager_entry *x, bool worker)
{
	if (worker)
		return !p->ring_threads || x->source->supply.make;
	return !queue_holds_thread(p, x);
}

/* Whether a thread of this kind may begin it now; it has no slot yet. What is pinned waits until
 * pins hold, since it would put out another that is. */
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
			if (pool_take(p, x, NEED_ASKED) <= 0)
				break; /* nor is there for the others, most likely */
			queue_forget(p, x);
			x->holds = worker;
			return x;
		}
	return NULL;
}

struct pager_entry *queue_next_prefetch(struct pager *p, bool worker)
{
	struct pager_entry *before = NULL, *x;
	while ((x = before ? before->next : p->foreseen.first)) {
		if (x->holds != worker) {
			before = x;
			continue;
		}
		queue_take_after(&p->foreseen, before);
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

/* ---- predictions ---- */

/* Predictions: what a layer's next batch will probably want.
 *
 * They cost nothing where they are wrong: a shielded expert is only the last to go, and a read for
 * a prediction is begun when no batch waits for the device, into a slot that nobody wants.
 */
static void queue_end_layer_prediction(struct pager_source *s, uint32_t layer)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->predicted_count; i++) {
		struct pager_entry *x = s->predicted[i];
		if (pager_entry_index(x) / s->experts == layer)
			x->shielded = false;
		else
			s->predicted[kept++] = x;
	}
	s->predicted_count = kept;
	queue_forget_layer(s->pager, s, layer);
}

void queue_end_prediction(struct pager_source *s)
{
	for (uint32_t i = 0; i < s->predicted_count; i++)
		s->predicted[i]->shielded = false;
	s->predicted_count = 0;
	queue_forget_source(s->pager, s);
}

void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts, uint32_t n)
{
	struct pager *p = s->pager;
	uint32_t foreseen = 0;
	if (layer >= s->layers || n > s->experts)
		return;
	pthread_mutex_lock(&p->lock);
	queue_end_layer_prediction(s, layer);
	if (n > PAGER_LOOK_AHEAD * s->experts - s->predicted_count)
		queue_end_prediction(s);
	for (uint32_t i = 0; i < n && experts[i] < s->experts; i++) {
		struct pager_entry *x = &s->entries[(size_t)layer * s->experts + experts[i]];
		x->shielded = p->shield;
		s->predicted[s->predicted_count++] = x;
		if (p->prefetch && x->state == ENTRY_ABSENT && !x->queued) {
			queue_prefetch(p, x);
			foreseen++;
		}
	}
	queue_wake(p, foreseen);
	pthread_mutex_unlock(&p->lock);
}

bool pager_predicts(const struct pager_source *s)
{
	const struct pager *p = s->pager;
	uint64_t all = (uint64_t)s->layers * s->experts;
	return (p->shield || p->prefetch) && s->own.resident < all;
}
