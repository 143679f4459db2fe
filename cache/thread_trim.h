/* Returns memory that an idle thread holds to the system.
 *
 * The allocator keeps small freed pieces in a cache per thread (glibc's tcache), a few of each
 * size, for that thread's next allocations. Only the thread's end empties the cache, and each piece
 * keeps its page from the system: with a dozen threads these are megabytes, which grow slowly. A
 * thread's stack also stays as deep as it ever was: 200 KiB each.
 */
#ifndef MOEFS_CACHE_THREAD_TRIM_H
#define MOEFS_CACHE_THREAD_TRIM_H

#include <pthread.h>
#include <stdbool.h>

/* Empties the calling thread's cache into the common heap. Starts a thread and waits for its end;
 * without memory for one nothing changes. */
void thread_trim(void);
/* Initialises a condition whose deadlines are on the clock of clock.h. */
void thread_cond_init(pthread_cond_t *c);
/* pthread_cond_wait on such a condition. *keeps: the thread has worked since it was last trimmed.
 * After half a second of waiting (a mount counts as idle later) the thread's cache and unused stack
 * are returned with the lock released, *keeps becomes false, and the call returns. */
void thread_wait_and_trim(pthread_cond_t *c, pthread_mutex_t *lock, bool *keeps);

#endif
