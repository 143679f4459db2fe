/* The pager's inside: the pool of slots, and which expert has to go when room is needed.
 *
 * Only the pager's own files (cache/pager*.c) and its tests include this header. pager.lock guards
 * everything here, unless a comment says otherwise. Numbers for statistics are atomics, written
 * under the lock and read without it. Relaxed order is enough, since each number is read for
 * itself, and no number's meaning depends on another.
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

/* ABSENT: no slot. LOADING: a slot that a loader fills, or is about to. RESIDENT: it may be used.
 */
enum entry_state { ENTRY_ABSENT, ENTRY_LOADING, ENTRY_RESIDENT };

struct pager_entry { /* one expert of one source */
	struct pager_source *source;
	struct pool_region *region; /* while it has a slot */
	void *slot;
	enum entry_state state;
	struct pager_entry *next; /* in a queue of the loader */
	bool queued;		  /* in the queue of prefetches, without a slot */
	bool holds;		  /* its request keeps a thread until it is done (pager_loader.c) */
	bool prefetched;	  /* read because it was predicted, and not used since */
	bool shielded;		  /* predicted for its layer's next batch */
	bool asked;		  /* a user wants it in memory, and it is not yet (pager_pins.c) */
	struct pager_batch *batch; /* whose read it is, while LOADING; NULL: nobody's */
	uint32_t wanted;	   /* open batches that have yet to take it */
	_Atomic uint32_t holders;  /* batches that compute with it */
	_Atomic bool resident;
	_Atomic bool pinned; /* a user's: it goes only where nothing else can (enum need) */
	_Atomic uint64_t hits, misses, last_token, last_used;
};

struct pager_counters {
	_Atomic uint64_t tokens, used, hits, misses, evictions, bytes_read, resident, wait_ns;
	_Atomic uint64_t prefetched, prefetch_hits;
	_Atomic uint64_t pinned; /* bytes of the slots of what is pinned, be they there or not */
};

struct pager_guess { /* an expert that was absent when a rank of a forecast named it */
	struct pager_entry *entry;
	uint32_t distance, rank; /* as in ahead.h */
};

struct pager_source {
	struct pager *pager;
	struct pager_source *next;
	struct pager_supply supply;
	uint32_t layers, experts;
	size_t *slot_bytes;	     /* [layers], whole pages */
	size_t largest;		     /* of these */
	struct pager_entry *entries; /* [layers * experts] */
	uint32_t loading;	     /* entries that are LOADING */
	uint32_t flying;	     /* reads of pager.flying that are of this source */
	uint32_t held;		     /* those of these reads that keep a thread */
	uint32_t asked;		     /* entries with `asked` set */
	uint64_t all;		     /* bytes of the slots of all entries */
	struct pager_counters own;

	/* The policy's: how each expert was used, what that is worth, and the same of those that
	 * have a slot (INFINITY: none), so that the search for the lowest reads nothing else. */
	struct use_counts *uses;    /* [layers * experts] */
	double *value, *slot_value; /* [layers * experts] */
	uint32_t layer;		    /* of the batch that began last */
	double turns;		    /* pager.turns when it did */
	uint64_t token;		    /* the number that it gave */

	struct pager_entry **predicted; /* [PAGER_LOOK_AHEAD * experts] what is predicted now */
	uint32_t predicted_count;
	/* What was forecast in this pass through the layers, until the layer's batch shows whether
	 * that was right. [AHEAD_LAYERS * (AHEAD_LAYERS + 1) / 2 * experts] */
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
	pthread_cond_t changed; /* room, or an expert's state: whatever a batch waits for */
	struct pager_source *sources;
	struct pool_region *open, *full;	 /* regions with free slots, and without */
	struct pool_region *spare;		 /* for new ones (pager_pool.c) */
	struct pool_spares *spares;		 /* which they lie in */
	const struct pager_batch *first_in_line; /* waits for room; nobody else may take any */

	const struct policy *policy;
	_Atomic bool shield, prefetch; /* switches */
	uint64_t tick;		       /* uses of any expert */
	double turns;		       /* passes through all layers of a model, of any */
	uint32_t asked;		       /* entries with `asked` set, of all sources */
	bool pins_hold; /* the budget has room for what is pinned and for a token beside it */

