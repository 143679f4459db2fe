/* The pager: one bounded pool of experts in anonymous memory, shared by all mounted models.
 *
 * An expert comes into memory only through the pager. The pager reads the expert from its store in
 * one O_DIRECT read, verifies it, has the source's callback arrange it for the kernels, and keeps
 * it until the replacement policy evicts it. The pager knows bytes and (source, layer, expert)
 * numbers, not tensors.
 *
 * The unit of work is a batch: the experts that one layer needs at one step. The caller takes
 * experts as they become ready, resident ones first, computes, and puts each back:
 *
 *     pager_begin(&batch, source, layer, experts, NULL, n, token, &err);
 *     while ((got = pager_next(&batch, ready, max, &err)) > 0)
 *             … compute with ready[i].data …, then pager_put(&batch, &ready[i]);
 *     pager_end(&batch);
 *
 * An expert that cannot be read is returned like the others, with an error in place of data. Work
 * that does not need this expert can continue.
 *
 * An expert is held from the moment pager_next returns it until pager_put. A batch waits for room
 * only while it holds nothing, so a budget of a single expert works, and batches of several models
 * cannot deadlock. Reads continue while the caller computes. An expert that two batches need is
 * read by one of them, and the other waits for it.
 *
 * An expert counts as used when its batch begins, hit or miss, in the order of the batch's array.
 * The time of pager_put does not matter, so eviction does not depend on how fast anything is
 * computed. An expert that an open batch has yet to take is evicted only when no batch could
 * continue otherwise.
 *
 * Memory: `budget` bounds the slots. In addition the pager's threads have read buffers: in total
 * one for each read that was ever in flight at the same time, at most 8 in each of 2 to 8 threads
 * (with pread: one in each thread that ever read at the same time as the others). Buffers of 1 MiB
 * and more are whole huge pages.
 *
 * Threads: one mutex (pager.lock) guards the pool. It is never held during I/O or arranging, and no
 * other lock is taken under it. pager_inspect and pager_stats read atomics and take no lock.
 */
#ifndef MOEFS_CACHE_PAGER_H
#define MOEFS_CACHE_PAGER_H

#include "cache/ahead.h"
#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pager;
struct pager_source; /* one model's experts */

/* Arranges a verified record of a layer for the kernels. slot has its layer's slot_bytes, is
 * page-aligned, and still contains the bytes of an earlier occupant. Called from the pager's
 * threads, several at once, without locks. */
typedef void pager_arrange_fn(void *ctx, uint32_t layer, void *slot, const void *record);
/* The same for a record in pieces; the pieces in order are the record. */
typedef void pager_arrange_pieces_fn(void *ctx, uint32_t layer, void *slot,
				     const struct store_pieces *record);
/* Makes a record that the store does not have yet. Called like pager_arrange_fn; may block. Returns
 * 0, or a negative errno with a sentence. If it sets *made, a call of pager_keep_fn with *made
 * follows. */
typedef int pager_make_fn(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
			  struct err *e);
/* Writes the made record into the store, after the waiting batch has received the expert. May
 * block.
 */
typedef void pager_keep_fn(void *ctx, uint32_t layer, uint32_t expert, const void *record,
			   void *made);

struct pager_supply {			/* where a model's experts come from */
	const struct store *store;	/* the caller's; outlives the source */
	size_t slot_bytes;		/* of the layer with the largest slots */
	const size_t *layer_slot_bytes; /* [layers], copied; NULL: slot_bytes in each */
	uint64_t token_bytes;		/* slots for one token, which pins must leave free; 0:
					 * none */
	const bool *pinned; /* [layers * experts], read by pager_add: pin these; NULL: none */
	pager_arrange_fn *arrange;
	pager_arrange_pieces_fn *arrange_pieces; /* used in place of arrange for records that are
						  * read; NULL: records are in one piece */
	pager_make_fn *make;			 /* NULL: the store has all records */
	pager_keep_fn *keep;			 /* NULL: make never sets *made */
	void *ctx;
};

enum pager_io {
	PAGER_IO_URING, /* where the kernel allows it, else pread */
	PAGER_IO_PREAD,
};
int pager_create(struct pager **out, uint64_t budget_bytes, struct err *e); /* PAGER_IO_URING */
int pager_create_with(struct pager **out, uint64_t budget_bytes, enum pager_io io, struct err *e);
void pager_destroy(struct pager *p); /* remove all sources first */

/* ERANGE below the largest expert of any source. A lower budget evicts at once all experts that are
 * not held, and each held one when it is put back. Pinned experts are evicted last; those for which
 * there is room again are read again. */
int pager_set_budget(struct pager *p, uint64_t bytes, struct err *e);

