/* Reads that wait in the kernel for what comes next, and who wakes them when it does not.
 *
 * While tokens come quickly, and until the first one has come, a stream waits in read(2) itself:
 * one round trip to the tree a token, where poll(2) takes three. A thread that waits so sees
 * neither its client's end nor the time. So whoever has waited for some time is interrupted, and
 * goes on with poll; and a thread of its own watches the clients, and interrupts the read of one
 * that hangs up, until that has ended: an interruption that comes before the read has begun is
 * lost. */
#ifndef MOEFS_FS_GATEWAY_TURN_BLOCKED_H
#define MOEFS_FS_GATEWAY_TURN_BLOCKED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct blocked_read {			 /* of one thread */
	struct blocked_read *next, **at; /* the list's */
	int client;			 /* its socket, which its owner sets */
	bool added;			 /* its own thread's */
	bool gone;			 /* with the list's lock: its client has hung up */
	pthread_t thread;
	atomic_uint_fast64_t since; /* nanoseconds; 0: it does not read */
};

struct blocked {
	pthread_mutex_t lock; /* of the list and what is in it */
	struct blocked_read *first;
	int clients, end; /* what is watched (epoll), and what ends that (an eventfd in it) */
	pthread_t watcher;
};

/* Takes SIGUSR1 for it. -errno: it cannot begin. */
int blocked_begin(struct blocked *b);
void blocked_end(struct blocked *b);
/* This thread will read; fine if it was added. */
void blocked_add(struct blocked *b, struct blocked_read *r);
void blocked_remove(struct blocked *b, struct blocked_read *r); /* fine if it was not added */
/* As read(2); EINTR: it was interrupted. */
ssize_t blocked_read(struct blocked_read *r, int fd, void *data, size_t size);
/* To be called now and then. */
void blocked_look(struct blocked *b);

#endif
