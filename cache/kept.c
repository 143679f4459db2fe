/* Asked for as many pieces of each size as a thread may keep, the allocator hands out first what it
 * has kept. Freed by a thread that ends, they are nobody's. See kept.h. */
#include "cache/kept.h"
#include "cache/clock.h"

#include <errno.h>
#include <stdlib.h>

/* glibc's, by default: 64 sizes from 24 bytes on in steps of 16, seven pieces of each. */
enum { SIZES = 64, LEAST = 24, STEP = 16, OF_A_SIZE = 7, PIECES = SIZES * OF_A_SIZE };

static void *free_all(void *ctx)
{
	void **piece = ctx;
	for (int i = 0; i < PIECES; i++)
		free(piece[i]);
	return NULL;
}

void kept_give_up(void)
{
	void *piece[PIECES];
	pthread_t thread;
	for (int i = 0; i < PIECES; i++)
		piece[i] = malloc(LEAST + i / OF_A_SIZE * STEP);
	if (pthread_create(&thread, NULL, free_all, piece))
		(void)free_all(piece);
	else
		(void)pthread_join(thread, NULL);
}

void kept_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(c, &clock);
	pthread_condattr_destroy(&clock);
}

void kept_wait(pthread_cond_t *c, pthread_mutex_t *lock, bool *keeps)
{
	if (!*keeps) {
		pthread_cond_wait(c, lock);
		return;
	}
	const uint64_t second = UINT64_C(1000000000), until = now_ns() + second / 2;
	const struct timespec t = {(time_t)(until / second), (long)(until % second)};
	if (pthread_cond_timedwait(c, lock, &t) != ETIMEDOUT)
		return;
	*keeps = false;
	pthread_mutex_unlock(lock);
	kept_give_up();
	pthread_mutex_lock(lock);
}
