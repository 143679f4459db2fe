/* Opening and releasing files, and what their kinds share. See handle.h. */
#include "fs/mount/handle.h"
#include "fs/mount/refusals.h"
#include "fs/mount/unsubmitted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int handle_open(struct handle **out, const struct node *n, int flags, pid_t caller, struct err *e)
{
	struct handle *h = calloc(1, sizeof *h);
	if (!h)
		return err_set(e, ENOMEM, "no memory to open a file");
	h->node = *n;
	h->flags = flags;
	h->caller = caller;
	list_init(&h->polling);
	list_init(&h->readers);
	/* Found out now: by the time of a FLUSH or a RELEASE the thread that opened may be gone. */
	if (handle_writes(h))
		process_line(caller, REFUSAL_LINE, &h->opener);
	if (n->conversation)
		conversation_ref(n->conversation);
	list_append(&n->mount->handles, &h->all);
	int code = n->row->ops->open ? n->row->ops->open(h, e) : 0;
	if (code) {
		handle_release(h);
		return code;
	}
	*out = h;
	return 0;
}

void handle_release(struct handle *h)
{
	if (h->node.row->ops->release)
		h->node.row->ops->release(h);
	handle_relayed_no_more(h);
	if (h->poll)
		fuse_pollhandle_destroy(h->poll);
	list_remove(&h->polling);
	list_remove(&h->all);
	answer_unref(h->answer);
	unsubmitted_drop(h);
	text_free(&h->shown);
	if (h->node.conversation)
		conversation_unref(h->node.conversation);
	free(h);
}

void handle_began_turn(struct handle *h)
{
	h->node.conversation->error_told = false;
	refusals_accepted(h->node.conversation, &h->opener);
	node_accepted(&h->node);
}

void handle_submitted(struct handle *h, int code, const struct err *e)
{
	if (!code) {
		handle_began_turn(h);
		return;
	}
	node_failure(&h->node, e);
	refusals_add(&h->node, 0, &h->opener, e);
}

ssize_t read_slice(const struct call *c, char *buffer, const void *data, size_t length)
{
	if (c->offset >= length)
		return 0;
	size_t left = length - (size_t)c->offset;
	size_t n = c->size < left ? c->size : left;
	memcpy(buffer, (const char *)data + c->offset, n);
	return (ssize_t)n;
}

ssize_t read_waits(struct call *c, struct link *list)
{
	if (c->nonblocking)
		return -EAGAIN;
	call_wait(c, list, 0);
	return CALL_KEPT;
}
