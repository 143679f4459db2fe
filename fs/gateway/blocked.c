/* See blocked.h. A signal that comes before the read has begun is lost; the next look sends
 * another. */
#include "fs/gateway/blocked.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { LONG_NS = 500 * 1000 * 1000 };

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nothing(int signal)
{
	(void)signal; /* that it came is enough */
}

void blocked_begin(struct blocked *b)
{
	struct sigaction action = {.sa_handler = nothing};
	pthread_mutex_init(&b->lock, NULL);
	b->first = NULL;
	(void)sigaction(SIGUSR1, &action, NULL);
}

void blocked_end(struct blocked *b)
{
	pthread_mutex_destroy(&b->lock);
}

void blocked_add(struct blocked *b, struct blocked_read *r)
{
	if (r->added)
		return;
	r->added = true;
	pthread_mutex_lock(&b->lock);
	r->thread = pthread_self();
	atomic_store(&r->since, 0);
	r->next = b->first;
	r->at = &b->first;
	if (r->next)
		r->next->at = &r->next;
	b->first = r;
	pthread_mutex_unlock(&b->lock);
}

void blocked_remove(struct blocked *b, struct blocked_read *r)
{
	if (!r->added)
		return;
	r->added = false;
	pthread_mutex_lock(&b->lock);
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	pthread_mutex_unlock(&b->lock);
}

ssize_t blocked_read(struct blocked_read *r, int fd, void *data, size_t size)
{
	atomic_store(&r->since, now());
	ssize_t n = read(fd, data, size);
	atomic_store(&r->since, 0);
	return n;
}

void blocked_look(struct blocked *b)
{
	uint64_t t = now();
	pthread_mutex_lock(&b->lock);
	for (struct blocked_read *r = b->first; r; r = r->next) {
		uint64_t since = atomic_load(&r->since);
		if (since && t > since + LONG_NS)
			(void)pthread_kill(r->thread, SIGUSR1);
	}
	pthread_mutex_unlock(&b->lock);
}
