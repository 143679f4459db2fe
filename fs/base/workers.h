/* Workers: a few threads for what would make the loop wait (reads from the disk, long texts). A job
 * is run by one of them, and finished by the loop, through a post. */
#ifndef MOEFS_FS_WORKERS_H
#define MOEFS_FS_WORKERS_H

#include "cache/err.h"
#include "fs/base/post.h"

struct workers;

struct job {
	struct link link, order;       /* the workers' */
	struct workers *workers;       /* the workers' */
	bool waits;		       /* the workers' */
	struct post done;	       /* the workers' */
	bool slow;		       /* may take seconds: not all workers are given to these */
	bool keeps_nothing;	       /* its thread then need not give up what it keeps (thread_trim.h) */
	void (*work)(struct job *job); /* in a worker: may block, sees nothing of the mount */
	void (*finish)(struct job *job); /* in the loop: answers and frees */
};

int workers_create(struct workers **out, struct posts *posts, struct err *e);
/* Finishes what was begun or queued, in the calling thread where need be. NULL is fine. */
void workers_destroy(struct workers *w);
/* Both by the loop. */
void workers_run(struct workers *w, struct job *job);
/* The same once every job that was given before it is finished: none of these sees it begun. */
void workers_run_after(struct workers *w, struct job *job);

#endif
