/* What a thread keeps of what it has freed.
 *
 * The allocator leaves small pieces with the thread that freed them, a few of each size, for its
 * own next ones. Nothing but the thread's end takes them from it, and each keeps the page it lies
 * in from going back to the system: with a dozen threads that are megabytes, which come by and by.
 * So does its stack, which stays as deep as it ever was: 200 KiB of each.
 */
#ifndef MOEFS_CACHE_THREAD_TRIM_H
#define MOEFS_CACHE_THREAD_TRIM_H

#include <pthread.h>
#include <stdbool.h>

/* Puts what the calling thread keeps back with what is free for all. Starts a thread and waits for
 * its end; without memory for one nothing changes. */
void thread_trim(void);
/* Has a condition's deadlines go by the clock of clock.h. */
void thread_cond_init(pthread_cond_t *c);
/* pthread_cond_wait, on such a condition, for a thread that has worked if *keeps: when it has
 * waited for half a second, which is before a mount rests, it gives up what it keeps and what of
 * its stack is not in use, with the lock released, and returns; *keeps is false then. */
void thread_wait_and_trim(pthread_cond_t *c, pthread_mutex_t *lock, bool *keeps);

#endif
