/* See handle.h. */
#include "fs/mount/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening and releasing ---- */

int handle_open(struct handle **out, const struct node *n, int flags, pid_t caller, struct err *e)
{
	const struct file_ops *ops = n->row->ops;
	struct handle *h = calloc(1, sizeof *h);
	if (!h)
		return err_set(e, ENOMEM, "no memory to open a file");
	h->node = *n;
	h->flags = flags;
	h->caller = caller;
	list_init(&h->polling);
	list_init(&h->readers);
	h->opener_thread = caller;
	/* Now, since the opening thread may have ended at FLUSH or RELEASE. Each process of a
	 * lineage is a file of /proc to read. So read only what is needed later: for telling a
	 * refusal to the right readers, or for recognising the opener's FLUSH. */
	if (handle_writes(h) && ops->refuses)
		proc_lineage(caller, REFUSAL_LINEAGE, &h->opener);
	else if (handle_writes(h) && ops->flush)
		h->opener = (struct lineage){{{.id = proc_of_thread(caller)}}, caller > 0};
	if (n->conversation)
		conversation_ref(n->conversation);
	list_append(&n->mount->handles, &h->all);
	int code = ops->open ? ops->open(h, e) : 0;
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

/* ---- writing ---- */

void handle_relayed(struct handle *h)
{
	enum effect effect = h->node.row->effect;
	bool at_release = effect == EFFECT_ASSEMBLED || effect == EFFECT_RELEASE;
	if (h->relayed || !at_release || !h->node.conversation || !proc_is_relay(&h->opener))
		return;
	h->relayed = true;
	h->node.conversation->relayed++;
}

void handle_relayed_no_more(struct handle *h)
{
	if (!h->relayed && !h->passed_on)
		return;
	h->node.conversation->relayed -= h->relayed;
	h->node.conversation->passed_on -= h->passed_on;
	h->relayed = h->passed_on = false;
	calls_wake(h->node.mount, &h->node.conversation->for_release);
}

void handle_flushed(struct handle *h, bool by_opener)
{
	h->flushed |= by_opener;
	if (!h->dirty || !h->flushed || by_opener)
		return;
	h->node.conversation->passed_on += !h->passed_on;
	h->passed_on = true;
}

void handle_began_turn(struct handle *h)
{
	h->node.conversation->error_told = false;
	if (!h->opener.count && h->caller > 0) /* a verb, whose writer waits for this write */
		proc_lineage(h->caller, REFUSAL_LINEAGE, &h->opener);
	refusals_accepted(h->node.conversation, &h->opener);
	failure_accepted(&h->node);
}

void handle_submitted(struct handle *h, int code, const struct err *e)
{
	if (!code) {
		handle_began_turn(h);
		return;
	}
	failure_refused(&h->node, e);
	refusals_add(&h->node, 0, &h->opener, e);
}

/* ---- reading ---- */

ssize_t handle_read_slice(const struct file_call *c, char *buffer, const void *data, size_t length)
{
	if (c->offset >= length)
		return 0;
	size_t left = length - (size_t)c->offset;
	size_t n = c->size < left ? c->size : left;
	memcpy(buffer, (const char *)data + c->offset, n);
	return (ssize_t)n;
}

ssize_t handle_read_waits(struct file_call *c, struct link *list)
{
	if (c->nonblocking)
		return -EAGAIN;
	call_wait(c, list, 0);
	return CALL_KEPT;
}
