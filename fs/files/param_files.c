/* A session's params. Those whose values take long to check, since a grammar is compiled for
 * them, are a worker's: the loop serves everybody else meanwhile. */
#include "fs/files/files.h"
#include "fs/files/late.h"
#include "fs/files/live.h"

#include <errno.h>
#include <stdlib.h>

void param_render(const struct node *n, struct text *out)
{
	char *value = session_param_get(n->conversation->session, n->item);
	if (value)
		text_format(out, "%s\n", value);
	else
		out->failed = true;
	free(value);
}

/* A format or a grammar that was taken may have mended what `error` says of the other one. */
static void forget_warning(const struct node *n)
{
	const struct conversation *c = n->conversation;
	const struct tree_row *row = c->refused_row;
	if (row && row->set == param_set && params_takes_long(c->refused_item))
		failure_accepted(n);
}

int param_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	return session_param_set(n->conversation->session, n->item, value, length, e);
}

/* ---- values: each write is one ---- */

static int take_value(struct late_write *w, struct err *e)
{
	return session_param_set(w->of, w->handle->node.item, w->bytes, w->size, e);
}

static void value_taken(struct late_write *w)
{
	struct node *n = &w->handle->node;
	if (!w->code)
		forget_warning(n);
	conversation_return(n->conversation);
}

static int value_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
		       uint64_t offset, struct err *e)
{
	if (!params_takes_long(h->node.item) || size > VALUE_MAX_BYTES) {
		int code = live_write(h, data, size, offset, e);
		if (!code)
			fuse_reply_write(req, size);
		return code;
	}
	const struct late_write w = {.req = req,
				     .handle = h,
				     .size = size,
				     .take = take_value,
				     .of = conversation_borrow(h->node.conversation),
				     .taken = value_taken};
	int code = late_write(&w, data, true, e);
	if (code)
		conversation_return(h->node.conversation);
	return code;
}

const struct file_ops value_param_ops = {
	.read = live_read,
	.write_later = value_write,
};

/* ---- texts: taken when they are closed ---- */

static int take_text(struct session *s, size_t which, const char *text, size_t length,
		     struct err *e)
{
	return session_param_set(s, which, text, length, e);
}

static bool text_flush_later(struct handle *h, bool by_opener, fuse_req_t req)
{
	return params_takes_long(h->node.item) && h->dirty && !h->poison && by_opener &&
	       late_text(h, req, h->node.item, take_text, forget_warning);
}

static void text_release(struct handle *h)
{
	if (!h->node.conversation->session || !text_flush_later(h, true, NULL))
		assembled_release(h);
}

const struct file_ops text_param_ops = {
	.read = live_read,
	.write = assembled_write,
	.truncate = assembled_truncate,
	.flush = assembled_flush,
	.flush_later = text_flush_later,
	.release = text_release,
};
