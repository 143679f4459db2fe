/* The worker pool. See workers.h.
 *
 * workers.lock guards the queue of jobs; it is not held while a job works, nor while it is posted.
 */
#include "fs/base/workers.h"
#include "cache/thread_trim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Enough to keep an SSD's queue from running dry under readers of expert files. */
enum { WORKERS = 4, SLOW_MOST = 2 };

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct link queue;
	struct link given; /* jobs that are not finished, in their order; the loop's own */
	size_t slow;	   /* slow jobs at work */
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
	bool keeps = false;
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job;
		while (!(job = next_job(w)) && !w->stopping)
			thread_wait_and_trim(&w->wanted, &w->lock, &keeps);
		if (!job)
			break;
		keeps = !job->keeps_nothing;
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
	thread_cond_init(&w->wanted);
	list_init(&w->queue);
	list_init(&w->given);
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

/* With no thread left: what only the end of others has begun. */
static void finish_rest(struct workers *w)
{
	struct job *job;
	posts_run(w->posts);
	pthread_mutex_lock(&w->lock);
	while ((job = next_job(w))) {
		run_job(w, job);
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
	finish_rest(w);
	pthread_cond_destroy(&w->wanted);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void begin(struct job *job)
{
	struct workers *w = job->workers;
	job->waits = false;
	pthread_mutex_lock(&w->lock);
	list_append(&w->queue, &job->link);
	pthread_cond_signal(&w->wanted);
	pthread_mutex_unlock(&w->lock);
}

/* Those that waited for what stood before them. */
static void begin_first(struct workers *w)
{
	if (list_empty(&w->given))
		return;
	struct job *first = LINK_OWNER(w->given.next, struct job, order);
	if (first->waits)
		begin(first);
}

static void finish(struct post *p)
{
	struct job *job = LINK_OWNER(p, struct job, done);
	struct workers *w = job->workers;
	list_remove(&job->order);
	job->finish(job);
	begin_first(w);
}

static void give(struct workers *w, struct job *job, bool waits)
{
	list_init(&job->link);
	post_init(&job->done, finish);
	job->workers = w;
	job->waits = waits;
	list_append(&w->given, &job->order);
}

void workers_run(struct workers *w, struct job *job)
{
	give(w, job, false);
	begin(job);
}

void workers_run_after(struct workers *w, struct job *job)
{
	give(w, job, true);
	begin_first(w);
}
