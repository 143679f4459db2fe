/* See blocked.h. */
#include "fs/gateway/turn/blocked.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { LONG_NS = 500 * 1000 * 1000, AGAIN_MS = 5, FOREVER = -1, EVENTS = 64 };

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

/* ---- clients that hang up ---- */

/* An event of a client that was removed meanwhile may meet another one's socket of the same number:
 * that read is interrupted once for nothing. */
static void note_gone(struct blocked *b, int client)
{
	pthread_mutex_lock(&b->lock);
	for (struct blocked_read *r = b->first; r; r = r->next)
		r->gone |= r->client == client;
	pthread_mutex_unlock(&b->lock);
}

/* Those that read on without their client. False: there are none left. */
static bool interrupt_gone(struct blocked *b)
{
	bool any = false;
	pthread_mutex_lock(&b->lock);
	for (struct blocked_read *r = b->first; r; r = r->next) {
		any |= r->gone;
		if (r->gone && atomic_load(&r->since))
			(void)pthread_kill(r->thread, SIGUSR1);
	}
	pthread_mutex_unlock(&b->lock);
	return any;
}

static void *watch(void *arg)
{
	struct blocked *b = arg;
	struct epoll_event events[EVENTS];
	for (;;) {
		int n = epoll_wait(b->clients, events, EVENTS,
				   interrupt_gone(b) ? AGAIN_MS : FOREVER);
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == b->end)
				return NULL;
			note_gone(b, events[i].data.fd);
		}
	}
}

/* ---- its life ---- */

int blocked_begin(struct blocked *b)
{
	struct sigaction action = {.sa_handler = nothing};
	struct epoll_event end = {.events = EPOLLIN};
	pthread_mutex_init(&b->lock, NULL);
	b->first = NULL;
	b->clients = epoll_create1(EPOLL_CLOEXEC);
	b->end = eventfd(0, EFD_CLOEXEC);
	end.data.fd = b->end;
	(void)sigaction(SIGUSR1, &action, NULL);
	if (b->clients < 0 || b->end < 0 || epoll_ctl(b->clients, EPOLL_CTL_ADD, b->end, &end))
		return -errno;
	return -pthread_create(&b->watcher, NULL, watch, b);
}

void blocked_end(struct blocked *b)
{
	(void)eventfd_write(b->end, 1);
	pthread_join(b->watcher, NULL);
	close(b->clients);
	close(b->end);
	pthread_mutex_destroy(&b->lock);
}

/* ---- reads ---- */

/* One that cannot be watched is looked at in time, as what takes long. */
void blocked_add(struct blocked *b, struct blocked_read *r)
{
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.fd = r->client};
	if (r->added)
		return;
	r->added = true;
	pthread_mutex_lock(&b->lock);
	r->thread = pthread_self();
	r->gone = false;
	atomic_store(&r->since, 0);
	r->next = b->first;
	r->at = &b->first;
	if (r->next)
		r->next->at = &r->next;
	b->first = r;
	pthread_mutex_unlock(&b->lock);
	(void)epoll_ctl(b->clients, EPOLL_CTL_ADD, r->client, &event);
}

void blocked_remove(struct blocked *b, struct blocked_read *r)
{
	if (!r->added)
		return;
	r->added = false;
	(void)epoll_ctl(b->clients, EPOLL_CTL_DEL, r->client, NULL);
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
