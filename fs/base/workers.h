/* A few threads for what would make the loop wait: reads from the disk, long texts. A worker does a
 * job's work; the loop finishes the job, through a post. */
#ifndef MOEFS_FS_BASE_WORKERS_H
#define MOEFS_FS_BASE_WORKERS_H

#include "cache/err.h"
#include "fs/base/post.h"

struct workers;

struct job {
	struct link link, order; /* the workers' */
	struct workers *workers; /* the workers' */
	bool waits;		 /* the workers' */
	struct post done;	 /* the workers' */
	bool slow;		 /* may take seconds: some workers never take these */
	bool keeps_nothing;	 /* leaves no freed memory in its thread (cache/thread_trim.h) */
	void (*work)(struct job *job);	 /* in a worker: may block, sees nothing of the mount */
	void (*finish)(struct job *job); /* in the loop: answers and frees */
};

int workers_create(struct workers **out, struct posts *posts, struct err *e);
/* Finishes every job that began or is queued, in the calling thread if need be. NULL does nothing.
 */
void workers_destroy(struct workers *w);
/* Queues a job. The loop's, as the next. */
void workers_run(struct workers *w, struct job *job);
/* Queues a job that begins once every job before it is finished. */
void workers_run_after(struct workers *w, struct job *job);

#endif
