/* Returns memory that an idle thread holds to the system.
 *
 * The allocator keeps small freed pieces in a cache per thread (glibc's tcache), a few of each
 * size, for that thread's next allocations. The cache is emptied only when the thread ends, and
 * each piece in it keeps its page from being returned: with a dozen threads these are megabytes,
 * and they grow slowly. A thread's stack also keeps the pages of the deepest call so far: 200 KiB
 * per thread.
 */
#ifndef MOEFS_CACHE_THREAD_TRIM_H
#define MOEFS_CACHE_THREAD_TRIM_H

#include <pthread.h>
#include <stdbool.h>

/* Empties the calling thread's cache into the common heap. Starts a thread and waits for its end.
 * If there is no memory for a thread, nothing changes. */
void thread_trim(void);
/* Initialises a condition variable with deadlines on the clock of clock.h. */
void thread_cond_init(pthread_cond_t *c);
/* pthread_cond_wait on such a condition variable. *keeps: the thread has worked since it was last
 * trimmed. After half a second of waiting (less than a mount needs to count as idle) the call
 * releases the lock, returns the thread's cache and unused stack to the system, sets *keeps to
 * false, and returns. */
void thread_wait_and_trim(pthread_cond_t *c, pthread_mutex_t *lock, bool *keeps);

#endif
