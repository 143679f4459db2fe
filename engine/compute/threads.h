/* The compute threads: a fixed pool that runs one parallel loop at a time.
 *
 * threads_run cuts [0, items) into pieces that the threads (the caller among them) take
 * dynamically. The caller waits for pieces, not for threads: a thread that lost its core before it
 * took a piece holds up nobody. Idle threads spin for at most 50 µs, since the next loop of the
 * same token follows at once, and then sleep.
 */
#ifndef MOEFS_ENGINE_COMPUTE_THREADS_H
#define MOEFS_ENGINE_COMPUTE_THREADS_H

#include "cache/err.h"

#include <stdint.h>

struct threads;

/* count >= 1, the callers' own thread included: count - 1 are started. */
int threads_create(struct threads **out, uint32_t count, struct err *e);
void threads_destroy(struct threads *t);
uint32_t threads_count(const struct threads *t);

/* Calls fn(ctx, begin, end) for disjoint ranges that cover [0, items), which begin at multiples of
 * `grain`. Any thread may call; callers wait for each other. fn must not call threads_run. */
typedef void threads_fn(void *ctx, uint32_t begin, uint32_t end);
void threads_run(struct threads *t, uint32_t items, uint32_t grain, threads_fn *fn, void *ctx);

#endif
