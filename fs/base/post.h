/* Posts: how other threads tell the loop that there is something to do. A post is embedded in what
 * it is about; sending it again before it has run is the same as sending it once. */
#ifndef MOEFS_FS_POST_H
#define MOEFS_FS_POST_H

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
/* Readable when posts wait: for poll. */
int posts_fd(const struct posts *q);

void post_init(struct post *p, void (*run)(struct post *p));
void post_send(struct posts *q, struct post *p); /* any thread; never blocks, never fails */
/* Loop only. Afterwards p is not queued; its sender must have been silenced before. */
void post_cancel(struct posts *q, struct post *p);
void posts_run(struct posts *q); /* loop only: runs what is queued */

#endif
