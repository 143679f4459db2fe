/* Files whose contents are made when they are looked at, and values that are set by writing.
 *
 * live_ops: what is read is rendered when offset 0 is read and kept for the rest of that pass, so
 * that a table never mixes two moments; each write is one value or one verb. assembled_ops: the
 * same for reading, but writes are put together and take effect as one text. */
#include "fs/files/live.h"
#include "fs/files/files.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* A file's own name: of those that a row stands for as well. Members of files are their items,
 * counted from 1. */
static void node_name(const struct node *n, char name[NAME_SIZE])
{
	if (!n->row->family || !n->row->family->next(n, n->item, name))
		(void)snprintf(name, NAME_SIZE, "%s", n->row->name);
}

ssize_t live_read(struct handle *h, struct file_call *c, char *buffer)
{
	if (c->offset == 0 || !h->looked) {
		h->looked = true;
		h->shown.failed = false;
		text_cut(&h->shown, 0);
		h->node.row->render(&h->node, &h->shown);
		if (h->shown.failed)
			return -ENOMEM;
	}
	return handle_read_slice(c, buffer, h->shown.data, h->shown.length);
}

static int set(struct handle *h, const char *value, size_t length, struct err *e)
{
	int code = h->node.row->set(&h->node, value, length, e);
	if (!code)
		failure_took(&h->node);
	return code;
}

int live_write(struct handle *h, const char *data, size_t size, uint64_t offset, struct err *e)
{
	(void)offset; /* a shell's >> is as good as its > */
	if (size > VALUE_MAX_BYTES) {
		char name[NAME_SIZE];
		node_name(&h->node, name);
		return err_set(e, EFBIG, "%s: a value of %zu bytes is too long", name, size);
	}
	return set(h, data, size, e);
}

const struct file_ops live_ops = {
	.read = live_read,
	.write = live_write,
};

static bool has_changed(const struct handle *h)
{
	struct text now = {0};
	h->node.row->render(&h->node, &now);
	bool same = !now.failed && now.length == h->shown.length &&
		    (!now.length || memcmp(now.data, h->shown.data, now.length) == 0);
	text_free(&now);
	return !same;
}

/* Readable until it was read, and then when a read from its beginning would give something else. */
static unsigned live_poll(struct handle *h)
{
	return !h->looked || has_changed(h) ? POLLIN | POLLRDNORM : 0;
}

const struct file_ops news_ops = {
	.read = live_read,
	.write = live_write,
	.poll = live_poll,
};

/* Where the file was not opened with truncation, writing changes what is there: `>>` appends. */
static int assembled_begin(struct handle *h, struct err *e)
{
	if (h->dirty || h->written.data || h->flags & O_TRUNC)
		return 0;
	h->node.row->render(&h->node, &h->written);
	if (h->written.failed)
		return err_set(e, ENOMEM, "no memory to write a text");
	return 0;
}

int assembled_write(struct handle *h, const char *data, size_t size, uint64_t offset, struct err *e)
{
	uint64_t most = h->node.row->most;
	char name[NAME_SIZE];
	node_name(&h->node, name);
	if (!most)
		most = model_max_prompt_bytes(h->node.model->model);
	int code = assembled_begin(h, e);
	if (!code && (offset > most || size > most - offset))
		code = err_set(e, EFBIG, "%s: more than %llu bytes are too long for it", name,
			       (unsigned long long)most);
	if (!code)
		code = unsubmitted_put(h, (size_t)offset, data, size, e);
	if (code)
		h->poison = -code;
	else
		h->dirty = true;
	return code;
}

int assembled_truncate(struct handle *h, uint64_t size, struct err *e)
{
	int code = assembled_begin(h, e);
	if (code)
		return code;
	if (size > h->written.length) {
		char name[NAME_SIZE];
		node_name(&h->node, name);
		return err_set(e, EINVAL, "%s: a text cannot be lengthened without writing it",
			       name);
	}
	text_cut(&h->written, (size_t)size);
	h->dirty = true;
	return 0;
}

int assembled_flush(struct handle *h, bool by_opener, struct err *e)
{
	handle_flushed(h, by_opener);
	if (!h->dirty || h->poison || !by_opener)
		return 0;
	h->dirty = false;
	const char *data = h->written.data ? h->written.data : "";
	return set(h, data, h->written.length, e);
}

void assembled_release(struct handle *h)
{
	struct err e = {0};
	if (h->node.conversation->session && assembled_flush(h, true, &e))
		failure_refused(&h->node, &e);
}

const struct file_ops assembled_ops = {
	.read = live_read,
	.write = assembled_write,
	.truncate = assembled_truncate,
	.flush = assembled_flush,
	.release = assembled_release,
};
