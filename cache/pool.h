/* The pager's inside: the pool of slots, and which expert has to go when room is needed.
 *
 * Shared by pager.c (creation, sources, looking), pager_batch.c (the batches) and pool.c, and by
 * nothing else. Unless it says otherwise, everything here is guarded by pager.lock. Numbers that
 * lookers read are atomics, written under the lock and read without; relaxed order is enough, as
 * each stands for itself.
 */
#ifndef MOEFS_CACHE_POOL_H
#define MOEFS_CACHE_POOL_H

#include "cache/pager.h"
#include "cache/reader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PAGER_READERS = 4 }; /* batches that read at the same time; others wait their turn */

/* ABSENT: no slot. LOADING: a slot that one batch fills. RESIDENT: its slot may be used. */
enum entry_state { ENTRY_ABSENT, ENTRY_LOADING, ENTRY_RESIDENT };

struct entry { /* one expert of one source */
	struct pager_source *source;
	struct entry *older, *newer; /* in the order of use, while it has a slot */
	void *slot;
	enum entry_state state;
	uint32_t wanted; /* open batches that have yet to take it */
	_Atomic uint32_t pins;
	_Atomic bool resident;
	_Atomic uint64_t hits, misses, last_token, last_used;
};

struct counters {
	_Atomic uint64_t used, hits, misses, evictions, bytes_read, resident, wait_ns;
};

struct pager_source {
	struct pager *pager;
	struct pager_source *next;
	const struct store *store;
	uint32_t layers, experts;
	size_t slot_bytes; /* whole pages */
	pager_arrange_fn *arrange;
	void *ctx;
	struct entry *entries; /* [layers * experts] */
	struct counters own;
};

struct pager {
	pthread_mutex_t lock;
	pthread_cond_t
		changed; /* room, a reader, or an expert's state: whatever a batch waits for */
	struct entry *oldest, *newest;
	struct pager_source *sources;
	struct reader *readers[PAGER_READERS]; /* a stack of those that no batch has */
	unsigned readers_free;
	const struct pager_batch *first_in_line; /* waits for room; no other batch may take any */
	bool async;				 /* reads go on by themselves; fixed at creation */
	_Atomic uint64_t budget, peak;
	struct counters total;
};

/* Adds to a pool's counter and to the same one of a source. */
static inline void count(_Atomic uint64_t *total, _Atomic uint64_t *own, uint64_t n)
{
	atomic_fetch_add_explicit(total, n, memory_order_relaxed);
	atomic_fetch_add_explicit(own, n, memory_order_relaxed);
}

/* Gives an absent entry a slot, as the most recently used: 1, or 0 if there is no room now, or
 * -ENOMEM. `must`: rather evict what an open batch wants than fail. */
int pool_take(struct pager *p, struct entry *x, bool must);
/* Takes the slot away from an entry that nobody has pinned, and unmaps it. */
void pool_release(struct pager *p, struct entry *x);
/* Evicts until the budget holds, as far as pins allow. */
void pool_shrink(struct pager *p);
/* Makes an entry with a slot the most recently used. */
void pool_touch(struct pager *p, struct entry *x);

#endif
