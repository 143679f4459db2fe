/* See workers.h.
 *
 * workers.lock guards the queue of jobs. It is not held while a job works or is posted. */
#include "fs/base/workers.h"
#include "cache/thread_trim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Enough for readers of expert files to keep an SSD's queue filled. */
enum { WORKERS = 4, SLOW_MOST = 2 };

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct link queue;
	struct link given; /* unfinished jobs in order; only for the loop */
	size_t slow;	   /* slow jobs being worked on */
	bool stopping;
	struct posts *posts;
	size_t count;
	pthread_t threads[WORKERS];
};

/* The next job that may begin; NULL: none. */
static struct job *workers_next(const struct workers *w)
{
	for (struct link *l = w->queue.next; l != &w->queue; l = l->next) {
		struct job *job = LINK_OWNER(l, struct job, link);
		if (!job->slow || w->slow < SLOW_MOST)
			return job;
	}
	return NULL;
}

/* Call with the lock, which is released meanwhile. A job may be freed once it is posted. */
static void workers_work(struct workers *w, struct job *job)
{
	bool slow = job->slow;
	list_remove(&job->link);
	w->slow += slow;
	pthread_mutex_unlock(&w->lock);
	job->work(job);
	post_send(w->posts, &job->done);
	pthread_mutex_lock(&w->lock);
	w->slow -= slow;
	if (slow) /* a waiting worker may begin another slow job */
		pthread_cond_signal(&w->wanted);
}

static void *workers_thread(void *arg)
{
	struct workers *w = arg;
	bool keeps = false;
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job;
		while (!(job = workers_next(w)) && !w->stopping)
			thread_wait_and_trim(&w->wanted, &w->lock, &keeps);
		if (!job)
			break;
		keeps = !job->keeps_nothing;
		workers_work(w, job);
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
	thread_cond_init(&w->wanted);
	list_init(&w->queue);
	list_init(&w->given);
	w->posts = posts;
	for (; w->count < WORKERS; w->count++) {
		int code = pthread_create(&w->threads[w->count], NULL, workers_thread, w);
		if (code) {
			workers_destroy(w);
			return err_sys(e, code, "cannot start a worker thread");
		}
	}
	*out = w;
	return 0;
}

/* Finishes jobs after all threads have ended: jobs that could begin only after others finished. */
static void workers_finish_rest(struct workers *w)
{
	struct job *job;
	posts_run(w->posts);
	pthread_mutex_lock(&w->lock);
	while ((job = workers_next(w))) {
		workers_work(w, job);
		pthread_mutex_unlock(&w->lock);
		posts_run(w->posts);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
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
	workers_finish_rest(w);
	pthread_cond_destroy(&w->wanted);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void workers_begin(struct job *job)
{
	struct workers *w = job->workers;
	job->waits = false;
	pthread_mutex_lock(&w->lock);
	list_append(&w->queue, &job->link);
	pthread_cond_signal(&w->wanted);
	pthread_mutex_unlock(&w->lock);
}

/* Begins the first unfinished job if it waited for the jobs before it. */
static void workers_begin_first(struct workers *w)
{
	if (list_empty(&w->given))
		return;
	struct job *first = LINK_OWNER(w->given.next, struct job, order);
	if (first->waits)
		workers_begin(first);
}

static void workers_finish(struct post *p)
{
	struct job *job = LINK_OWNER(p, struct job, done);
	struct workers *w = job->workers;
	list_remove(&job->order);
	job->finish(job);
	workers_begin_first(w);
}

static void workers_give(struct workers *w, struct job *job, bool waits)
{
	list_init(&job->link);
	post_init(&job->done, workers_finish);
	job->workers = w;
	job->waits = waits;
	list_append(&w->given, &job->order);
}

void workers_run(struct workers *w, struct job *job)
{
	workers_give(w, job, false);
	workers_begin(job);
}

void workers_run_after(struct workers *w, struct job *job)
{
	workers_give(w, job, true);
	workers_begin_first(w);
}
