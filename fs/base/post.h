/* Posts: how other threads tell the loop that there is something to do. A post is a member of the
 * struct that it is about. Sending it twice before it runs is the same as sending it once. */
#ifndef MOEFS_FS_BASE_POST_H
#define MOEFS_FS_BASE_POST_H

#include "cache/err.h"
#include "fs/base/list.h"

#include <stdbool.h>

struct posts; /* the queue */

struct post {
	struct link link; /* posts.lock */
	bool queued;	  /* posts.lock */
	void (*run)(struct post *p);
};

int posts_create(struct posts **out, struct err *e);
void posts_destroy(struct posts *q);
/* A descriptor for poll(2), readable while posts wait. */
int posts_fd(const struct posts *q);

void post_init(struct post *p, void (*run)(struct post *p));
void post_send(struct posts *q, struct post *p); /* any thread; never blocks, never fails */
/* Takes p off the queue. The loop's, after p's senders have stopped. */
void post_cancel(struct posts *q, struct post *p);
void posts_run(struct posts *q); /* the loop's: runs the posts that are queued now */

#endif
