/* The pager's inside: the pool of slots, and which expert is evicted when room is needed.
 *
 * Only the pager's own files (cache/pager*.c) and its tests include this header. pager.lock guards
 * everything here, unless a comment says otherwise. Numbers for statistics are atomics, written
 * under the lock and read without it. Relaxed order is enough, since readers do not relate one
 * number to another.
 */
#ifndef MOEFS_CACHE_PAGER_INSIDE_H
#define MOEFS_CACHE_PAGER_INSIDE_H

#include "cache/ahead.h"
#include "cache/depth.h"
#include "cache/pager.h"
#include "cache/policy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ABSENT: no slot. LOADING: a loader fills the slot, or will. RESIDENT: ready for use. */
enum entry_state { ENTRY_ABSENT, ENTRY_LOADING, ENTRY_RESIDENT };

struct pager_entry { /* one expert of one source */
	struct pager_source *source;
	struct pool_region *region; /* while it has a slot */
	void *slot;
	enum entry_state state;
	struct pager_entry *next; /* next entry in the same queue (pager_queue) */
	bool queued;		  /* in the queue of prefetches, without a slot */
	bool holds;		  /* its request occupies a thread until done (pager_loader.c) */
	bool prefetched;	  /* read because of a prediction, and not used since */
	bool shielded;		  /* predicted for its layer's next batch */
	bool asked;		  /* it was asked for, and is still absent (pager_pins.c) */
	bool spare;		  /* asked: only where there is free room */
	struct pager_batch *batch; /* whose read it is, while LOADING; NULL: none */
	uint32_t wanted;	   /* open batches that have yet to take it */
	_Atomic uint32_t holders;  /* batches that compute with it */
	_Atomic bool resident;
	_Atomic bool pinned; /* pinned by a user: evicted only as a last resort (enum need) */
	_Atomic uint64_t hits, misses, last_token, last_used;
};

struct pager_counters {
	_Atomic uint64_t tokens, used, hits, misses, evictions, bytes_read, resident, wait_ns;
	_Atomic uint64_t prefetched, prefetch_hits;
	_Atomic uint64_t pinned; /* bytes of pinned experts' slots, resident or not */
};

struct pager_guess { /* an absent expert named by a rank of a forecast */
	struct pager_entry *entry;
	uint32_t distance, rank; /* as in ahead.h */
};

struct pager_source {
	struct pager *pager;
	struct pager_source *next;
	struct pager_supply supply;
	uint32_t layers, experts;
	size_t *slot_bytes;	     /* [layers], whole pages */
	size_t largest;		     /* the largest of slot_bytes */
	struct pager_entry *entries; /* [layers * experts] */
	uint32_t loading;	     /* entries that are LOADING */
	uint32_t flying;	     /* reads in flight (pager.flying) of this source */
	uint32_t held;		     /* workers (pager.held) that this source's requests occupy */
	uint32_t asked;		     /* entries with `asked` set */
	uint64_t all;		     /* bytes of the slots of all entries, if all were resident */
	uint64_t elsewhere;	     /* experts that nobody asks for (pager_set_elsewhere) */
	struct pager_counters own;

	/* For the policy: how each expert was used, the expert's value, and a copy of the value of
	 * experts with a slot (INFINITY: no slot). A search for the lowest value reads only the
	 * copies. */
	struct use_counts *uses;    /* [layers * experts] */
	double *value, *slot_value; /* [layers * experts] */
	uint32_t layer;		    /* layer of the batch that began last */
	double turns;		    /* pager.turns when that batch began */
	uint64_t token;		    /* the `token` of that batch */

	struct pager_entry **predicted; /* [PAGER_LOOK_AHEAD * experts] the present predictions */
	uint32_t predicted_count;
	/* Forecasts of this pass through the layers, until the layer's batch shows whether each was
	 * right. [AHEAD_LAYERS * (AHEAD_LAYERS + 1) / 2 * experts] */
	struct pager_guess *guesses;
	uint32_t guess_count;
	struct ahead ahead;

	uint32_t *warm; /* experts by heat, hottest first; NULL: nothing to warm */
	_Atomic uint32_t warm_next, warm_count;
};

struct pager_queue {
	struct pager_entry *first, *last;
};

struct loader;

