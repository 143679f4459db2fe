/* Waiting for files while watching the client's socket.
 *
 * client_wait polls both. But until the first token, and while tokens come quickly, a stream waits
 * in read(2) itself (client_read): one round trip to the tree per token, where poll(2) takes three.
 * A thread in read(2) notices neither a disconnected client nor the time. So a read that takes long
 * is interrupted, and its thread continues with client_wait. A thread of its own watches the
 * clients, and interrupts the read of a client that disconnects. It repeats that until the read has
 * ended, since an interruption that comes before the read begins is lost. */
#ifndef MOEFS_FS_GATEWAY_TURN_CLIENT_WAIT_H
#define MOEFS_FS_GATEWAY_TURN_CLIENT_WAIT_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct client_read {			/* of one thread */
	struct client_read *next, **at; /* guarded by client_reads.lock */
	int client;			/* the client's socket; the owner sets it */
	bool added;			/* only its own thread uses this */
	bool gone;			/* guarded by the lock: the client has disconnected */
	pthread_t thread;
	atomic_uint_fast64_t since; /* nanoseconds; 0: the thread is not in read(2) */
};

struct client_reads {
	pthread_mutex_t lock; /* guards the list and its members */
	struct client_read *first;
	int clients, end; /* an epoll of the sockets, and an eventfd in it that ends the watcher */
	pthread_t watcher;
};

/* Uses SIGUSR1 for its interruptions. -errno. */
int client_reads_begin(struct client_reads *b);
void client_reads_end(struct client_reads *b);
/* Lets this thread use client_read. Adding twice, or removing without adding, is harmless. */
void client_reads_add(struct client_reads *b, struct client_read *r);
void client_reads_remove(struct client_reads *b, struct client_read *r);
/* Like read(2). EINTR: it took long, or the client has disconnected. */
ssize_t client_read(struct client_read *r, int fd, void *data, size_t size);
/* Call each second: interrupts reads that take long. */
void client_reads_tick(struct client_reads *b);

/* Monotonic nanoseconds with a resolution of some milliseconds (CLOCK_MONOTONIC_COARSE). */
uint64_t client_clock(void);

enum { CLIENT_FILES = 64 };

/* Waits until one of at most CLIENT_FILES files is ready (revents says which), or for some
 * milliseconds (-1: forever). Returns how many are ready; 0: the time is over; -EPIPE: the client
 * has disconnected; -errno. */
int client_wait(int client, struct pollfd *files, size_t count, int milliseconds);

#endif
