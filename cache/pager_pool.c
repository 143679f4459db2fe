/* Slots, and which expert is evicted when one is needed.
 *
 * Slots are cut from regions of anonymous memory. A slot's size is rarely a multiple of a huge
 * page, so a region is a run of slots that nearly fills a number of huge pages. Small slots, and
 * the last ones below the budget, have a region each. The budget counts whole regions, as they are
 * mapped. An evicted expert leaves its slot to the next expert. Memory is also returned to the
 * system by whole regions: a hole in a huge page is not free before the kernel finds time to split
 * the page.
 */
#include "cache/pager_inside.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A region has the number of slots that fills up to MOST_HUGE_PAGES huge pages best. For slots
 * below LEAST_HUGE, huge pages gained nothing measurable. */
enum { HUGE_PAGE = 2 << 20, MOST_HUGE_PAGES = 16, LEAST_HUGE = 512 << 10, SPARES = 56 };

struct pool_region {
	struct pool_region *next, *previous; /* in pager.open or pager.full */
	uint8_t *memory;
	size_t bytes, slot_bytes;
	uint32_t slots, taken;
	uint32_t busy;		       /* slots that are held or loading */
	uint32_t pinned;	       /* occupants that are pinned */
	struct pager_entry **occupant; /* [slots]; NULL: free */
	struct pager_entry *only;      /* the occupant, if there is one slot */
};

/* ---- regions ---- */

/* Small slots come and go by the hundred. If their descriptions were scattered over the heap, they
 * would keep pages from being returned to the system. So freed descriptions are kept for the next
 * slots, and SPARES of them share one page. */
struct pool_spares {
	struct pool_spares *next;
	struct pool_region region[SPARES];
};

static bool pool_add_spares(struct pager *p)
{
	struct pool_spares *more = malloc(sizeof *more);
	if (!more)
		return false;
	more->next = p->spares;
	p->spares = more;
	for (uint32_t i = 0; i < SPARES; i++) {
		more->region[i].next = p->spare;
		p->spare = &more->region[i];
	}
	return true;
}

static struct pool_region *pool_region_make(struct pager *p, uint32_t slots)
{
	struct pool_region *r;
	if (slots > 1) {
		r = calloc(1, sizeof *r + slots * sizeof *r->occupant);
		if (r)
			r->occupant = (struct pager_entry **)(r + 1);
		return r;
	}
	if (!p->spare && !pool_add_spares(p))
		return NULL;
	r = p->spare;
	p->spare = r->next;
	*r = (struct pool_region){.occupant = &r->only};
	return r;
}

static void pool_region_free(struct pager *p, struct pool_region *r)
{
	if (r->slots > 1) {
		free(r);
		return;
	}
	r->next = p->spare;
	p->spare = r;
}

void pool_free(struct pager *p)
{
	while (p->spares) {
		struct pool_spares *next = p->spares->next;
		free(p->spares);
		p->spares = next;
	}
}

