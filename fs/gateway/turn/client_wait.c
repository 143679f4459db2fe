/* See client_wait.h. */
#include "fs/gateway/turn/client_wait.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { LONG_NS = 500 * 1000 * 1000, AGAIN_MS = 5, FOREVER = -1, EVENTS = 64 };

uint64_t client_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void client_on_signal(int signal)
{
	(void)signal; /* it only has to interrupt read(2) */
}

/* ---- clients that disconnect ---- */

/* The client may have been removed meanwhile, and another client may have its socket's number: then
 * that client's read is interrupted once, which is harmless. */
static void client_note_gone(struct client_reads *b, int client)
{
	pthread_mutex_lock(&b->lock);
	for (struct client_read *r = b->first; r; r = r->next)
		r->gone |= r->client == client;
	pthread_mutex_unlock(&b->lock);
}

/* Interrupts threads in read(2) whose client has disconnected. False: there are none. */
static bool client_interrupt_gone(struct client_reads *b)
{
	bool any = false;
	pthread_mutex_lock(&b->lock);
	for (struct client_read *r = b->first; r; r = r->next) {
		any |= r->gone;
		if (r->gone && atomic_load(&r->since))
			(void)pthread_kill(r->thread, SIGUSR1);
	}
	pthread_mutex_unlock(&b->lock);
	return any;
}

static void *client_watch(void *arg)
{
	struct client_reads *b = arg;
	struct epoll_event events[EVENTS];
	for (;;) {
		int n = epoll_wait(b->clients, events, EVENTS,
				   client_interrupt_gone(b) ? AGAIN_MS : FOREVER);
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == b->end)
				return NULL;
			client_note_gone(b, events[i].data.fd);
		}
	}
}

/* ---- begin and end ---- */

int client_reads_begin(struct client_reads *b)
{
	struct sigaction action = {.sa_handler = client_on_signal};
	struct epoll_event end = {.events = EPOLLIN};
	pthread_mutex_init(&b->lock, NULL);
	b->first = NULL;
	b->clients = epoll_create1(EPOLL_CLOEXEC);
	b->end = eventfd(0, EFD_CLOEXEC);
	end.data.fd = b->end;
	(void)sigaction(SIGUSR1, &action, NULL);
	if (b->clients < 0 || b->end < 0 || epoll_ctl(b->clients, EPOLL_CTL_ADD, b->end, &end))
		return -errno;
	return -pthread_create(&b->watcher, NULL, client_watch, b);
}

void client_reads_end(struct client_reads *b)
{
	(void)eventfd_write(b->end, 1);
	pthread_join(b->watcher, NULL);
	close(b->clients);
	close(b->end);
	pthread_mutex_destroy(&b->lock);
}

/* ---- reads ---- */

/* If epoll cannot watch the socket, client_reads_tick still interrupts the read. */
void client_reads_add(struct client_reads *b, struct client_read *r)
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

void client_reads_remove(struct client_reads *b, struct client_read *r)
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

ssize_t client_read(struct client_read *r, int fd, void *data, size_t size)
{
	atomic_store(&r->since, client_clock());
	ssize_t n = read(fd, data, size);
	atomic_store(&r->since, 0);
	return n;
}

void client_reads_tick(struct client_reads *b)
{
	uint64_t t = client_clock();
	pthread_mutex_lock(&b->lock);
	for (struct client_read *r = b->first; r; r = r->next) {
		uint64_t since = atomic_load(&r->since);
		if (since && t > since + LONG_NS)
			(void)pthread_kill(r->thread, SIGUSR1);
	}
	pthread_mutex_unlock(&b->lock);
}

/* ---- polls ---- */

int client_wait(int client, struct pollfd *files, size_t count, int milliseconds)
{
	struct pollfd all[CLIENT_FILES + 1];
	int ready;
	if (count > CLIENT_FILES)
		return -EINVAL;
	memcpy(all, files, count * sizeof *files);
	all[count] = (struct pollfd){.fd = client, .events = POLLRDHUP};
	do
		ready = poll(all, count + 1, milliseconds);
	while (ready < 0 && errno == EINTR);
	if (ready < 0)
		return -errno;
	memcpy(files, all, count * sizeof *files);
	return all[count].revents ? -EPIPE : ready;
}
