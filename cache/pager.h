/* The pager: one bounded pool of experts in anonymous memory, shared by all mounted models.
 *
 * An expert comes into memory only through the pager: it is read from its store in one O_DIRECT
 * read, verified, arranged for the kernels by the source's callback, and kept until the replacement
 * policy evicts it. The pager knows bytes and (source, layer, expert) numbers, not tensors.
 *
 * The unit of work is a batch: the experts that one layer needs at one step. The caller takes
 * experts as they become ready, resident ones first, computes, and puts each back:
 *
 *     pager_begin(&batch, source, layer, experts, NULL, n, token, &err);
 *     while ((got = pager_next(&batch, ready, max, &err)) > 0)
 *             … compute with ready[i].data …, then pager_put(&batch, &ready[i]);
 *     pager_end(&batch);
 *
 * An expert that cannot be read is returned like the others, with the reason in place of data: what
 * does not need it continues.
 *
 * An expert is held from the moment pager_next returns it until pager_put. A batch waits for room
 * only while it holds nothing, so a budget of a single expert works, and batches of several models
 * cannot deadlock. Reads continue while the caller computes. An expert that two batches need is
 * read by one of them, and the other waits for it.
 *
 * An expert counts as used when its batch begins, hit or miss, in the order of the batch's array.
 * When it is put back does not matter, so what is evicted does not depend on how fast anything was
 * computed. An expert that an open batch has yet to take is evicted only when no batch could
 * continue otherwise.
 *
 * Memory: `budget` bounds the slots. Besides them the pager's threads have read buffers: together
 * as many records as were ever in flight, at most 8 in each of 2 to 8 threads (by pread one in each
 * of as many threads as ever read at once); those from 1 MiB on in whole huge pages.
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

/* Rearranges a verified record of a layer for the kernels. slot has its layer's slot_bytes,
 * page-aligned, with the bytes of an earlier occupant in it. Called from the pager's threads,
 * several at once, without locks. */
typedef void pager_arrange_fn(void *ctx, uint32_t layer, void *slot, const void *record);
/* The same for a record in pieces, which in order are the record. */
typedef void pager_arrange_pieces_fn(void *ctx, uint32_t layer, void *slot,
				     const struct store_pieces *record);
/* Makes a record that the store does not have yet. Called like pager_arrange_fn; may block. 0, or a
 * negative errno with a sentence. If *made is then not NULL, a call of pager_keep_fn with it
 * follows. */
typedef int pager_make_fn(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
			  struct err *e);
/* Writes that record into the store, when the batch that waits has the expert already. May block.
 */
typedef void pager_keep_fn(void *ctx, uint32_t layer, uint32_t expert, const void *record,
			   void *made);

struct pager_supply {			/* where a model's experts come from */
	const struct store *store;	/* the caller's; outlives the source */
	size_t slot_bytes;		/* of the layer where slots are largest */
	const size_t *layer_slot_bytes; /* [layers], copied; NULL: slot_bytes in all */
	uint64_t token_bytes;		/* of slots: what pins must leave room for; 0: nothing */
	const bool *pinned; /* [layers * experts], read by pager_add: those that are; NULL: none */
	pager_arrange_fn *arrange;
	pager_arrange_pieces_fn *arrange_pieces; /* in its place, of what is read; NULL: records are
						    in one piece */
	pager_make_fn *make;			 /* NULL: the store has them all */
	pager_keep_fn *keep;			 /* NULL: make leaves nothing to it */
	void *ctx;
};

enum pager_io {
	PAGER_IO_URING, /* where the kernel allows it, else pread */
	PAGER_IO_PREAD,
};
int pager_create(struct pager **out, uint64_t budget_bytes, struct err *e); /* PAGER_IO_URING */
int pager_create_with(struct pager **out, uint64_t budget_bytes, enum pager_io io, struct err *e);
void pager_destroy(struct pager *p); /* after all sources are gone */

/* ERANGE below the largest expert of any source. A lower budget evicts at once what is not held,
 * and the rest as it is put back; pinned experts last, and those that have room again are read
 * again. */
int pager_set_budget(struct pager *p, uint64_t bytes, struct err *e);

/* "scales" (the default, also "auto"), "lrfu", "lfu" or "lru", then "no-shield" and "no-prefetch"
 * if wanted, which switch off what predictions are used for; README.md here describes them. EINVAL
 * quotes the unknown word. A change of the policy forgets how experts were used. */
int pager_set_policy(struct pager *p, const char *words, struct err *e);
enum { PAGER_POLICY_TEXT = 64 };
void pager_policy(struct pager *p, char words[PAGER_POLICY_TEXT]);

/* Bytes of the budget that a slot of `bytes` takes: whole pages; 0 if that overflows. */
size_t pager_slot_bytes(size_t bytes);
/* Registers a model. A slot takes its bytes, rounded up to pages, of the budget. ERANGE if the
 * largest slot exceeds the budget; EINVAL for a slot of no bytes, or of more than the largest. */
int pager_add(struct pager *p, struct pager_source **out, const struct pager_supply *supply,
	      struct err *e);
/* Frees the source's slots, once its reads in flight have ended. No batch may be open. */
void pager_remove(struct pager_source *s);

