/* Slots and their order of use. A slot is anonymous memory of its own; an eviction for another
 * expert of the same size hands the memory over as it is, which saves the kernel from zeroing and
 * mapping it again. */
#include "cache/pool.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

/* ---- the order of use ---- */

static void unlink_entry(struct pager *p, struct entry *x)
{
	*(x->older ? &x->older->newer : &p->oldest) = x->newer;
	*(x->newer ? &x->newer->older : &p->newest) = x->older;
	x->older = x->newer = NULL;
}

static void link_newest(struct pager *p, struct entry *x)
{
	x->older = p->newest;
	x->newer = NULL;
	*(p->newest ? &p->newest->newer : &p->oldest) = x;
	p->newest = x;
}

void pool_touch(struct pager *p, struct entry *x)
{
	unlink_entry(p, x);
	link_newest(p, x);
}

/* The least recently used that may go; what open batches want only if `must`. Pinned entries are
 * few and mostly recent, so the walk is short. */
static struct entry *victim(const struct pager *p, bool must)
{
	struct entry *wanted = NULL;
	for (struct entry *x = p->oldest; x; x = x->newer) {
		if (x->state != ENTRY_RESIDENT || x->pins > 0)
			continue;
		if (x->wanted == 0)
			return x;
		if (!wanted)
			wanted = x;
	}
	return must ? wanted : NULL;
}

/* ---- slots ---- */

/* Moves a slot's bytes into the accounts of an entry. */
static void give_slot(struct pager *p, struct entry *x, void *slot)
{
	x->slot = slot;
	x->state = ENTRY_LOADING;
	link_newest(p, x);
	count(&p->total.used, &x->source->own.used, x->source->slot_bytes);
	if (p->total.used > p->peak)
		p->peak = p->total.used;
}

/* The other way; the memory stays. */
static void *take_slot(struct pager *p, struct entry *x)
{
	void *slot = x->slot;
	if (x->state == ENTRY_RESIDENT)
		count(&p->total.resident, &x->source->own.resident, -(uint64_t)1);
	x->slot = NULL;
	x->state = ENTRY_ABSENT;
	x->resident = false;
	unlink_entry(p, x);
	count(&p->total.used, &x->source->own.used, -(uint64_t)x->source->slot_bytes);
	return slot;
}

void pool_release(struct pager *p, struct entry *x)
{
	assert(x->pins == 0);
	/* Unmapped before it is counted as free: the memory in use is never more than `used`. */
	munmap(x->slot, x->source->slot_bytes);
	take_slot(p, x);
}

static void evict(struct pager *p, struct entry *x)
{
	count(&p->total.evictions, &x->source->own.evictions, 1);
	pool_release(p, x);
}

static void *map_slot(size_t bytes)
{
	void *slot = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slot == MAP_FAILED)
		return NULL;
	if (bytes >= HUGE_PAGE) /* a hint: without huge pages it is slower, not wrong */
		(void)madvise(slot, bytes, MADV_HUGEPAGE);
	return slot;
}

int pool_take(struct pager *p, struct entry *x, bool must)
{
	size_t bytes = x->source->slot_bytes;
	while (p->total.used + bytes > p->budget) {
		struct entry *old = victim(p, must);
		if (!old)
			return 0;
		if (old->source->slot_bytes == bytes && p->total.used <= p->budget) {
			count(&p->total.evictions, &old->source->own.evictions, 1);
			give_slot(p, x, take_slot(p, old));
			return 1;
		}
		evict(p, old);
	}
	void *slot = map_slot(bytes);
	if (!slot)
		return -ENOMEM;
	give_slot(p, x, slot);
	return 1;
}

void pool_shrink(struct pager *p)
{
	struct entry *old;
	while (p->total.used > p->budget && (old = victim(p, true)))
		evict(p, old);
}
