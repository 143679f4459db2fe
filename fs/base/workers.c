/* The worker pool. See workers.h.
 *
 * workers.lock guards the queue of jobs; it is not held while a job works, nor while it is posted.
 */
#include "fs/base/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Enough to keep an SSD's queue from running dry under readers of expert files. */
enum { WORKERS = 4, SLOW_MOST = 2 };

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct link queue;
	size_t slow; /* slow jobs at work */
	bool stopping;
	struct posts *posts;
	size_t count;
	pthread_t threads[WORKERS];
};

/* The next that may be begun; NULL: none. */
static struct job *next_job(const struct workers *w)
{
	for (struct link *l = w->queue.next; l != &w->queue; l = l->next) {
		struct job *job = LINK_OWNER(l, struct job, link);
		if (!job->slow || w->slow < SLOW_MOST)
			return job;
	}
	return NULL;
}

/* Lock held, released meanwhile. A job is gone once it is posted. */
static void run_job(struct workers *w, struct job *job)
{
	bool slow = job->slow;
	list_remove(&job->link);
	w->slow += slow;
	pthread_mutex_unlock(&w->lock);
	job->work(job);
	post_send(w->posts, &job->done);
	pthread_mutex_lock(&w->lock);
	w->slow -= slow;
	if (slow) /* another may be begun, by whoever waits */
		pthread_cond_signal(&w->wanted);
}

static void *work(void *arg)
{
	struct workers *w = arg;
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job;
		while (!(job = next_job(w)) && !w->stopping)
			pthread_cond_wait(&w->wanted, &w->lock);
		if (!job)
			break;
		run_job(w, job);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int workers_create(struct workers **out, struct posts *posts, struct err *e)
{
	struct workers *w = calloc(1, sizeof *w);
	if (!w)
		return err_set(e, ENOMEM, "no memory for worker threads");
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wanted, NULL);
	list_init(&w->queue);
	w->posts = posts;
	for (; w->count < WORKERS; w->count++) {
		int code = pthread_create(&w->threads[w->count], NULL, work, w);
		if (code) {
			workers_destroy(w);
			return err_sys(e, code, "cannot start a worker thread");
		}
	}
	*out = w;
	return 0;
}

void workers_destroy(struct workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->wanted);
	pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < w->count; i++)
		pthread_join(w->threads[i], NULL);
	posts_run(w->posts);
	pthread_cond_destroy(&w->wanted);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void finish(struct post *p)
{
	struct job *job = LINK_OWNER(p, struct job, done);
	job->finish(job);
}

void workers_run(struct workers *w, struct job *job)
{
	list_init(&job->link);
	post_init(&job->done, finish);
	pthread_mutex_lock(&w->lock);
	list_append(&w->queue, &job->link);
	pthread_cond_signal(&w->wanted);
	pthread_mutex_unlock(&w->lock);
}