/* words: "scales" (the default, also "auto"), "lrfu", "lfu" or "lru"; then optionally "no-shield"
 * and "no-prefetch", which switch off two uses of predictions. README.md describes them. EINVAL
 * quotes the unknown word. Another policy starts without any use counts. */
int pager_set_policy(struct pager *p, const char *words, struct err *e);
enum { PAGER_POLICY_TEXT = 64 };
void pager_policy(struct pager *p, char words[PAGER_POLICY_TEXT]);

/* Bytes of the budget that a slot of `bytes` takes: whole pages. 0 if that overflows. */
size_t pager_slot_bytes(size_t bytes);
/* Registers a model. A slot takes its bytes, rounded up to pages, of the budget. ERANGE if the
 * largest slot exceeds the budget; EINVAL if a slot is empty or larger than the largest. */
int pager_add(struct pager *p, struct pager_source **out, const struct pager_supply *supply,
	      struct err *e);
/* Frees the source's slots once its reads in flight have ended. No batch may be open. */
void pager_remove(struct pager_source *s);

struct pager_ready {
	uint32_t index;		 /* index into the array given to pager_begin */
	const void *data;	 /* the slot, as arranged; NULL: the expert could not be read */
	const struct err *error; /* the reason if data is NULL, valid until pager_end; else NULL */
};
struct pager_failure; /* of one expert */
struct pager_batch {
	struct pager_source *source;
	uint32_t layer, count;
	const uint32_t *experts; /* the caller's, distinct, for the life of the batch */
	/* Set by the caller after pager_begin, or NULL. While stop(stop_ctx) is true, pager_next
	 * fails with -ECANCELED. stop is called with the pager's lock held, so it may only read
	 * atomics. The thread that changes them calls pager_wake afterwards. */
	bool (*stop)(void *stop_ctx);
	void *stop_ctx;
	const uint8_t *missed; /* [count] nonzero: the expert was a miss; valid until pager_end */
	/* For the pager only: */
	uint8_t *state;	  /* [count] enum progress of each expert */
	uint32_t held;	  /* experts returned and not yet put back */
	uint32_t reading; /* experts requested and not yet read */
	uint32_t left;	  /* experts not yet returned */
	uint32_t failed;  /* experts not yet returned that could not be read */
	struct pager_failure *failures;
};
/* Begins a batch of n distinct experts of a layer, and counts a hit (resident now) or a miss for
 * each. `token`, a number that grows, is recorded as the expert's last use. credit[n]: how much
 * each use counts for the policy (1: a use by a token of an answer); NULL: 1 each. Only one thread
 * may use a batch. After a failure of pager_begin the batch is empty.
 */
int pager_begin(struct pager_batch *b, struct pager_source *s, uint32_t layer,
		const uint32_t *experts, const float *credit, uint32_t n, uint64_t token,
		struct err *e);
/* Returns how many experts were stored in ready (1 … max), including those that could not be read;
 * 0 when every expert has been returned; or a negative errno. -ECANCELED: stopped. -EAGAIN: the
 * cache has no room until a held expert is put back. -ENOMEM: no memory for a slot. After any of
 * these the batch may continue, or end once all held experts are put back. The next batch tries
 * again to read an expert that could not be read. */
int pager_next(struct pager_batch *b, struct pager_ready *ready, uint32_t max, struct err *e);
void pager_put(struct pager_batch *b, const struct pager_ready *r); /* no effect without data */
/* Removes an expert, given by its index, from the batch. No effect if it has been returned. */
void pager_forgo(struct pager_batch *b, uint32_t index);
void pager_end(struct pager_batch *b); /* nothing may be held; reads in flight continue */
/* Makes waiting batches call `stop` again. From any thread. */
void pager_wake(struct pager *p);

/* ---- pins, loads and evictions: what users ask for ---- */

struct pager_id {
	uint32_t layer, expert;
};

/* Each of these takes n distinct experts of a source and affects all of them or none. Each may be
 * called from any thread and returns at once: absent experts are read in the background, when
 * nothing more urgent is queued.
 *
 * A pinned expert is kept in memory, and read again if it had to be evicted. It is evicted only
 * when nothing else can be, or while the present budget has no room for all pins and `token_bytes`
 * beside them. -ENOSPC: there would be no room now. */