struct pager {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* signals room, or a change of an entry's state */
	struct pager_source *sources;
	struct pool_region *open, *full;	 /* regions with free slots; regions without */
	struct pool_region *spare;		 /* unused descriptions of regions (pager_pool.c) */
	struct pool_spares *spares;		 /* the memory of these descriptions */
	const struct pager_batch *first_in_line; /* waits for room; no other batch may take any */

	const struct policy *policy;
	_Atomic bool shield, prefetch; /* whether predictions shield and prefetch */
	uint64_t tick;		       /* number of uses of any expert so far */
	double turns;		       /* passes through the layers of any model so far */
	uint32_t asked;		       /* entries with `asked` set, of all sources */
	bool pins_hold; /* the budget has room for all pins and one token's experts */

	struct pager_ahead forecasts[AHEAD_LAYERS][AHEAD_RANKS]; /* of all sources */
	struct pager_queue demand, prefetches;
	struct depth_tuner depth;
	uint32_t flying;     /* reads handed to loaders and not yet finished */
	pthread_cond_t work; /* wakes workers */
	bool quit;
	struct loader *loaders; /* a list that only grows */
	uint32_t workers, held; /* workers; workers that have a request */
	uint32_t worker_share;	/* most workers of one source; fixed, like the fields below */
	int wake;		/* an eventfd, one count per request for threads with a ring */
	uint32_t ring_threads;	/* 0: no io_uring */
	bool ring;

	_Atomic uint64_t budget, peak;
	_Atomic uint32_t depth_now, waiting;
	struct pager_counters total;
};

/* Adds n to a counter of the pool and to the same counter of a source. */
static inline void pager_count(_Atomic uint64_t *total, _Atomic uint64_t *own, uint64_t n)
{
	atomic_fetch_add_explicit(total, n, memory_order_relaxed);
	atomic_fetch_add_explicit(own, n, memory_order_relaxed);
}

static inline size_t pager_entry_index(const struct pager_entry *x)
{
	return (size_t)(x - x->source->entries);
}
static inline uint32_t pager_entry_layer(const struct pager_entry *x)
{
	return (uint32_t)(pager_entry_index(x) / x->source->experts);
}
static inline uint32_t pager_entry_expert(const struct pager_entry *x)
{
	return (uint32_t)(pager_entry_index(x) % x->source->experts);
}

/* Bytes of the entry's slot. */
static inline size_t pager_entry_bytes(const struct pager_entry *x)
{
	return x->source->slot_bytes[pager_entry_layer(x)];
}

/* asked: queues an absent entry to be read for a user, when nothing more urgent is queued. Not
 * asked: takes the request back. */
static inline void pager_entry_ask(struct pager_entry *x, bool asked)
{
	x->spare = false;
	if (x->asked == asked)
		return;
	x->asked = asked;
	x->source->asked += asked ? 1 : -1U;
	x->source->pager->asked += asked ? 1 : -1U;
}

/* ---- pager_pool.c ---- */

/* How urgently a slot is needed, and so what may be evicted for it. Each need may also evict all
 * that the needs before it may. */
enum need {
	NEED_FREE,   /* evict nothing: only free room */
	NEED_SPARE,  /* an expert that no batch wants, no prediction shields, no user pinned */
	NEED_ASKED,  /* a shielded expert */
	NEED_DEMAND, /* a pinned expert, while the budget has no room for all pins */
	NEED_WANTED, /* an expert that another open batch wants */
	NEED_MUST,   /* a pinned expert: no other way to continue */
};
/* Gives an absent entry a slot and returns 1; 0 if there is no room now; -ENOMEM if there is room
 * below the budget but no memory, and nothing to evict. */
int pool_take(struct pager *p, struct pager_entry *x, enum need need);
/* True if a slot is held or loading, so that more can be evicted later. */
bool pool_busy(const struct pager *p);
/* Frees the slot of an entry that no batch holds. */
void pool_release(struct pager *p, struct pager_entry *x);
/* Marks an entry as resident after a successful read. */
void pool_resident(struct pager *p, struct pager_entry *x);
void pool_hold(struct pager_entry *x);
/* Ends a hold. Evicts, if the budget has shrunk meanwhile. */
void pool_give_back(struct pager *p, struct pager_entry *x);
/* Evicts until the budget holds, as far as held experts allow. */
void pool_shrink(struct pager *p);
/* Evicts a resident expert that no batch holds or wants. */
void pool_evict(struct pager *p, struct pager_entry *x);
/* Frees the pool. All sources must have been removed. */
void pool_free(struct pager *p);
/* Counts that an occupant of the region was pinned or unpinned. */
void pool_count_pin(struct pool_region *r, bool pinned);

