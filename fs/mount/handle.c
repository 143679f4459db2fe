/* Opening and releasing files, and what their kinds share. See handle.h. */
#include "fs/mount/handle.h"
#include "fs/mount/refusals.h"
#include "fs/mount/unsubmitted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Found out at open: by the time of a FLUSH or a RELEASE the thread that opened may be gone. Each
 * process of the line is a file of /proc to be read, and so no more is found out than is asked for
 * later: who refusals are told to, or whose FLUSH it is. */
static void know_opener(struct handle *h)
{
	const struct file_ops *ops = h->node.row->ops;
	if (!handle_writes(h))
		return;
	if (ops->refuses)
		process_line(h->caller, REFUSAL_LINE, &h->opener);
	else if (ops->flush)
		h->opener = (struct line){{{.id = process_of(h->caller)}}, h->caller > 0};
}

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
	h->opener_thread = caller;
	know_opener(h);
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
	if (!h->opener.count && h->caller > 0) /* a verb, whose writer waits for this write */
		process_line(h->caller, REFUSAL_LINE, &h->opener);
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
