/* A few threads for work that would make the loop wait: reads from the disk, long texts. A worker
 * does a job's work. Then a post makes the loop finish the job. */
#ifndef MOEFS_FS_BASE_WORKERS_H
#define MOEFS_FS_BASE_WORKERS_H

#include "cache/err.h"
#include "fs/base/post.h"

struct workers;

struct job {
	struct link link, order; /* for the workers only */
	struct workers *workers; /* for the workers only */
	bool waits;		 /* for the workers only */
	struct post done;	 /* for the workers only */
	bool slow;		 /* may take seconds; some workers never take slow jobs */
	bool keeps_nothing;	 /* leaves no freed memory in its thread (cache/thread_trim.h) */
	void (*work)(struct job *job);	 /* in a worker: may block, must not touch the mount */
	void (*finish)(struct job *job); /* in the loop: answers and frees */
};

int workers_create(struct workers **out, struct posts *posts, struct err *e);
/* Finishes every job that began or is queued, in the calling thread if necessary. NULL does
 * nothing.
 */
void workers_destroy(struct workers *w);
/* Queues a job. Only the loop calls this function and the next. */
void workers_run(struct workers *w, struct job *job);
/* Queues a job that begins once every job before it is finished. */
void workers_run_after(struct workers *w, struct job *job);

#endif
