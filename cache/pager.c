/* The pager as a whole: creation, sources, the budget, and looking. Batches are in pager_batch.c,
 * slots and eviction in pool.c, reads in reader.c. */
#include "cache/pager.h"

#include "cache/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int pager_create(struct pager **out, uint64_t budget_bytes, struct err *e)
{
	return pager_create_with(out, budget_bytes, PAGER_IO_URING, e);
}

int pager_create_with(struct pager **out, uint64_t budget_bytes, enum pager_io io, struct err *e)
{
	*out = NULL;
	struct pager *p = calloc(1, sizeof *p);
	if (!p)
		return err_sys(e, ENOMEM, "the cache of experts");
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	p->budget = budget_bytes;
	while (p->readers_free < PAGER_READERS) {
		struct reader *r;
		int rc = reader_create(&r, io == PAGER_IO_URING, e);
		if (rc) {
			pager_destroy(p);
			return rc;
		}
		p->readers[p->readers_free++] = r;
	}
	p->async = reader_async(p->readers[0]);
	*out = p;
	return 0;
}

void pager_destroy(struct pager *p)
{
	if (!p)
		return;
	assert(!p->sources);
	while (p->readers_free > 0)
		reader_destroy(p->readers[--p->readers_free]);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int pager_set_budget(struct pager *p, uint64_t bytes, struct err *e)
{
	size_t largest = 0;
	pthread_mutex_lock(&p->lock);
	for (const struct pager_source *s = p->sources; s; s = s->next)
		if (s->slot_bytes > largest)
			largest = s->slot_bytes;
	if (bytes >= largest) {
		p->budget = bytes;
		pool_shrink(p);
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	if (bytes >= largest)
		return 0;
	return err_set(
		e, ERANGE,
		"a cache of %llu bytes cannot hold one expert of %zu bytes; give at least that",
		(unsigned long long)bytes, largest);
}

/* ---- sources ---- */

/* Whole pages, since that is what a slot takes; 0 if it overflows. */
static size_t page_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), sum;
	return __builtin_add_overflow(bytes, page - 1, &sum) ? 0 : sum / page * page;
}

int pager_add(struct pager *p, struct pager_source **out, const struct store *store,
	      size_t slot_bytes, pager_arrange_fn *arrange, void *ctx, struct err *e)
{
	const struct store_info *info = store_info(store);
	size_t count_of = (size_t)info->layers * info->experts;
	size_t rounded = page_round(slot_bytes);
	*out = NULL;
	if (rounded == 0)
		return err_set(e, EINVAL, "%s: experts of %zu bytes", store_folder(store),
			       slot_bytes);
	struct pager_source *s = calloc(1, sizeof *s);
	struct entry *entries = calloc(count_of + 1, sizeof *entries);
	if (!s || !entries) {
		free(s);
		free(entries);
		return err_sys(e, ENOMEM, "%s: the table of experts", store_folder(store));
	}
	*s = (struct pager_source){
		.pager = p,
		.store = store,
		.layers = info->layers,
		.experts = info->experts,
		.slot_bytes = rounded,
		.arrange = arrange,
		.ctx = ctx,
		.entries = entries,
	};
	for (size_t i = 0; i < count_of; i++)
		entries[i].source = s;

	pthread_mutex_lock(&p->lock);
	uint64_t budget = p->budget;
	if (rounded <= budget) {
		s->next = p->sources;
		p->sources = s;
	}
	pthread_mutex_unlock(&p->lock);
	if (rounded > budget) {
		free(s);
		free(entries);
		return err_set(
			e, ERANGE,
			"%s: a cache of %llu bytes cannot hold one expert of %zu bytes; give at "
			"least that with -o budget= or cache/budget",
			store_folder(store), (unsigned long long)budget, rounded);
	}
	*out = s;
	return 0;
}

void pager_remove(struct pager_source *s)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < (size_t)s->layers * s->experts; i++)
		if (s->entries[i].slot)
			pool_release(p, &s->entries[i]);
	struct pager_source **link = &p->sources;
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	free(s->entries);
	free(s);
}

/* ---- looking: no lock ---- */

static uint64_t load(const _Atomic uint64_t *a)
{
	return atomic_load_explicit(a, memory_order_relaxed);
}

void pager_inspect(const struct pager_source *s, uint32_t layer, uint32_t expert,
		   struct pager_expert *out)
{
	assert(layer < s->layers && expert < s->experts);
	const struct entry *x = &s->entries[(size_t)layer * s->experts + expert];
	bool resident = atomic_load_explicit(&x->resident, memory_order_relaxed);
	*out = (struct pager_expert){
		.resident = resident,
		.pinned = atomic_load_explicit(&x->pins, memory_order_relaxed),
		.bytes = resident ? s->slot_bytes : 0,
		.hits = load(&x->hits),
		.misses = load(&x->misses),
		.last_token = load(&x->last_token),
		.last_used = load(&x->last_used),
	};
}

static void look(const struct pager *p, const struct counters *c, struct pager_stats *out)
{
	*out = (struct pager_stats){
		.budget = load(&p->budget),
		.used = load(&c->used),
		.peak = load(&p->peak),
		.hits = load(&c->hits),
		.misses = load(&c->misses),
		.evictions = load(&c->evictions),
		.bytes_read = load(&c->bytes_read),
		.experts_resident = load(&c->resident),
		.wait_ns = load(&c->wait_ns),
		.io = p->async ? "io_uring" : "pread",
	};
}

void pager_stats(const struct pager *p, struct pager_stats *out)
{
	look(p, &p->total, out);
}

void pager_source_stats(const struct pager_source *s, struct pager_stats *out)
{
	look(s->pager, &s->own, out);
}