/* Call when a batch of `layer` begins: the layer's use counts fade, and n of its experts are used.
 * credit[n], or NULL: 1 each. */
void pool_visit(struct pager *p, struct pager_source *s, uint32_t layer, const uint32_t *experts,
		const float *credit, uint32_t n);
/* More uses of that visit: nothing fades. */
void pool_use_all(struct pager *p, struct pager_source *s, uint32_t layer, const uint32_t *experts,
		  const float *credit, uint32_t n);
/* Counts a use outside of a batch. No other expert's counts fade. */
void pool_use(struct pager *p, struct pager_entry *x, float credit);
/* Sets an expert's value for the policy. */
void pool_value(struct pager_entry *x, double value);
/* Forgets all use counts, for a change of the policy. */
void pool_forget_uses(struct pager *p);

/* ---- pager_queue.c ---- */

/* Requests for experts: demands (a batch waits), prefetches (predicted for the next layers), and
 * experts that were asked for, which are marked in their entry and are in no queue. Call all of
 * these functions with the pager's lock held. */
/* queue_demand: queues an entry that has a slot, for a batch. queue_prefetch: queues an entry
 * without a slot, to be read when the device has little to do. */
void queue_demand(struct pager *p, struct pager_entry *x, struct pager_batch *batch);
void queue_prefetch(struct pager *p, struct pager_entry *x);
/* Wakes threads for this many new requests. */
void queue_wake(struct pager *p, uint32_t requests);
/* Removes prefetches that have not begun: of one entry, of a layer, or of a source. */
void queue_forget(struct pager *p, struct pager_entry *x);
void queue_forget_layer(struct pager *p, struct pager_source *s, uint32_t layer);
void queue_forget_source(struct pager *p, struct pager_source *s);

/* The first demand whose source may have another read in flight. worker: for a worker, else for a
 * thread with a ring. NULL: none. */
struct pager_entry *queue_next_demand(struct pager *p, bool worker);
/* An absent expert that was asked for, now with a slot; NULL: none. */
struct pager_entry *queue_next_asked(struct pager *p, bool worker);
/* The first prefetch whose entry is still absent, now with a spare slot; NULL: none. */
struct pager_entry *queue_next_prefetch(struct pager *p, bool worker);

/* Whether there can be requests for workers. */
bool queue_workers_serve(const struct pager *p);
/* Whether the store lacks this expert and the source can make it. */
bool queue_must_be_made(const struct pager_entry *x);

/* ---- pager_loader.c ---- */

int loaders_start(struct pager *p, enum pager_io io, struct err *e);
void loaders_stop(struct pager *p); /* remove all sources first */

/* ---- pager_pins.c ---- */

/* Pins or unpins an entry: the only way to change entry.pinned. */
void pins_set(struct pager *p, struct pager_entry *x, bool pinned);
/* Call when the budget, a pin or a source has changed. Decides again whether the budget has room
 * for all pins; if so, absent pinned experts are read. */
void pins_changed(struct pager *p);
/* Forgets the pins and requests of users for a source. */
void pins_forget(struct pager_source *s);

/* ---- pager_batch.c ---- */

/* Records that the read of one of the batch's experts has failed. */
void batch_note_failure(struct pager_batch *b, const struct pager_entry *x, const struct err *e);

/* ---- pager_ahead.c ---- */

int ahead_open(struct pager_source *s); /* -ENOMEM */
void ahead_close(struct pager_source *s);
/* Call when a batch of the layer begins, before pool_visit: forgets the source's predictions. */
void ahead_end(struct pager_source *s, uint32_t layer);
/* Call after pool_visit, once the batch's experts are marked as wanted: learns which forecasts came
 * true. */
void ahead_compare(struct pager_source *s, const struct pager_batch *b);

/* ---- pager_heat.c ---- */

/* The hottest absent expert that fits into free room, now with a slot; NULL: none. */
struct pager_entry *heat_warm_next(struct pager *p);
void heat_warm_stop(struct pager_source *s);

#endif
