/* See call.h.
 *
 * Interruption: libfuse calls the callback while it holds a lock inside the request. It may do so
 * even within fuse_req_interrupt_func, where a reply would free that lock while it is held. So the
 * callback only moves the call to a list, and the loop replies before it sleeps again. */
#include "fs/mount/call.h"
#include "cache/clock.h"

#include <errno.h>
#include <stdlib.h>

struct file_call *call_new(fuse_req_t req, struct mount *m, void (*serve)(struct file_call *c))
{
	struct file_call *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	list_init(&c->link);
	list_init(&c->deadline_link);
	c->req = req;
	c->mount = m;
	c->serve = serve;
	return c;
}

void call_free(struct file_call *c)
{
	list_remove(&c->link);
	list_remove(&c->deadline_link);
	free(c);
}

static void call_on_interrupt(fuse_req_t req, void *data)
{
	(void)req;
	struct file_call *c = data;
	list_remove(&c->link);
	list_remove(&c->deadline_link);
	list_append(&c->mount->interrupted, &c->link);
}

void call_wait(struct file_call *c, struct link *list, unsigned milliseconds)
{
	bool first = !c->waited;
	c->waited = true;
	list_append(list, &c->link);
	if (milliseconds) {
		/* Sorted by deadline. Searched from the end, since most waits are as long as the
		 * last one. */
		struct link *head = &c->mount->deadlines, *next = head;
		c->deadline = clock_ns() + milliseconds * 1000000ULL;
		while (next->prev != head &&
		       LINK_OWNER(next->prev, struct file_call, deadline_link)->deadline >
			       c->deadline)
			next = next->prev;
		list_append(next, &c->deadline_link); /* before `next` */
	}
	/* Last, because the interruption may have come already. */
	if (first)
		fuse_req_interrupt_func(c->req, call_on_interrupt, c);
}

void calls_wake(struct mount *m, struct link *list)
{
	list_move_all(&m->woken, list);
}

void calls_serve_woken(struct mount *m, unsigned most)
{
	while (most-- && !list_empty(&m->woken)) {
		struct file_call *c = LINK_OWNER(m->woken.next, struct file_call, link);
		list_remove(&c->link);
		list_remove(&c->deadline_link);
		c->serve(c);
	}
}

void calls_end_interrupted(struct mount *m)
{
	while (!list_empty(&m->interrupted)) {
		struct file_call *c = LINK_OWNER(m->interrupted.next, struct file_call, link);
		fuse_reply_err(c->req, EINTR);
		call_free(c);
	}
}

void calls_expire(struct mount *m)
{
	uint64_t t = list_empty(&m->deadlines) ? 0 : clock_ns();
	while (!list_empty(&m->deadlines)) {
		struct file_call *c =
			LINK_OWNER(m->deadlines.next, struct file_call, deadline_link);
		if (c->deadline > t)
			return;
		list_remove(&c->deadline_link);
		list_remove(&c->link);
		list_append(&m->woken, &c->link);
	}
}

int calls_timeout(const struct mount *m)
{
	if (!list_empty(&m->woken) || !list_empty(&m->polled) || !list_empty(&m->interrupted))
		return 0;
	if (list_empty(&m->deadlines))
		return -1;
	const struct file_call *c = LINK_OWNER(m->deadlines.next, struct file_call, deadline_link);
	uint64_t t = clock_ns();
	return c->deadline <= t ? 0 : (int)((c->deadline - t + 999999) / 1000000);
}