	struct pager_ahead forecasts[AHEAD_LAYERS][AHEAD_RANKS]; /* of all sources */
	struct pager_queue demand, prefetches;
	struct depth_tuner depth;
	uint32_t flying;     /* reads handed to loaders and not yet finished */
	pthread_cond_t work; /* for workers */
	bool quit;
	struct loader *loaders; /* a list, which grows */
	uint32_t workers, held; /* workers, and those of them that have a request */
	uint32_t worker_share;	/* of one source; fixed at creation, as is what follows */
	int wake;		/* an eventfd, one count per request for the ring's threads */
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

/* What its slot takes. */
static inline size_t pager_entry_bytes(const struct pager_entry *x)
{
	return x->source->slot_bytes[pager_entry_layer(x)];
}

/* Asks for an entry without a slot to be read for a user, when nothing more urgent is; false: no
 * longer. */
static inline void pager_entry_ask(struct pager_entry *x, bool asked)
{
	if (x->asked == asked)
		return;
	x->asked = asked;
	x->source->asked += asked ? 1 : -1U;
	x->source->pager->asked += asked ? 1 : -1U;
}

/* ---- pager_pool.c ---- */

/* How urgently a slot is needed. Each need may also evict what the one before may. */
enum need {
	NEED_FREE,   /* room that is free */
	NEED_SPARE,  /* rather than what no batch wants and no prediction shields */
	NEED_ASKED,  /* rather than what is shielded, too */
	NEED_DEMAND, /* rather than what is pinned, while the budget has no room for the pins */
	NEED_WANTED, /* rather than what another open batch wants */
	NEED_MUST,   /* rather than what is pinned: there is no other way to continue */
};
/* Gives an absent entry a slot: 1; 0 if there is no room now; -ENOMEM if there is room below the
 * budget but no memory, and nothing to evict. */
int pool_take(struct pager *p, struct pager_entry *x, enum need need);
/* True if something is held or being read, so that there will be more to evict. */
bool pool_busy(const struct pager *p);
/* Takes the slot away from an entry that nobody holds. */
void pool_release(struct pager *p, struct pager_entry *x);
/* An entry's read has ended well. */
void pool_resident(struct pager *p, struct pager_entry *x);
void pool_hold(struct pager_entry *x);
/* Evicts, if the budget has shrunk meanwhile. */
void pool_give_back(struct pager *p, struct pager_entry *x);
/* Evicts until the budget holds, as far as what is held allows. */
void pool_shrink(struct pager *p);
/* Evicts a resident expert that nobody holds and no batch wants. */
void pool_evict(struct pager *p, struct pager_entry *x);
/* At the pager's end: no source is left. */
void pool_free(struct pager *p);
/* An occupant of the region has been pinned, or unpinned. */
void pool_count_pin(struct pool_region *r, bool pinned);

/* A batch of that layer begins, which uses n of its experts; credit[n], or NULL: 1 each. */
void pool_visit(struct pager *p, struct pager_source *s, uint32_t layer, const uint32_t *experts,
		const float *credit, uint32_t n);
/* An expert is used outside of a batch of its layer; no other expert fades. */
void pool_use(struct pager *p, struct pager_entry *x, float credit);
/* Sets what an expert is worth. */
void pool_value(struct pager_entry *x, double value);
/* Forgets all use counts: another policy counts differently. */
void pool_forget_uses(struct pager *p);

/* ---- pager_queue.c ---- */

/* Requests for experts: demand (a batch waits), prefetches (predicted for the next layers), and
 * what a user asked for, which is marked in its entry. The pager's lock is held in all of these
 * functions. */
/* queue_demand: queues an entry that has a slot, for a batch. queue_prefetch: queues one without a
 * slot, for when the device has little to do. */
void queue_demand(struct pager *p, struct pager_entry *x, struct pager_batch *batch);
void queue_prefetch(struct pager *p, struct pager_entry *x);
/* Wakes threads for this many new requests. */
void queue_wake(struct pager *p, uint32_t requests);
/* Removes prefetches that have not begun: one entry's, a layer's, or a source's. */
void queue_forget(struct pager *p, struct pager_entry *x);
void queue_forget_layer(struct pager *p, struct pager_source *s, uint32_t layer);
void queue_forget_source(struct pager *p, struct pager_source *s);

/* The first demand whose source may have another read in flight; worker: for a worker, else for a
 * thread with a ring. NULL: none. */
struct pager_entry *queue_next_demand(struct pager *p, bool worker);
/* An absent expert that a user asked for, with a slot; NULL: none. */
struct pager_entry *queue_next_asked(struct pager *p, bool worker);
/* The first prefetch that is still absent, with a spare slot; NULL: none. */
struct pager_entry *queue_next_prefetch(struct pager *p, bool worker);

/* Whether there may be requests for workers. */
bool queue_workers_serve(const struct pager *p);
/* Whether the store lacks this expert, and a source can make it. */
bool queue_must_be_made(const struct pager_entry *x);

/* ---- pager_loader.c ---- */

int loaders_start(struct pager *p, enum pager_io io, struct err *e);
void loaders_stop(struct pager *p); /* after all sources are gone */

/* ---- pager_pins.c ---- */

/* Pins or unpins an entry: the only way to change entry.pinned. */
void pins_set(struct pager *p, struct pager_entry *x, bool pinned);
/* To be called when the budget, a pin or a source has changed: decides again whether pins hold, and
 * if they do has the absent ones read. */
void pins_changed(struct pager *p);
/* Forgets what users wanted of a source. */
void pins_forget(struct pager_source *s);

/* ---- pager_batch.c ---- */

/* The read of one of the batch's experts has failed. */
void batch_note_failure(struct pager_batch *b, const struct pager_entry *x, const struct err *e);

/* ---- pager_ahead.c ---- */

int ahead_open(struct pager_source *s); /* -ENOMEM */
void ahead_close(struct pager_source *s);
/* A batch of that layer begins, before it is visited: forgets the source's predictions. */
void ahead_end(struct pager_source *s, uint32_t layer);
/* After that, when the batch's experts are marked as wanted: learns which forecasts came true. */
void ahead_compare(struct pager_source *s, const struct pager_batch *b);

/* ---- pager_heat.c ---- */

/* The hottest absent expert that free room is left for, with a slot; NULL: none. */
struct pager_entry *heat_warm_next(struct pager *p);
void heat_warm_stop(struct pager_source *s);

#endif