struct pager_ready {
	uint32_t index;		 /* into the array given to pager_begin */
	const void *data;	 /* the slot, as arranged; NULL: it could not be read */
	const struct err *error; /* then why, until pager_end; else NULL */
};
struct pager_failure; /* of one expert */
struct pager_batch {
	struct pager_source *source;
	uint32_t layer, count;
	const uint32_t *experts; /* the caller's, distinct, for the life of the batch */
	/* Set by the caller after pager_begin, or NULL: while stop(stop_ctx) is true, pager_next
	 * fails with -ECANCELED. Called with the pager's lock: it may only read atomics. The thread
	 * that changes these calls pager_wake. */
	bool (*stop)(void *stop_ctx);
	void *stop_ctx;
	const uint8_t *missed; /* [count] not 0: it was no hit; until pager_end */
	/* The pager's: */
	uint8_t *state;	  /* [count] how far each has got */
	uint32_t held;	  /* returned, not yet put back */
	uint32_t reading; /* asked for and not yet there */
	uint32_t left;	  /* not yet returned */
	uint32_t failed;  /* of these: could not be read */
	struct pager_failure *failures;
};
/* Begins a batch of n distinct experts of a layer, and counts a hit (resident now) or a miss for
 * each; `token`, a number that grows, is recorded as its last use. credit[n]: how much each use
 * counts for the policy (1: a use by a token of an answer); NULL: 1 each. One thread uses a batch;
 * after a failure of pager_begin the batch is empty.
 */
int pager_begin(struct pager_batch *b, struct pager_source *s, uint32_t layer,
		const uint32_t *experts, const float *credit, uint32_t n, uint64_t token,
		struct err *e);
/* Returns how many experts were stored in ready (1 … max), those that could not be read among them;
 * 0 when every expert has been returned; or a negative errno: -ECANCELED: stopped. -EAGAIN: nothing
 * more can come before a held expert is put back. -ENOMEM: an expert has no slot. After any of
 * these the batch may continue, or end once what is held has been put back. An expert that could
 * not be read is tried again by the next batch. */
int pager_next(struct pager_batch *b, struct pager_ready *ready, uint32_t max, struct err *e);
void pager_put(struct pager_batch *b, const struct pager_ready *r); /* no effect without data */
/* The batch no longer wants an expert, by its index; no effect if it has been returned. */
void pager_forgo(struct pager_batch *b, uint32_t index);
void pager_end(struct pager_batch *b); /* nothing may be held; reads in flight continue */
/* Makes waiting batches check whether they are to stop. From any thread. */
void pager_wake(struct pager *p);

/* ---- what users want ---- */

struct pager_id {
	uint32_t layer, expert;
};

/* Each of these takes n distinct experts of a source, all of them or none, from any thread, and
 * returns at once: absent experts are read in the background, when nothing more urgent is.
 *
 * A pinned expert is kept in memory, and read again if it had to be evicted. It is evicted only
 * when nothing else can be, or while the budget in force has no room for all pins and `token_bytes`
 * beside them. -ENOSPC: there would be no room now. */
int pager_pin(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
void pager_unpin(struct pager_source *s, const struct pager_id *ids, size_t n);
/* Reads experts, which counts as a use for the policy; they are evicted like any other. -ENOSPC:
 * they do not fit beside the pinned experts. */
int pager_load(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
/* Evicts the experts that are in memory and that no batch needs now. -EBUSY: some are pinned. */
int pager_evict(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
/* The smallest budget with which all pins hold; 0: there are no pins. */
uint64_t pager_pins_need(struct pager *p);

/* ---- looking ahead ---- */

/* Layers that may be predicted at a time. */
enum { PAGER_LOOK_AHEAD = AHEAD_LAYERS };
/* Predicts the experts that the next batch of `layer` will want: they are evicted last, and those of
 * the absent ones that are worth it (ahead.h) are prefetched, in the order of the array, while no
 * demand is queued and the device has little to do. rank[n]: how sure each is, 0 the surest; NULL:
 * all are worth it, and nothing is learnt. Several layers are predicted by one call each, the layer
 * whose turn comes first before the others, and prefetched in that order; a second call for a layer
 * replaces the first. Any new batch of the source ends all its predictions.
 */
void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts,
		   const uint32_t *rank, uint32_t n);
/* False: a prediction would have no effect. */
bool pager_predicts(const struct pager_source *s);

/* Saves how hot each expert is in the file `heat` of the store's folder, for the next mount. */
int pager_keep_heat(struct pager_source *s, struct err *e);
/* Restores the saved heat, and reads the hottest experts into free room in the background, until a
 * batch begins. -ENOENT: none was saved, or under another policy; other codes: the file is damaged.
 * After a failure the source is as good as new. */
int pager_warm(struct pager_source *s, struct err *e);

/* ---- looking ---- */

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
	uint64_t budget, used, peak; /* of slots; used exceeds budget only while that shrinks */
	uint64_t hits, misses, evictions, bytes_read, experts_resident;
	uint64_t pinned;		    /* bytes that pinned experts take when they are there */
	uint64_t tokens;		    /* by the numbers that batches gave */
	uint64_t wait_ns;		    /* time that batches spent waiting for reads */
	uint64_t prefetched, prefetch_hits; /* reads for predictions, and those that came true */
	uint32_t waiting;		    /* batches that wait now */
	uint32_t depth;			    /* reads in flight at most, as found out */
	const char *io;			    /* "io_uring" or "pread" */
};
void pager_stats(const struct pager *p, struct pager_stats *out);
struct pager_ahead { /* of the experts that one rank named while they were absent */
	uint64_t forecast, came_true, read;
};
/* Of all sources, one layer ahead and two. */
void pager_ahead_stats(struct pager *p, struct pager_ahead out[AHEAD_LAYERS][AHEAD_RANKS]);
/* Frees the read buffers, several records for each thread that reads: for a mount that is idle. The
 * next reads allocate them again. */
void pager_rest(struct pager *p);
/* The same counters for one source; budget, peak, waiting and depth are the pool's. */
void pager_source_stats(const struct pager_source *s, struct pager_stats *out);
/* How many of `total` experts pager_warm has asked for; total 0: no warm start is under way. */
void pager_warming(const struct pager_source *s, uint32_t *done, uint32_t *total);

#endif
