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

void poll_moved(struct handle *h)
{
	list_remove(&h->polling);
	struct link *pollers = pollers_of(h);
	if (h->poll && h->node.row->ops->poll && pollers)
		list_append(pollers, &h->polling);
}

/* The latest poll handle replaces the one before: they all lead to the same waiters. */
void poll_later(struct handle *h, struct fuse_pollhandle *poll)
{
	if (h->poll)
		fuse_pollhandle_destroy(h->poll);
	h->poll = poll;
	poll_moved(h);
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

void pollers_wake(struct link *pollers)
{
	struct link later;
	list_init(&later);
	while (!list_empty(pollers)) {
		struct handle *h = LINK_OWNER(pollers->next, struct handle, polling);
		list_remove(&h->polling);
		if (poll_ready(h))
			poll_tell(h);
		else
			list_append(&later, &h->polling);
	}
	list_move_all(pollers, &later);
}
