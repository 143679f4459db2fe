/* ask.d/NAME and embed.d/NAME: a question, or a text to embed, by name, for shells that cannot open
 * a file for reading and writing.
 *
 * Opened for writing, the file is a prompt. Opened for reading, it is an output, and the open waits
 * for the prompt like an open of output. The name disappears when the answer has been read to its
 * end; processes that have the file open can continue with it. mount/asks.c keeps the names.
 */
#include "fs/files/files.h"
#include "fs/mount/handle.h"
#include "fs/mount/node.h"

#include <errno.h>
#include <string.h>

/* ---- names ---- */

static uint64_t ask_named(const struct conversation *c, char name[NAME_SIZE])
{
	if (!c)
		return 0;
	memcpy(name, c->name, NAME_SIZE);
	return c->id;
}

static uint64_t ask_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	return ask_named(asks_after(folder->model, false, (uint32_t)after), name);
}

static uint64_t ask_find(const struct node *folder, const char *name)
{
	const struct conversation *c = asks_by_name(folder->model, false, name);
	return c ? c->id : 0;
}

static uint64_t ask_embed_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	return ask_named(asks_after(folder->model, true, (uint32_t)after), name);
}

static uint64_t ask_embed_find(const struct node *folder, const char *name)
{
	const struct conversation *c = asks_by_name(folder->model, true, name);
	return c ? c->id : 0;
}

static void ask_bind(struct node *child, uint64_t member)
{
	child->conversation = conversations_by_id(child->model, (uint32_t)member);
}

const struct row_family ask_family = {ask_next, ask_find, ask_bind};
const struct row_family embed_family = {ask_embed_next, ask_embed_find, ask_bind};

/* ---- files ---- */

static int ask_d_open(struct handle *h, struct err *e)
{
	const struct conversation *c = h->node.conversation;
	if (!handle_writes(h))
		return output_ops.open(h, e);
	if (handle_reads(h))
		return err_set(e, EINVAL,
			       "%s: open the file for writing, close it, then open it for "
			       "reading; `%s` takes both through one open file",
			       c->embeds ? "embed.d" : "ask.d", c->embeds ? "embed" : "ask");
	if (!c->writer && !session_working(c->session))
		return 0;
	int code =
		err_set(e, EBUSY,
			"%s: the question is still being answered: read the answer to its end, "
			"or remove the file",
			c->embeds ? "embed.d" : "ask.d");
	refusals_add(&h->node, h->caller, NULL, e);
	return code;
}

static ssize_t ask_d_read(struct handle *h, struct file_call *c, char *buffer)
{
	ssize_t n = output_ops.read(h, c, buffer);
	if (n != CALL_KEPT && h->ended && !h->node.conversation->writer)
		asks_forget(h->node.conversation);
	return n;
}

static int ask_d_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		       struct err *e)
{
	return prompt_ops.write(h, data, size, offset, e);
}

static int ask_d_truncate(struct handle *h, uint64_t size, struct err *e)
{
	return prompt_ops.truncate(h, size, e);
}

static int ask_d_flush(struct handle *h, bool by_opener, struct err *e)
{
	return prompt_ops.flush(h, by_opener, e);
}

static void ask_d_release(struct handle *h)
{
	prompt_ops.release(h); /* does nothing if nothing was written */
}

static uint64_t ask_d_size(const struct node *n)
{
	return output_ops.size(n);
}

static unsigned ask_d_poll(struct handle *h)
{
	return output_ops.poll(h);
}

const struct file_ops ask_d_ops = {
	.refuses = true,
	.open = ask_d_open,
	.read = ask_d_read,
	.write = ask_d_write,
	.truncate = ask_d_truncate,
	.flush = ask_d_flush,
	.release = ask_d_release,
	.size = ask_d_size,
	.poll = ask_d_poll,
};
