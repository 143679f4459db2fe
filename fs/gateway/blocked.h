/* Reads that wait in the kernel for what comes next, and who wakes them when it does not.
 *
 * While tokens come quickly a stream waits in read(2) itself: one round trip to the tree a token,
 * where poll(2) takes three. A thread that waits so sees neither its client's end nor the time, and
 * so whoever has waited for some time is interrupted, and goes on with poll. */
#ifndef MOEFS_FS_GATEWAY_BLOCKED_H
#define MOEFS_FS_GATEWAY_BLOCKED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct blocked_read {			 /* of one thread */
	struct blocked_read *next, **at; /* the list's */
	bool added;			 /* its own thread's, as what follows */
	pthread_t thread;
	atomic_uint_fast64_t since; /* nanoseconds; 0: it does not read */
};

struct blocked {
	pthread_mutex_t lock; /* of the list */
	struct blocked_read *first;
};

/* Takes SIGUSR1 for it. */
void blocked_begin(struct blocked *b);
void blocked_end(struct blocked *b);
/* This thread will read; fine if it was added. */
void blocked_add(struct blocked *b, struct blocked_read *r);
void blocked_remove(struct blocked *b, struct blocked_read *r); /* fine if it was not added */
/* As read(2); EINTR: it was interrupted. */
ssize_t blocked_read(struct blocked_read *r, int fd, void *data, size_t size);
/* To be called now and then. */
void blocked_look(struct blocked *b);

#endif
