/* The worker pool. See workers.h.
 *
 * workers.lock guards the queue of jobs; it is not held while a job works, nor while it is posted.
 */
#include "fs/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Enough to keep an SSD's queue from running dry under readers of expert files. */
enum { WORKERS = 4 };

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct link queue;
	bool stopping;
	struct posts *posts;
	size_t count;
	pthread_t threads[WORKERS];
};

static void *work(void *arg)
{
	struct workers *w = arg;
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (list_empty(&w->queue) && !w->stopping)
			pthread_cond_wait(&w->wanted, &w->lock);
		if (list_empty(&w->queue))
			break;
		struct job *job = LINK_OWNER(w->queue.next, struct job, link);
		list_remove(&job->link);
		pthread_mutex_unlock(&w->lock);
		job->work(job);
		post_send(w->posts, &job->done);
		pthread_mutex_lock(&w->lock);
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
