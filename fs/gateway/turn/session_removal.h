/* Removes the sessions of finished requests.
 *
 * A session is removed at once, except in a tree behind another file system. That file system
 * closes files some time after close(2) has returned, and sshfs before 3.7.6, with several
 * connections, crashes if the folder of such a file is gone by then. There a session is removed two
 * seconds later. */
#ifndef MOEFS_FS_GATEWAY_TURN_SESSION_REMOVAL_H
#define MOEFS_FS_GATEWAY_TURN_SESSION_REMOVAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct removal { /* from any thread */
	const char *tree;
	bool later;
	pthread_mutex_t lock;
	struct removed_session *waiting; /* the oldest first */
	size_t count, capacity;
};

void session_removal_begin(struct removal *r, const char *tree, bool later);
/* Removes a session that nothing uses any more. */
void session_remove(struct removal *r, const char *model, const char *session);
/* Call each second. */
void session_removal_tick(struct removal *r);
/* Waits until all sessions are removed. */
void session_removal_end(struct removal *r);

#endif
