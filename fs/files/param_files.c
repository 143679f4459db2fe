/* A session's params as files: their names, values and texts.
 *
 * A new param needs no change here: this file shows all params of params_name(), and
 * session_param_set() checks the values. engine/session/README.md, "Adding a session param", has
 * the steps. */
#include "fs/files/files.h"
#include "fs/files/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names: one row represents all values, another all texts ---- */

static uint64_t param_next(uint64_t after, bool texts, char name[NAME_SIZE])
{
	for (uint64_t i = after; i < params_count(); i++)
		if (params_is_text(i) == texts) {
			size_t length = strnlen(params_name(i), NAME_SIZE - 1);
			memcpy(name, params_name(i), length);
			name[length] = 0;
			return i + 1;
		}
	return 0;
}

static uint64_t param_find(const char *name, bool texts)
{
	for (size_t i = 0; i < params_count(); i++)
		if (params_is_text(i) == texts && strcmp(params_name(i), name) == 0)
			return i + 1;
	return 0;
}

static void param_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

static uint64_t param_next_value(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	(void)folder;
	return param_next(after, false, name);
}

static uint64_t param_find_value(const struct node *folder, const char *name)
{
	(void)folder;
	return param_find(name, false);
}

static uint64_t param_next_text(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	(void)folder;
	return param_next(after, true, name);
}

static uint64_t param_find_text(const struct node *folder, const char *name)
{
	(void)folder;
	return param_find(name, true);
}

const struct row_family value_param_family = {param_next_value, param_find_value, param_bind};
const struct row_family text_param_family = {param_next_text, param_find_text, param_bind};

void param_render(const struct node *n, struct text *out)
{
	char *value = session_param_get(n->conversation->session, n->item);
	if (value)
		text_format(out, "%s\n", value);
	else
		out->failed = true;
	free(value);
}

int param_set(const struct node *n, const char *value, size_t length, struct err *e)
{
	return session_param_set(n->conversation->session, n->item, value, length, e);
}

/* ---- format and grammar: a worker checks them, since compiling a grammar takes long ---- */

/* Accepting one of the two may have resolved the refusal of the other in `error`. */
static void param_forget_refusal(const struct node *n)
{
	const struct conversation *c = n->conversation;
	const struct tree_row *row = c->refused_row;
	if (row && row->set == param_set && params_takes_long(c->refused_item))
		failure_accepted(n);
}

static int param_value_take(struct deferred_write *w, struct err *e)
{
	return session_param_set(w->of, w->handle->node.item, w->bytes, w->size, e);
}

static void param_value_taken(struct deferred_write *w)
{
	struct node *n = &w->handle->node;
	if (!w->code)
		param_forget_refusal(n);
	conversation_return(n->conversation);
}

static int param_value_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
			     uint64_t offset, struct err *e)
{
	if (!params_takes_long(h->node.item) || size > VALUE_MAX_BYTES) {
		int code = value_write(h, data, size, offset, e);
		if (!code)
			fuse_reply_write(req, size);
		return code;
	}
	const struct deferred_write w = {.req = req,
					 .handle = h,
					 .size = size,
					 .take = param_value_take,
					 .of = conversation_borrow(h->node.conversation),
					 .taken = param_value_taken};
	int code = value_write_deferred(&w, data, true, e);
	if (code)
		conversation_return(h->node.conversation);
	return code;
}

const struct file_ops value_param_ops = {
	.read = value_read,
	.write_later = param_value_write,
};

static int param_text_take(struct session *s, size_t which, const char *text, size_t length,
			   struct err *e)
{
	return session_param_set(s, which, text, length, e);
}

static bool param_text_flush_later(struct handle *h, bool by_opener, fuse_req_t req)
{
	return params_takes_long(h->node.item) && h->dirty && !h->poison && by_opener &&
	       value_text_flush_deferred(h, req, h->node.item, param_text_take,
					 param_forget_refusal);
}

static void param_text_release(struct handle *h)
{
	if (!h->node.conversation->session || !param_text_flush_later(h, true, NULL))
		value_text_release(h);
}

const struct file_ops text_param_ops = {
	.read = value_read,
	.write = value_text_write,
	.truncate = value_text_truncate,
	.flush = value_text_flush,
	.flush_later = param_text_flush_later,
	.release = param_text_release,
};
