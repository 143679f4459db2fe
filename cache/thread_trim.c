/* How to empty glibc's tcache: fill it and end a thread. A thread that asks for as many pieces of
 * each size as the cache can hold gets the cached pieces first. When none is left, the allocator
 * takes free pieces from the common heap, and caches more of them. So the thread frees all its
 * pieces, which fills its cache, and allocates the same number again: now the cache is empty, and
 * nothing was taken from the heap. Another thread frees the pieces and ends, and then they belong
 * to no cache. */
#include "cache/thread_trim.h"
#include "cache/clock.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's defaults: 64 sizes, from 24 bytes on in steps of 16, seven pieces of each. */
enum { SIZES = 64, LEAST = 24, STEP = 16, OF_A_SIZE = 7, PIECES = SIZES * OF_A_SIZE };

static void *trim_free_all(void *ctx)
{
	void **piece = ctx;
	for (int i = 0; i < PIECES; i++)
		free(piece[i]);
	return NULL;
}

static void trim_take_all(void *piece[PIECES])
{
	for (int i = 0; i < PIECES; i++)
		piece[i] = malloc(LEAST + i / OF_A_SIZE * STEP);
}

void thread_trim(void)
{
	void *piece[PIECES];
	pthread_t thread;
	trim_take_all(piece);
	(void)trim_free_all(piece);
	trim_take_all(piece);
	if (pthread_create(&thread, NULL, trim_free_all, piece))
		(void)trim_free_all(piece);
	else
		(void)pthread_join(thread, NULL);
}

/* The pages below the present frame belong to the deepest call so far. Two pages stay for the next
 * calls. */
static void trim_stack(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), stay = 2 * page;
	pthread_attr_t of;
	void *lowest;
	size_t size;
	if (pthread_getattr_np(pthread_self(), &of))
		return;
	pthread_attr_getstack(&of, &lowest, &size);
	pthread_attr_destroy(&of);
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & -(uintptr_t)page;
	if (here > (uintptr_t)lowest + stay)
		(void)madvise(lowest, here - stay - (uintptr_t)lowest, MADV_DONTNEED);
}

void thread_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(c, &clock);
	pthread_condattr_destroy(&clock);
}

void thread_wait_and_trim(pthread_cond_t *c, pthread_mutex_t *lock, bool *keeps)
{
	if (!*keeps) {
		pthread_cond_wait(c, lock);
		return;
	}
	const uint64_t second = UINT64_C(1000000000), until = clock_ns() + second / 2;
	const struct timespec t = {(time_t)(until / second), (long)(until % second)};
	if (pthread_cond_timedwait(c, lock, &t) != ETIMEDOUT)
		return;
	*keeps = false;
	pthread_mutex_unlock(lock);
	trim_stack();
	thread_trim();
	pthread_mutex_lock(lock);
}
