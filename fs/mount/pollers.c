/* Processes that poll open files, and news of a trace. See handle.h. */
#include "fs/mount/handle.h"

#include <poll.h>

unsigned poller_ready(struct handle *h)
{
	if (handle_ended(h))
		return POLLIN | POLLERR;
	if (h->node.row->ops->poll)
		return h->node.row->ops->poll(h);
	return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

static struct link *pollers_list_of(const struct handle *h)
{
	if (h->node.row->ops->pollers)
		return h->node.row->ops->pollers(h);
	return h->node.conversation ? &h->node.conversation->pollers : NULL;
}

/* Puts the handle on the list of its source of news. */
static void poller_enlist(struct handle *h)
{
	list_remove(&h->polling);
	struct link *pollers = pollers_list_of(h);
	if (h->poll && h->node.row->ops->poll && pollers)
		list_append(pollers, &h->polling);
}

/* Through `polled`, so that the loop checks the file: it may have had news on the old list. */
void poller_moved(struct handle *h)
{
	list_remove(&h->polling);
	if (h->poll)
		list_append(&h->node.mount->polled, &h->polling);
}

/* The new poll handle replaces the old one: both notify the same waiters. */
void poller_add(struct handle *h, struct fuse_pollhandle *poll)
{
	if (h->poll)
		fuse_pollhandle_destroy(h->poll);
	h->poll = poll;
	poller_enlist(h);
}

void poller_tell(struct handle *h)
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
		if (poller_ready(h))
			poller_tell(h);
		else
			poller_enlist(h);
	}
}

/* ---- a model's trace ---- */

void pollers_trace_wake(struct mounted *model)
{
	calls_wake(model->mount, &model->for_trace);
	pollers_wake(model->mount, &model->trace_pollers);
}

static void pollers_trace_on_lines(struct post *p)
{
	pollers_trace_wake(LINK_OWNER(p, struct mounted, traced));
}

void pollers_trace_changed(void *ctx)
{
	struct mounted *model = ctx;
	post_send(model->mount->posts, &model->traced);
}

void pollers_trace_init(struct mounted *model)
{
	list_init(&model->for_trace);
	list_init(&model->trace_pollers);
	post_init(&model->traced, pollers_trace_on_lines);
}
