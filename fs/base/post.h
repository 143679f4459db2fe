/* Posts: how other threads tell the loop that there is work. A post is a member of the struct that
 * it concerns. Sending a post twice before it runs is the same as sending it once. */
#ifndef MOEFS_FS_BASE_POST_H
#define MOEFS_FS_BASE_POST_H

#include "cache/err.h"
#include "fs/base/list.h"

#include <stdbool.h>

struct posts; /* the queue */

struct post {
	struct link link; /* guarded by posts.lock */
	bool queued;	  /* guarded by posts.lock */
	void (*run)(struct post *p);
};

int posts_create(struct posts **out, struct err *e);
void posts_destroy(struct posts *q);
/* Returns a descriptor for poll(2), readable while posts wait. */
int posts_fd(const struct posts *q);

void post_init(struct post *p, void (*run)(struct post *p));
void post_send(struct posts *q, struct post *p); /* from any thread; never blocks, never fails */
/* Takes p off the queue. Only for the loop, after all senders of p have stopped. */
void post_cancel(struct posts *q, struct post *p);
void posts_run(struct posts *q); /* only for the loop: runs the posts that are queued now */

#endif
