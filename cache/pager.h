/* The pager: one bounded pool of experts in anonymous memory, shared by all mounted models.
 *
 * An expert comes into memory only through here: read from its store in one O_DIRECT read,
 * verified, arranged for the kernels by the source's callback, and kept until the replacement
 * policy evicts it. The pager knows bytes and (source, layer, expert) numbers, not tensors.
 *
 * The unit of work is a batch: the experts that one layer needs at one step. The caller takes them
 * as they become ready, resident ones first, computes, and gives each back:
 *
 *     pager_begin(&batch, source, layer, experts, n);
 *     while ((got = pager_next(&batch, ready, max, &err)) > 0)
 *             … compute with ready[i].data …, then pager_put(&batch, &ready[i]);
 *     pager_end(&batch);
 *
 * An expert is held from the moment pager_next returns it until pager_put. A batch waits for
 * room only while it holds nothing, so a budget of a single expert works and batches of several
 * models cannot deadlock. Reads go on while the caller computes. An expert that two batches need
 * is read by one of them, and the other waits for it.
 *
 * An expert counts as used when its batch begins, hit or miss, in the order of the batch's array.
 * When experts are given back does not count, so what is evicted does not depend on how fast
 * anything was computed. What an open batch has yet to take is evicted only when there is no other
 * way for a batch to go on at all.
 *
 * Memory: slots are what `budget` bounds. Besides them the pager's threads keep buffers for
 * reads: together as many records as were ever in flight, at most 8 in each of 2 to 8 threads (by
 * pread, one in each of as many threads as ever read at once), those from 1 MiB on in whole huge
 * pages.
 *
 * Threads: one mutex (pager.lock) guards the pool; it is never held during I/O or arranging, and no
 * other lock is taken under it. Everything that a looker sees is atomic: pager_inspect and
 * pager_stats take no lock.
 */
#ifndef MOEFS_CACHE_PAGER_H
#define MOEFS_CACHE_PAGER_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pager;
struct pager_source; /* one model's experts */

/* Rearranges a verified record of a layer for the kernels: slot has its layer's slot_bytes,
 * page-aligned, with what an earlier occupant left in it. Called from the pager's threads, several
 * at once, without locks. */
typedef void pager_arrange_fn(void *ctx, uint32_t layer, void *slot, const void *record);
/* The same of a record that lies in pieces, of which one after the other is the record. */
typedef void pager_arrange_pieces_fn(void *ctx, uint32_t layer, void *slot,
				     const struct store_pieces *record);
/* Makes a record that the store does not have yet. Called like the above; may block. 0, or a
 * negative errno in words. If *made is not NULL then, pager_keep_fn follows with it. */
typedef int pager_make_fn(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
			  struct err *e);
/* Puts the same record into the store, when who waits for it has it already. May block. */
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

/* ERANGE below the largest expert of any source. Shrinking evicts at once what is not held, and
 * the rest as it is put back; pinned ones last, and those that have room come back. */
int pager_set_budget(struct pager *p, uint64_t bytes, struct err *e);

/* "scales" (the default, also "auto"), "lrfu", "lfu" or "lru", then any of "no-shield" and
 * "no-prefetch", which switch off what predictions are used for; see README.md here. EINVAL names
 * what is not known. Changing the policy forgets how experts were used. */
int pager_set_policy(struct pager *p, const char *words, struct err *e);
enum { PAGER_POLICY_TEXT = 64 };
void pager_policy(struct pager *p, char words[PAGER_POLICY_TEXT]);

/* What a slot of so many bytes takes of the budget: whole pages; 0 if that overflows. */
size_t pager_slot_bytes(size_t bytes);
/* Registers a model. A slot takes its bytes rounded up to pages of the budget; ERANGE if that of
 * the largest is more than all of it; EINVAL: of no bytes, or of more than the largest. */
int pager_add(struct pager *p, struct pager_source **out, const struct pager_supply *supply,
	      struct err *e);
/* Frees its slots, when reads in flight have ended; no batch may be open. */
void pager_remove(struct pager_source *s);

