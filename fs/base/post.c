/* See post.h. The queue is a list, a lock and an eventfd.
 *
 * posts.lock and workers.lock are the only locks in fs/, and no thread holds both. posts.lock is
 * held for a few instructions, never while a post runs, and no lock is taken under it, so the
 * engine may send from any of its threads. */
#include "fs/base/post.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct posts {
	pthread_mutex_t lock;
	struct link queue;
	int fd;
};

int posts_create(struct posts **out, struct err *e)
{
	struct posts *q = malloc(sizeof *q);
	if (!q)
		return err_set(e, ENOMEM, "no memory for the mount's queue");
	q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (q->fd < 0) {
		int code = errno;
		free(q);
		return err_sys(e, code, "cannot make an eventfd");
	}
	pthread_mutex_init(&q->lock, NULL);
	list_init(&q->queue);
	*out = q;
	return 0;
}

void posts_destroy(struct posts *q)
{
	if (!q)
		return;
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

int posts_fd(const struct posts *q)
{
	return q->fd;
}

void post_init(struct post *p, void (*run)(struct post *p))
{
	list_init(&p->link);
	p->queued = false;
	p->run = run;
}

void post_send(struct posts *q, struct post *p)
{
	pthread_mutex_lock(&q->lock);
	bool first = list_empty(&q->queue);
	if (!p->queued) {
		p->queued = true;
		list_append(&q->queue, &p->link);
	}
	/* Under the lock, so that the loop cannot free the queue in between. The write fails only
	 * if the counter is full, and then the loop is awake anyway. */
	if (first) {
		uint64_t one = 1;
		(void)!write(q->fd, &one, sizeof one);
	}
	pthread_mutex_unlock(&q->lock);
}

void post_cancel(struct posts *q, struct post *p)
{
	pthread_mutex_lock(&q->lock);
	list_remove(&p->link);
	p->queued = false;
	pthread_mutex_unlock(&q->lock);
}

/* Runs the posts that are queued now. Posts that they send wait for the next call, since the loop
 * has other work. */
void posts_run(struct posts *q)
{
	uint64_t count;
	(void)!read(q->fd, &count, sizeof count);

	struct link batch;
	list_init(&batch);
	pthread_mutex_lock(&q->lock);
	list_move_all(&batch, &q->queue);
	while (!list_empty(&batch)) {
		struct post *p = LINK_OWNER(batch.next, struct post, link);
		list_remove(&p->link);
		p->queued = false;
		pthread_mutex_unlock(&q->lock);
		p->run(p);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
}
