/* Sessions that are removed from the tree: at once, but for a tree that lies across another file
 * system. That closes files when it comes to it, after close has returned, and sshfs before 3.7.6,
 * with several connections, crashes over a file whose folder is gone by then. So it is given time.
 */
#ifndef MOEFS_FS_GATEWAY_TURN_REMOVAL_H
#define MOEFS_FS_GATEWAY_TURN_REMOVAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct removal {
	const char *tree;
	bool later;
	pthread_mutex_t lock;
	struct removed *waiting; /* the oldest first */
	size_t count, capacity;
};

void removal_begin(struct removal *r, const char *tree, bool later);
/* Nobody uses it any more. */
void removal_put(struct removal *r, const char *model, const char *session);
/* To be called each second. */
void removal_look(struct removal *r);
/* Waits until all are removed. */
void removal_end(struct removal *r);

#endif