struct pager_ready {
	uint32_t index;	  /* into the array given to pager_begin */
	const void *data; /* the slot, as arranged */
};
struct pager_batch {
	struct pager_source *source;
	uint32_t layer, count;
	const uint32_t *experts; /* the caller's, distinct, for the life of the batch */
	/* The caller's to set after pager_begin, or NULL: once it is true, pager_next fails with
	 * -ECANCELED. Who makes it true calls pager_wake. */
	const _Atomic bool *stop;
	const uint8_t *missed; /* [count] not 0: it was no hit; until pager_end */
	/* The pager's: */
	uint8_t *state;	  /* [count] how far each has got */
	uint32_t held;	  /* returned, not yet put back */
	uint32_t reading; /* asked for and not yet there */
	uint32_t left;	  /* not yet returned */
	int failed;	  /* why one of its reads failed; 0: none did */
	struct err error;
};
/* Counts a hit (resident now) or a miss for each expert, once per batch; `token`, a number
 * that grows, is recorded as its last use. credit[n]: how much each use counts for the policy, 1
 * for a use by a token of an answer; NULL: 1 each. A batch is used by one thread; after a failure
 * of pager_begin it is empty.
 */
int pager_begin(struct pager_batch *b, struct pager_source *s, uint32_t layer,
		const uint32_t *experts, const float *credit, uint32_t n, uint64_t token,
		struct err *e);
/* Returns how many were stored in ready (1 … max), 0 when every expert has been returned, or a
 * negative errno (-EIO names the record, -ECANCELED: stopped). -EAGAIN: nothing more can come
 * before something that is held is put back. After another error: put what is held, then pager_end;
 * a later batch tries again. */
int pager_next(struct pager_batch *b, struct pager_ready *ready, uint32_t max, struct err *e);
void pager_put(struct pager_batch *b, const struct pager_ready *r);
void pager_end(struct pager_batch *b); /* nothing may be held; reads in flight go on */
/* Has the batches that wait look whether they are to stop. From any thread. */
void pager_wake(struct pager *p);

/* ---- what users want ---- */

struct pager_id {
	uint32_t layer, expert;
};

/* Each of these takes n distinct experts of a source, all of them or none, from any thread, and
 * returns at once: what is absent is read behind, when there is nothing more urgent.
 *
 * A pinned expert is kept in memory, and read again if it had to go: it goes only when nothing else
 * can, or while the budget in force has no room for all pins and `token_bytes` beside them. -ENOSPC
 * if it would have none now. */
int pager_pin(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
void pager_unpin(struct pager_source *s, const struct pager_id *ids, size_t n);
/* Reads experts, which counts as a use for the policy; they stay as long as others do. -ENOSPC:
 * they do not fit beside what is pinned. */
int pager_load(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
/* Gives up those that are in memory and that no batch needs now. -EBUSY: some are pinned. */
int pager_evict(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);
/* The least budget by which all pins hold; 0: there are none. */
uint64_t pager_pins_need(struct pager *p);

/* ---- looking ahead ---- */

/* So many layers may be foreseen at a time. */
enum { PAGER_LOOK_AHEAD = 2 };
/* The experts that the next batch of `layer` will probably want: they are evicted last, and absent
 * ones are read while no read that a batch asked for is queued and the device has little to do.
 * Several layers are told one after the other, the one whose turn comes first before the others,
 * and are read in that order; a layer that is told again replaces what was told of it. All is
 * forgotten when any batch of the source begins.
 */
void pager_predict(struct pager_source *s, uint32_t layer, const uint32_t *experts, uint32_t n);
/* False: a prediction would change nothing. */
bool pager_predicts(const struct pager_source *s);

/* Keeps how hot each expert is in the file `heat` of the store's folder, for the next mount. */
int pager_keep_heat(struct pager_source *s, struct err *e);
/* Takes over what was kept, and reads the hottest experts into room that is free, in the
 * background, until a batch begins. -ENOENT: nothing was, or under another policy; other codes: it
 * is damaged. Either way the source is as good as new. */
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
/* Gives back what experts were read into on their way, several records for each thread that reads:
 * for when nobody has asked for a while. The next reads take it anew. */
void pager_rest(struct pager *p);
/* The same counters for one source; budget, peak, waiting and depth are the pool's. */
void pager_source_stats(const struct pager_source *s, struct pager_stats *out);
/* How many of so many experts pager_warm has asked for; total 0: it is not at work. */
void pager_warming(const struct pager_source *s, uint32_t *done, uint32_t *total);

#endif
