/* The pager as a whole: creation, sources, the budget, the policy's name, and statistics. Batches
 * are in pager_batch.c, slots and eviction in pager_pool.c, queues in pager_queue.c, and the
 * threads that read in pager_loader.c. */
#include "cache/pager.h"
#include "cache/thread_trim.h"

#include "cache/pager_inside.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	thread_cond_init(&p->work);
	p->budget = budget_bytes;
	p->policy = policy_default();
	p->shield = p->prefetch = p->pins_hold = true;
	depth_init(&p->depth);
	p->depth_now = p->depth.depth;
	int rc = loaders_start(p, io, e);
	if (rc) {
		pager_destroy(p);
		return rc;
	}
	*out = p;
	return 0;
}

void pager_destroy(struct pager *p)
{
	if (!p)
		return;
	assert(!p->sources);
	loaders_stop(p);
	pool_free(p);
	pthread_cond_destroy(&p->changed);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int pager_set_budget(struct pager *p, uint64_t bytes, struct err *e)
{
	size_t largest = 0;
	pthread_mutex_lock(&p->lock);
	for (const struct pager_source *s = p->sources; s; s = s->next)
		if (s->largest > largest)
			largest = s->largest;
	if (bytes >= largest) {
		p->budget = bytes;
		pins_changed(p);
		pool_shrink(p);
		pins_changed(p); /* evicted pins may have room again: queue them */
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

/* ---- the policy ---- */

int pager_set_policy(struct pager *p, const char *words, struct err *e)
{
	char copy[PAGER_POLICY_TEXT], *rest = copy, *word;
	const struct policy *policy = NULL;
	bool shield = true, prefetch = true;
	if ((size_t)snprintf(copy, sizeof copy, "%s", words) >= sizeof copy)
		return err_set(e, EINVAL, "policy: the text is too long");
	while ((word = strsep(&rest, " \n"))) {
		if (!*word)
			continue;
		if (!policy &&
		    (policy = strcmp(word, "auto") ? policy_find(word) : policy_default()))
			continue;
		if (!strcmp(word, "no-shield"))
			shield = false;
		else if (!strcmp(word, "no-prefetch"))
			prefetch = false;
		else
			return err_set(e, EINVAL,
				       "policy: \"%s\" is unknown; write scales, lrfu, lfu or lru, "
				       "then no-shield or no-prefetch if wanted",
				       word);
	}
	if (!policy)
		return err_set(e, EINVAL, "policy: name one of scales, lrfu, lfu and lru");
	pthread_mutex_lock(&p->lock);
	p->shield = shield;
	p->prefetch = prefetch;
	if (policy != p->policy) {
		p->policy = policy;
		pool_forget_uses(p);
	}
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void pager_policy(struct pager *p, char words[PAGER_POLICY_TEXT])
{
	pthread_mutex_lock(&p->lock);
	(void)snprintf(words, PAGER_POLICY_TEXT, "%s%s%s", p->policy->name,
		       p->shield ? "" : " no-shield", p->prefetch ? "" : " no-prefetch");
	pthread_mutex_unlock(&p->lock);
}

/* ---- sources ---- */

size_t pager_slot_bytes(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), sum;
	return __builtin_add_overflow(bytes, page - 1, &sum) ? 0 : sum / page * page;
}

static void pager_source_free(struct pager_source *s)
{
	if (!s)
		return;
	free(s->slot_bytes);
	free(s->entries);
	free(s->uses);
	free(s->value);
	free(s->slot_value);
	ahead_close(s);
	free(s->warm);
	free(s);
}

/* A source whose experts are all absent and unused; NULL: out of memory. */
static struct pager_source *pager_source_new(struct pager *p, const struct pager_supply *supply)
{
	const struct store_info *info = store_info(supply->store);
	size_t all = (size_t)info->layers * info->experts;
	struct pager_source *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	*s = (struct pager_source){
		.pager = p,
		.supply = *supply,
		.layers = info->layers,
		.experts = info->experts,
		.slot_bytes = calloc((size_t)info->layers + 1, sizeof *s->slot_bytes),
		.largest = pager_slot_bytes(supply->slot_bytes),
		.entries = calloc(all + 1, sizeof *s->entries),
		.uses = calloc(all + 1, sizeof *s->uses),
		.value = calloc(all + 1, sizeof *s->value),
		.slot_value = calloc(all + 1, sizeof *s->slot_value),
	};
	s->supply.layer_slot_bytes = NULL; /* this array and `pinned` belong to the caller */
	s->supply.pinned = NULL;
	if (!s->slot_bytes || !s->entries || !s->uses || !s->value || !s->slot_value ||
	    ahead_open(s)) {
		pager_source_free(s);
		return NULL;
	}
	for (uint32_t i = 0; i < info->layers; i++)
		s->slot_bytes[i] = supply->layer_slot_bytes
					   ? pager_slot_bytes(supply->layer_slot_bytes[i])
					   : s->largest;
	for (size_t i = 0; i < all; i++) {
		s->entries[i].source = s;
		s->slot_value[i] = INFINITY;
		s->all += pager_entry_bytes(&s->entries[i]);
	}
	return s;
}

static int pager_check_sizes(const struct pager_supply *supply, struct err *e)
{
	const size_t *bytes = supply->layer_slot_bytes;
	uint32_t layers = bytes ? store_info(supply->store)->layers : 0;
	size_t wrong = supply->slot_bytes;
	bool right = pager_slot_bytes(supply->slot_bytes) != 0;
	for (uint32_t i = 0; i < layers && right; i++) {
		wrong = bytes[i];
		right = bytes[i] > 0 && bytes[i] <= supply->slot_bytes;
	}
	return right ? 0
		     : err_set(e, EINVAL, "%s: experts of %zu bytes", store_folder(supply->store),
			       wrong);
}

int pager_add(struct pager *p, struct pager_source **out, const struct pager_supply *supply,
	      struct err *e)
{
	const char *folder = store_folder(supply->store);
	size_t rounded = pager_slot_bytes(supply->slot_bytes);
	*out = NULL;
	int rc = pager_check_sizes(supply, e);
	if (rc)
		return rc;
	struct pager_source *s = pager_source_new(p, supply);
	if (!s)
		return err_sys(e, ENOMEM, "%s: the table of experts", folder);
	pthread_mutex_lock(&p->lock);
	uint64_t budget = p->budget;
	if (rounded <= budget) {
		s->turns = p->turns;
		s->next = p->sources;
		p->sources = s;
		for (size_t i = 0; supply->pinned && i < (size_t)s->layers * s->experts; i++)
			pins_set(p, &s->entries[i], supply->pinned[i]);
		pins_changed(p);
	}
	pthread_mutex_unlock(&p->lock);
	if (rounded > budget) {
		pager_source_free(s);
		return err_set(
			e, ERANGE,
			"%s: a cache of %llu bytes cannot hold one expert of %zu bytes; give at "
			"least that with -o budget= or cache/budget",
			folder, (unsigned long long)budget, rounded);
	}
	*out = s;
	return 0;
}

void pager_remove(struct pager_source *s)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	queue_forget_source(p, s);
	heat_warm_stop(s);
	pins_forget(s);
	while (s->loading > 0 || s->held > 0)
		pthread_cond_wait(&p->changed, &p->lock);
	for (size_t i = 0; i < (size_t)s->layers * s->experts; i++)
		if (s->entries[i].slot)
			pool_release(p, &s->entries[i]);
	struct pager_source **link = &p->sources;
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	pins_changed(p);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pager_source_free(s);
}

/* ---- inspecting: no lock ---- */

static uint64_t pager_relaxed(const _Atomic uint64_t *a)
{
	return atomic_load_explicit(a, memory_order_relaxed);
}

void pager_inspect(const struct pager_source *s, uint32_t layer, uint32_t expert,
		   struct pager_expert *out)
{
	assert(layer < s->layers && expert < s->experts);
	const struct pager_entry *x = &s->entries[(size_t)layer * s->experts + expert];
	bool resident = atomic_load_explicit(&x->resident, memory_order_relaxed);
	*out = (struct pager_expert){
		.resident = resident,
		.pinned = atomic_load_explicit(&x->pinned, memory_order_relaxed),
		.holders = atomic_load_explicit(&x->holders, memory_order_relaxed),
		.bytes = resident ? s->slot_bytes[layer] : 0,
		.hits = pager_relaxed(&x->hits),
		.misses = pager_relaxed(&x->misses),
		.last_token = pager_relaxed(&x->last_token),
		.last_used = pager_relaxed(&x->last_used),
	};
}

static void pager_fill_stats(const struct pager *p, const struct pager_counters *c,
			     struct pager_stats *out)
{
	*out = (struct pager_stats){
		.budget = pager_relaxed(&p->budget),
		.used = pager_relaxed(&c->used),
		.peak = pager_relaxed(&p->peak),
		.hits = pager_relaxed(&c->hits),
		.misses = pager_relaxed(&c->misses),
		.evictions = pager_relaxed(&c->evictions),
		.tokens = pager_relaxed(&c->tokens),
		.bytes_read = pager_relaxed(&c->bytes_read),
		.experts_resident = pager_relaxed(&c->resident),
		.pinned = pager_relaxed(&c->pinned),
		.wait_ns = pager_relaxed(&c->wait_ns),
		.prefetched = pager_relaxed(&c->prefetched),
		.prefetch_hits = pager_relaxed(&c->prefetch_hits),
		.waiting = atomic_load_explicit(&p->waiting, memory_order_relaxed),
		.depth = atomic_load_explicit(&p->depth_now, memory_order_relaxed),
		.io = p->ring ? "io_uring" : "pread",
	};
}

void pager_stats(const struct pager *p, struct pager_stats *out)
{
	pager_fill_stats(p, &p->total, out);
}

void pager_source_stats(const struct pager_source *s, struct pager_stats *out)
{
	pager_fill_stats(s->pager, &s->own, out);
}
