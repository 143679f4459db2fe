/* The compute threads: a fixed pool that runs one parallel loop at a time. Each model is a user of
 * the pool, and users take turns by time (loop_order.h).
 *
 * threads_run cuts [0, items) into pieces, and each thread, the caller among them, begins with a
 * part of its own: pieces that lie side by side. Who has no more takes those of others that nobody
 * has begun. The caller waits for pieces, not for threads: a thread that lost its core holds up
 * nobody but with the piece that it has begun. Idle threads spin for at most 50 µs, since the next loop of the same token
 * follows at once, and then sleep. Who has the next loop later, but soon, keeps them awake
 * (threads_stay_awake).
 *
 * Not here: how large a piece should be (product_grain).
 */
#ifndef MOEFS_ENGINE_COMPUTE_THREADS_H
#define MOEFS_ENGINE_COMPUTE_THREADS_H

#include "cache/err.h"

#include <stdint.h>

struct threads; /* a user of a pool */

/* A new pool and its first user. count >= 1 includes the calling thread: count - 1 threads are
 * started. */
int threads_create(struct threads **out, uint32_t count, struct err *e);
/* Another user of the pool; -ENOMEM in words. */
int threads_share(struct threads **out, struct threads *of, struct err *e);
/* Ends a user, and with the first one the pool: that one is the last. NULL is fine. */
void threads_destroy(struct threads *t);
/* What the user's time counts from now on, where others want the threads as well: with a weight of
 * 2 it gets half of what one with a weight of 1 gets. 1 at first. */
void threads_weigh(struct threads *t, uint32_t weight);
uint32_t threads_count(const struct threads *t);
/* Keeps idle threads from sleeping for the next `ns` nanoseconds, and wakes none that sleeps already. For a caller
 * that waits for something else, such as a GPU, between two loops: waking 15 threads takes as long as many loops
 * do. */
void threads_stay_awake(struct threads *t, uint64_t ns);
/* Tells the processor that this thread polls. */
void threads_relax(void);

typedef void threads_fn(void *ctx, uint32_t begin, uint32_t end);
/* Calls fn(ctx, begin, end) for disjoint ranges that cover [0, items). Each has `grain` items, the
 * last one perhaps fewer; if the pool has one thread, one call gets them all. Returns when all
 * calls have returned. Any thread may call; callers wait for each other. fn must not call
 * threads_run. */
void threads_run(struct threads *t, uint32_t items, uint32_t grain, threads_fn *fn, void *ctx);

/* Asks the scheduler for the longest time slice for the calling thread, a compute thread. All other
 * threads have shorter slices. From Linux 6.12 on, a thread that wakes up with a shorter slice runs
 * at once, in the place of one with a longer slice. So the loop thread of the tree and its readers
 * run at once, although compute threads occupy all processors while a model answers. The compute
 * thread's share of the processor stays the same. Older kernels ignore the request, and failures do
 * not matter. */
void threads_ask_long_slice(void);

#endif
