/* Requests that do not come from the policy: pins, loads and evictions by users, and experts that have just left a
 * GPU and are read if there is free room.
 *
 * A pin is a mark. A pinned expert is not evicted while there is another way to make room. A pinned
 * expert that is absent is queued. Queued experts are read when nothing more urgent is queued, into
 * slots of experts that no batch wants.
 *
 * All pinned experts, and one token's experts beside them, must fit into the budget: a pin that
 * does not fit is refused. The budget may fall by itself when memory is short. Then pins do not
 * hold: pinned experts are evicted last, and are read again when the budget has risen. */
#include "cache/pager.h"

#include "cache/pager_inside.h"

#include <assert.h>
#include <errno.h>

static struct pager_entry *pins_entry(struct pager_source *s, struct pager_id id)
{
	assert(id.layer < s->layers && id.expert < s->experts);
	return &s->entries[(size_t)id.layer * s->experts + id.expert];
}

/* ---- sums; call with the lock held ---- */

/* Bytes that must be free beside the pinned experts, if `more` bytes of source `of` were also
 * pinned. */
static uint64_t pins_room_beside(const struct pager *p, const struct pager_source *of,
				 uint64_t more)
{
	uint64_t most = 0;
	for (const struct pager_source *s = p->sources; s; s = s->next) {
		uint64_t others = s->all - s->own.pinned - (s == of ? more : 0);
		uint64_t room = s->supply.token_bytes < others ? s->supply.token_bytes : others;
		most = room > most ? room : most;
	}
	return most;
}

/* Whether these experts fit beside the pinned ones. Experts that are already pinned always fit. */
static int pins_check_room(struct pager_source *s, const struct pager_id *ids, size_t n,
			   struct err *e)
{
	struct pager *p = s->pager;
	uint64_t more = 0;
	for (size_t i = 0; i < n; i++) {
		const struct pager_entry *x = pins_entry(s, ids[i]);
		more += x->pinned ? 0 : pager_entry_bytes(x);
	}
	uint64_t pinned = p->total.pinned, beside = pins_room_beside(p, s, more);
	if (more == 0 || pinned + more + beside <= p->budget)
		return 0;
	return err_set(
		e, ENOSPC,
		"%llu more bytes do not fit: of the budget of %llu bytes, %llu are pinned and "
		"%llu are reserved for unpinned experts; unpin some, or raise cache/budget",
		(unsigned long long)more, (unsigned long long)p->budget, (unsigned long long)pinned,
		(unsigned long long)beside);
}

void pins_changed(struct pager *p)
{
	p->pins_hold = p->total.pinned + pins_room_beside(p, NULL, 0) <= p->budget;
	queue_wake(p, p->asked);
}

uint64_t pager_pins_need(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	uint64_t pinned = p->total.pinned,
		 bytes = pinned ? pinned + pins_room_beside(p, NULL, 0) : 0;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

/* ---- pins ---- */

void pins_set(struct pager *p, struct pager_entry *x, bool pinned)
{
	if (x->pinned == pinned)
		return;
	uint64_t bytes = pager_entry_bytes(x);
	x->pinned = pinned;
	pager_count(&p->total.pinned, &x->source->own.pinned, pinned ? bytes : -bytes);
	if (x->region)
		pool_count_pin(x->region, pinned);
	pager_entry_ask(x, pinned && x->state == ENTRY_ABSENT);
}

int pager_pin(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	int rc = pins_check_room(s, ids, n, e);
	for (size_t i = 0; i < n && !rc; i++)
		pins_set(p, pins_entry(s, ids[i]), true);
	pins_changed(p);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pager_unpin(struct pager_source *s, const struct pager_id *ids, size_t n)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < n; i++)
		pins_set(p, pins_entry(s, ids[i]), false);
	pins_changed(p);
	pthread_cond_broadcast(&p->changed); /* unpinned experts can be evicted now */
	pthread_mutex_unlock(&p->lock);
}

void pins_forget(struct pager_source *s)
{
	for (size_t i = 0; i < (size_t)s->layers * s->experts; i++) {
		pins_set(s->pager, &s->entries[i], false);
		pager_entry_ask(&s->entries[i], false);
	}
}

/* ---- loading and evicting ---- */

/* A load counts as a use. Otherwise the loaded expert would be the first to be evicted for the next
 * load. */
int pager_load(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	int rc = pins_check_room(s, ids, n, e);
	for (size_t i = 0; i < n && !rc; i++) {
		struct pager_entry *x = pins_entry(s, ids[i]);
		pool_use(p, x, 1);
		pager_entry_ask(x, x->state == ENTRY_ABSENT);
	}
	queue_wake(p, p->asked);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pager_take_back(struct pager_source *s, const struct pager_id *ids, size_t n)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < n; i++) {
		struct pager_entry *x = pins_entry(s, ids[i]);
		if (x->state != ENTRY_ABSENT || x->asked)
			continue;
		pager_entry_ask(x, true);
		x->spare = true;
	}
	queue_wake(p, p->asked);
	pthread_mutex_unlock(&p->lock);
}

static int pins_check_none(struct pager_source *s, const struct pager_id *ids, size_t n,
			   uint32_t *pinned)
{
	*pinned = 0;
	for (size_t i = 0; i < n; i++)
		*pinned += pins_entry(s, ids[i])->pinned;
	return *pinned ? -EBUSY : 0;
}

int pager_evict(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e)
{
	struct pager *p = s->pager;
	uint32_t pinned;
	pthread_mutex_lock(&p->lock);
	int rc = pins_check_none(s, ids, n, &pinned);
	for (size_t i = 0; i < n && !rc; i++) {
		struct pager_entry *x = pins_entry(s, ids[i]);
		pager_entry_ask(x, false);
		if (x->state == ENTRY_RESIDENT && x->holders == 0 && x->wanted == 0)
			pool_evict(p, x);
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return rc ? err_set(e, -rc,
			    "%u of these experts are pinned, so none was evicted; unpin them first",
			    pinned)
		  : 0;
}
