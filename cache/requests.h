/* Requests for experts, on their way from who wants them to the threads that read: what a batch
 * waits for (demand), what is predicted for the next layers (foreseen), and what a user asked for,
 * which is marked in its entry. The queues are the
 * pager's (pool.h), and its lock is held in all of this. */
#ifndef MOEFS_CACHE_REQUESTS_H
#define MOEFS_CACHE_REQUESTS_H

#include "cache/pool.h"

/* Queues an entry that has a slot, for a batch; or one without, for when the device is idle. */
void request_demand(struct pager *p, struct entry *x, struct pager_batch *batch);
void request_foresee(struct pager *p, struct entry *x);
/* Tells the threads of so many new requests. */
void request_wake(struct pager *p, uint32_t requests);
/* Takes what was foreseen and has not begun out of the queue: one entry, or all of a layer or a
 * source. */
void request_forget(struct pager *p, struct entry *x);
void request_forget_layer(struct pager *p, struct pager_source *s, uint32_t layer);
void request_forget_source(struct pager *p, struct pager_source *s);

/* The first demand whose source has a place left, for a worker or for a thread with a ring; NULL:
 * none. */
struct entry *request_next_demand(struct pager *p, bool worker);
/* One that a user asked for and that is still absent, with a slot; NULL: none. */
struct entry *request_next_asked(struct pager *p, bool worker);
/* The first that is foreseen and still absent, with a spare slot; NULL: none. */
struct entry *request_next_foreseen(struct pager *p, bool worker);

/* Whether there may be requests for workers. */
bool request_workers_serve(const struct pager *p);
/* Whether an expert's store does not have it yet, and there is a source to make it from. */
bool request_has_to_be_made(const struct entry *x);

#endif