/* The number of slots that wastes least memory, and the region's bytes. */
static uint32_t pool_region_slots(size_t slot_bytes, size_t *bytes)
{
	const size_t most = (size_t)MOST_HUGE_PAGES * HUGE_PAGE;
	size_t best_waste = SIZE_MAX;
	uint32_t best = 1;
	*bytes = slot_bytes;
	if (slot_bytes < LEAST_HUGE)
		return 1;
	for (uint32_t n = 1; n == 1 || n * slot_bytes <= most; n++) {
		size_t whole = (n * slot_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
		size_t waste = (whole - n * slot_bytes) / n;
		if (waste >= best_waste)
			continue;
		best = n;
		best_waste = waste;
		*bytes = whole;
	}
	return best;
}

static void *pool_map_pages(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* A mapping of huge pages must begin at a multiple of HUGE_PAGE, or the kernel cannot use them. */
static void *pool_map_huge(size_t bytes)
{
	uint8_t *all = pool_map_pages(bytes + HUGE_PAGE);
	if (!all)
		return NULL;
	size_t before = -(uintptr_t)all % HUGE_PAGE;
	if (before)
		munmap(all, before);
	munmap(all + before + bytes, HUGE_PAGE - before);
	/* A hint: small pages are slower, not wrong. */
	(void)madvise(all + before, bytes, MADV_HUGEPAGE);
	return all + before;
}

static void pool_link_region(struct pool_region **list, struct pool_region *r)
{
	r->previous = NULL;
	r->next = *list;
	if (r->next)
		r->next->previous = r;
	*list = r;
}

static void pool_unlink_region(struct pool_region **list, struct pool_region *r)
{
	*(r->previous ? &r->previous->next : list) = r->next;
	if (r->next)
		r->next->previous = r->previous;
}

static struct pool_region *pool_region_map(struct pager *p, size_t slot_bytes, uint32_t slots,
					   size_t bytes)
{
	struct pool_region *r = pool_region_make(p, slots);
	if (!r)
		return NULL;
	r->memory = bytes % HUGE_PAGE ? pool_map_pages(bytes) : pool_map_huge(bytes);
	r->slots = slots;
	if (!r->memory) {
		pool_region_free(p, r);
		return NULL;
	}
	r->bytes = bytes;
	r->slot_bytes = slot_bytes;
	pool_link_region(&p->open, r);
	p->total.used += bytes;
	if (p->total.used > p->peak)
		p->peak = p->total.used;
	return r;
}

/* A new region below the budget. It has a single slot if there is no room for more. */
static struct pool_region *pool_region_new(struct pager *p, size_t slot_bytes)
{
	size_t bytes;
	uint32_t slots = pool_region_slots(slot_bytes, &bytes);
	struct pool_region *r = NULL;
	if (p->total.used + bytes <= p->budget)
		r = pool_region_map(p, slot_bytes, slots, bytes);
	if (!r && p->total.used + slot_bytes <= p->budget)
		r = pool_region_map(p, slot_bytes, 1, slot_bytes);
	return r;
}

static struct pool_region *pool_find_open_region(const struct pager *p, size_t slot_bytes)
{
	struct pool_region *r = p->open;
	while (r && r->slot_bytes != slot_bytes)
		r = r->next;
	return r;
}

/* Unmaps the memory before counting it as free, so that `used` is never below the memory in use. */
static void pool_region_unmap(struct pager *p, struct pool_region *r)
{
	assert(r->taken == 0);
	munmap(r->memory, r->bytes);
	p->total.used -= r->bytes;
	pool_unlink_region(&p->open, r);
	pool_region_free(p, r);
}

/* ---- slots ---- */

/* Makes x the occupant of a free place in the region. */
static void pool_occupy(struct pager *p, struct pool_region *r, uint32_t place,
			struct pager_entry *x)
{
	struct pager_source *s = x->source;
	x->region = r;
	x->slot = r->memory + place * r->slot_bytes;
	x->state = ENTRY_LOADING;
	r->occupant[place] = x;
	r->pinned += x->pinned;
	r->busy++;
	pager_entry_ask(x, false);
	s->loading++;
	s->slot_value[pager_entry_index(x)] = s->value[pager_entry_index(x)];
	s->own.used += pager_entry_bytes(x);
	if (++r->taken == r->slots) {
		pool_unlink_region(&p->open, r);
		pool_link_region(&p->full, r);
	}
}

/* Removes x from its place; returns the place. */
static uint32_t pool_vacate(struct pager *p, struct pager_entry *x)
{
	struct pool_region *r = x->region;
	struct pager_source *s = x->source;
	uint32_t place = (uint32_t)((size_t)((uint8_t *)x->slot - r->memory) / r->slot_bytes);
	assert(x->holders == 0);
	if (x->state == ENTRY_RESIDENT) {
		pager_count(&p->total.resident, &s->own.resident, -(uint64_t)1);
	} else {
		r->busy--;
		s->loading--;
	}
	x->slot = NULL;
	x->region = NULL;
	x->state = ENTRY_ABSENT;
	x->resident = false;
	x->prefetched = false;
	s->slot_value[pager_entry_index(x)] = INFINITY;
	s->own.used -= pager_entry_bytes(x);
	r->occupant[place] = NULL;
	r->pinned -= x->pinned;
	if (r->taken-- == r->slots) {
		pool_unlink_region(&p->full, r);
		pool_link_region(&p->open, r);
	}
	return place;
}

void pool_release(struct pager *p, struct pager_entry *x)
{
	struct pool_region *r = x->region;
	pool_vacate(p, x);
	if (r->taken == 0)
		pool_region_unmap(p, r);
}

/* An evicted pinned expert is queued again, to be read when there is room. */
static void pool_count_eviction(struct pager *p, struct pager_entry *x)
{
	pager_count(&p->total.evictions, &x->source->own.evictions, 1);
	pager_entry_ask(x, x->pinned);
}

void pool_evict(struct pager *p, struct pager_entry *x)
{
	pool_release(p, x);
	pool_count_eviction(p, x);
}

void pool_count_pin(struct pool_region *r, bool pinned)
{
	r->pinned += pinned ? 1 : -1U;
}

static void pool_evict_region(struct pager *p, struct pool_region *r)
{
	for (uint32_t left = r->taken, i = 0; left > 0; i++)
		if (r->occupant[i]) {
			pool_evict(p, r->occupant[i]);
			left--;
		}
}

/* ---- which expert is evicted ---- */

/* The lowest need that may evict pinned experts. */
static enum need pool_pins_yield_to(const struct pager *p)
{
	return p->pins_hold ? NEED_MUST : NEED_DEMAND;
}

static bool pool_may_evict(const struct pager_entry *x, enum need need, enum need pins)
{
	if (x->state != ENTRY_RESIDENT || x->holders > 0 || (x->pinned && need < pins))
		return false;
	return (x->wanted == 0 || need >= NEED_WANTED) && (!x->shielded || need >= NEED_ASKED);
}

/* Whether all occupants of a region may be evicted together. */
static bool pool_region_may_evict(const struct pool_region *r, enum need need, enum need pins)
{
	return r->busy == 0 && (r->pinned == 0 || need >= pins);
}

struct pool_search {
	enum need need;
	bool whole;	   /* all occupants of its region must be evictable */
	size_t slot_bytes; /* only slots of this size; 0: any size */
};

struct pool_candidate {
	struct pager_entry *entry;
	double score;
	uint32_t distance; /* layers until its layer's next turn */
};

static uint32_t pool_layer_distance(const struct pager_source *s, uint32_t layer)
{
	return (layer + s->layers - s->layer - 1) % s->layers + 1;
}

static double pool_layer_discount(const struct pager_source *s, uint32_t layer)
{
	return policy_discount(s->pager->policy, pool_layer_distance(s, layer), s->layers,
			       s->pager->turns - s->turns);
}

/* Updates *best with the layer's lowest score. Ties go to the layer whose turn is farthest away. */
static void pool_consider_layer(struct pager_source *s, uint32_t layer,
				const struct pool_search *wanted, struct pool_candidate *best)
{
	uint32_t distance = pool_layer_distance(s, layer);
	double discount = pool_layer_discount(s, layer);
	enum need pins = pool_pins_yield_to(s->pager);
	size_t first = (size_t)layer * s->experts;
	for (size_t i = first; i < first + s->experts; i++) {
		double score = s->slot_value[i] * discount;
		if (score > best->score || (score == best->score && distance <= best->distance))
			continue;
		struct pager_entry *x = &s->entries[i];
		if (pool_may_evict(x, wanted->need, pins) &&
		    (!wanted->whole || pool_region_may_evict(x->region, wanted->need, pins)))
			*best = (struct pool_candidate){x, score, distance};
	}
}

/* The evictable expert with the lowest score. */
static struct pager_entry *pool_lowest(const struct pager *p, const struct pool_search *wanted)
{
	struct pool_candidate best = {.score = INFINITY};
	for (struct pager_source *s = p->sources; s; s = s->next)
		for (uint32_t layer = 0; layer < s->layers; layer++)
			if (!wanted->slot_bytes || wanted->slot_bytes == s->slot_bytes[layer])
				pool_consider_layer(s, layer, wanted, &best);
	return best.entry;
}

/* pool_lowest at the lowest need that finds an expert. */
static struct pager_entry *pool_victim(const struct pager *p, struct pool_search wanted)
{
	struct pager_entry *x = NULL;
	enum need most = wanted.need;
	for (wanted.need = NEED_SPARE; wanted.need <= most && !x; wanted.need++)
		x = pool_lowest(p, &wanted);
	return x;
}

/* ---- taking and giving back ---- */

/* Gives x a free slot, in an existing region or a new one. */
static bool pool_take_free(struct pager *p, struct pager_entry *x)
{
	size_t bytes = pager_entry_bytes(x);
	struct pool_region *r = p->total.used <= p->budget ? pool_find_open_region(p, bytes) : NULL;
	uint32_t place = 0;
	if (!r && !(r = pool_region_new(p, bytes)))
		return false;
	while (r->occupant[place])
		place++;
	pool_occupy(p, r, place, x);
	return true;
}

/* Gives x the slot of `old`, if both have the same size. The kernel need not zero the memory
 * again. */
static bool pool_take_over(struct pager *p, struct pager_entry *x, struct pager_entry *old)
{
	if (!old || pager_entry_bytes(old) != pager_entry_bytes(x))
		return false;
	struct pool_region *r = old->region;
	uint32_t place = pool_vacate(p, old);
	pool_count_eviction(p, old);
	pool_occupy(p, r, place, x);
	return true;
}

static double pool_score(const struct pager_entry *x)
{
	const struct pager_source *s = x->source;
	return s->slot_value[pager_entry_index(x)] * pool_layer_discount(s, pager_entry_layer(x));
}

/* Whether to free a region of other slots for new ones, rather than to take the slot of `own`,
 * which has the right size. True if the region's occupants are worth less per slot gained. So each
 * slot size, of layers or models, gets its share, and a size does not lose a region each time
 * another size needs a slot. */
static bool pool_region_is_worth_less(const struct pager_entry *own, const struct pool_region *r)
{
	double worth = 0, slots = (double)r->bytes / (double)pager_entry_bytes(own);
	if (own->wanted || own->shielded)
		return true;
	for (uint32_t i = 0; i < r->slots; i++)
		worth += r->occupant[i] ? pool_score(r->occupant[i]) : 0;
	return worth / slots < pool_score(own);
}

/* Takes the slot of an evicted expert. If the lowest expert's slot has another size, either the
 * whole region is freed to make room for a new one, or the lowest expert of the right size is
 * evicted. */
int pool_take(struct pager *p, struct pager_entry *x, enum need need)
{
	size_t bytes = pager_entry_bytes(x);
	while (!pool_take_free(p, x)) {
		bool fits = p->total.used <= p->budget;
		if (fits &&
		    pool_take_over(p, x, pool_victim(p, (struct pool_search){need, false, 0})))
			return 1;
		struct pager_entry *own =
			fits ? pool_victim(p, (struct pool_search){need, false, bytes}) : NULL;
		struct pager_entry *old =
			need >= NEED_ASKED ? pool_victim(p, (struct pool_search){need, true, 0})
					   : NULL;
		if (old && (!own || pool_region_is_worth_less(own, old->region)))
			pool_evict_region(p, old->region);
		else if (pool_take_over(p, x, own))
			return 1;
		else
			return p->total.used + bytes <= p->budget ? -ENOMEM : 0;
	}
	return 1;
}

bool pool_busy(const struct pager *p)
{
	for (const struct pool_region *r = p->open; r; r = r->next)
		if (r->busy)
			return true;
	for (const struct pool_region *r = p->full; r; r = r->next)
		if (r->busy)
			return true;
	return false;
}

void pool_shrink(struct pager *p)
{
	struct pager_entry *old;
	while (p->total.used > p->budget &&
	       (old = pool_victim(p, (struct pool_search){NEED_MUST, true, 0})))
		pool_evict_region(p, old->region);
}

void pool_resident(struct pager *p, struct pager_entry *x)
{
	x->state = ENTRY_RESIDENT;
	x->resident = true;
	x->region->busy--;
	x->source->loading--;
	pager_count(&p->total.resident, &x->source->own.resident, 1);
	pool_shrink(p);
}

void pool_hold(struct pager_entry *x)
{
	if (x->holders++ == 0)
		x->region->busy++;
}

void pool_give_back(struct pager *p, struct pager_entry *x)
{
	if (--x->holders > 0)
		return;
	x->region->busy--;
	pool_shrink(p);
}

/* ---- uses ---- */

void pool_value(struct pager_entry *x, double value)
{
	size_t i = pager_entry_index(x);
	x->source->value[i] = value;
	if (x->slot)
		x->source->slot_value[i] = value;
}

void pool_use(struct pager *p, struct pager_entry *x, float credit)
{
	struct use_counts *uses = &x->source->uses[pager_entry_index(x)];
	pool_value(x, policy_use(p->policy, uses, credit, ++p->tick));
}

void pool_use_all(struct pager *p, struct pager_source *s, uint32_t layer, const uint32_t *experts,
		  const float *credit, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++)
		pool_use(p, &s->entries[(size_t)layer * s->experts + experts[k]],
			 credit ? credit[k] : 1);
}

void pool_visit(struct pager *p, struct pager_source *s, uint32_t layer, const uint32_t *experts,
		const float *credit, uint32_t n)
{
	size_t first = (size_t)layer * s->experts;
	p->turns += 1.0 / s->layers;
	s->turns = p->turns;
	s->layer = layer;
	for (size_t i = first; i < first + s->experts; i++)
		pool_value(&s->entries[i], policy_fade(p->policy, &s->uses[i], s->value[i]));
	pool_use_all(p, s, layer, experts, credit, n);
}

void pool_forget_uses(struct pager *p)
{
	for (struct pager_source *s = p->sources; s; s = s->next)
		for (size_t i = 0; i < (size_t)s->layers * s->experts; i++) {
			s->uses[i] = (struct use_counts){0};
			pool_value(&s->entries[i], 0);
		}
}