int pager_pin(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
void pager_unpin(struct pager_source *s, const struct pager_id *ids, size_t n);
/* Reads experts. This counts as a use for the policy; the experts are evicted like any other.
 * -ENOSPC: they do not fit beside the pinned experts. */
int pager_load(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
/* Experts that were held elsewhere (a GPU) no longer are: reads those for which there is free room. This counts
 * as no use, and evicts nothing. */
void pager_take_back(struct pager_source *s, const struct pager_id *ids, size_t n);
/* Evicts experts that are in memory and that no batch needs now; skips the others. -EBUSY: some are
 * pinned, and none was evicted. */
int pager_evict(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
/* The smallest budget that has room for all pins; 0: there are no pins. */
uint64_t pager_pins_need(struct pager *p);

/* ---- looking ahead ---- */

/* Layers that may be predicted at a time. */
enum { PAGER_LOOK_AHEAD = AHEAD_LAYERS };
/* Predicts the experts that the next batch of `layer` will want. They are evicted last. Absent ones
 * that are worth a read (ahead.h) are prefetched in the order of the array, while no demand is
 * queued and the device has little to do. rank[n]: how sure each prediction is, 0 the surest; NULL:
 * all are worth a read, and the pager learns nothing from them. To predict several layers, call
 * this once for each, the next layer first; they are prefetched in that order. A second call for a
 * layer replaces the first. Any new batch of the source ends all its predictions.
 */
void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts,
		   const uint32_t *rank, uint32_t n);
/* False: a prediction would have no effect. */
bool pager_predicts(const struct pager_source *s);
/* Tells the pager how many of the source's experts its user holds in other memory (a GPU's). Nobody asks
 * the pager for those. Called by the thread that predicts. */
void pager_set_elsewhere(struct pager_source *s, uint64_t experts);
/* False: all of the source's experts are elsewhere, so no policy decides about any. */
bool pager_decides(const struct pager_source *s);
/* Counts uses of n experts of a layer that are held elsewhere, as pager_begin counts those of a batch.
 * visited: of a visit of the layer that pager_begin has counted. */
void pager_use_elsewhere(struct pager_source *s, uint32_t layer, const uint32_t *experts,
			 const float *credit, uint32_t n, bool visited);

/* How hot each expert is: heat[layers * experts], the long-term part of the policy's counts; zeros where it
 * has none. Any thread. */
void pager_heat(struct pager_source *s, float *heat);
/* Saves how hot each expert is for the next mount, in the file `heat` of the store's folder. */
int pager_keep_heat(struct pager_source *s, struct err *e);
/* Restores the saved heat, and reads the hottest experts into free room in the background until a
 * batch begins. -ENOENT: no heat was saved, or it is another policy's; other codes: the file is
 * damaged or cannot be read. After a failure the source is unchanged. */
int pager_warm(struct pager_source *s, struct err *e);
/* The warm start leaves out the n hottest experts: they go elsewhere. */
void pager_warm_without(struct pager_source *s, uint32_t n);

/* ---- inspecting and statistics ---- */

struct pager_expert {
	bool resident, pinned;
	uint32_t holders; /* batches computing with it now */
	uint64_t bytes;	  /* in memory; 0 if not resident */
	uint64_t hits, misses;
	uint64_t last_token; /* the `token` of its last use */
	uint64_t last_used;  /* CLOCK_REALTIME nanoseconds, 0 if never */
};
void pager_inspect(const struct pager_source *s, uint32_t layer, uint32_t expert,
		   struct pager_expert *out);

struct pager_stats {
	uint64_t budget, used, peak; /* bytes of slots; used exceeds budget only while shrinking */
	uint64_t hits, misses, evictions, bytes_read, experts_resident;
	uint64_t pinned;		    /* bytes of pinned experts' slots, resident or not */
	uint64_t tokens;		    /* computed from the `token` numbers of batches */
	uint64_t wait_ns;		    /* time that batches waited for reads or room */
	uint64_t prefetched, prefetch_hits; /* reads for predictions; those used since */
	uint32_t waiting;		    /* batches that wait now */
	uint32_t depth;			    /* the tuned number of reads in flight */
	const char *io;			    /* "io_uring" or "pread" */
};
void pager_stats(const struct pager *p, struct pager_stats *out);
struct pager_ahead { /* counts for one rank, of the experts that were absent when forecast */
	uint64_t forecast, came_true, read;
};
/* Counts of all sources, one layer ahead and two. */
void pager_ahead_stats(struct pager *p, struct pager_ahead out[AHEAD_LAYERS][AHEAD_RANKS]);
/* Frees the read buffers, several records for each thread that reads. Call this when the mount is
 * idle; the next reads allocate the buffers again. */
void pager_rest(struct pager *p);
/* pager_stats for one source; budget, peak, waiting and depth are the pool's. */
void pager_source_stats(const struct pager_source *s, struct pager_stats *out);
/* How many of `total` experts the warm start has asked for so far. total 0: no warm start is under
 * way. */
void pager_warming(const struct pager_source *s, uint32_t *done, uint32_t *total);

#endif
