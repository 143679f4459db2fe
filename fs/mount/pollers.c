#include "fs/mount/pollers.h"
#include "fs/mount/handle.h"

#include <poll.h>

unsigned poll_ready(struct handle *h)
{
	if (handle_ended(h))
		return POLLIN | POLLERR;
	if (h->node.row->ops->poll)
		return h->node.row->ops->poll(h);
	return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

static struct link *pollers_of(const struct handle *h)
{
	if (h->node.row->ops->pollers)
		return h->node.row->ops->pollers(h);
	return h->node.conversation ? &h->node.conversation->pollers : NULL;
}

/* Waits for news from now on. */
static void enlist(struct handle *h)
{
	list_remove(&h->polling);
	struct link *pollers = pollers_of(h);
	if (h->poll && h->node.row->ops->poll && pollers)
		list_append(pollers, &h->polling);
}

/* It is looked at as well: there may have been news that it was not looked at for. */
void poll_moved(struct handle *h)
{
	list_remove(&h->polling);
	if (h->poll)
		list_append(&h->node.mount->polled, &h->polling);
}

/* The latest poll handle replaces the one before: they all lead to the same waiters. */
void poll_later(struct handle *h, struct fuse_pollhandle *poll)
{
	if (h->poll)
		fuse_pollhandle_destroy(h->poll);
	h->poll = poll;
	enlist(h);
}

void poll_tell(struct handle *h)
{
	list_remove(&h->polling);
	if (!h->poll)
		return;
	fuse_lowlevel_notify_poll(h->poll);
	fuse_pollhandle_destroy(h->poll);
	h->poll = NULL;
}

void pollers_wake(struct mount *m, struct link *pollers)
{
	list_move_all(&m->polled, pollers);
}

void pollers_serve_woken(struct mount *m, unsigned most)
{
	while (most-- && !list_empty(&m->polled)) {
		struct handle *h = LINK_OWNER(m->polled.next, struct handle, polling);
		if (poll_ready(h))
			poll_tell(h);
		else
			enlist(h);
	}
}
