/* experts/trace: the experts that the router picks for each token, while the model computes
 * (model.h).
 *
 * Each open file is a reader of its own. It gets all picks after its open: of all sessions if the
 * mount's user opened it, otherwise of the opener's sessions. A read waits while a session of the
 * model works, and returns an end of file when none does.
 *
 * Lines are taken from the model in pieces, and reads copy from the last piece. The first read's
 * offset says where a piece is in the file. So a seek back over the bytes just read, as in bash's
 * `read`, reads them again. */
#include "fs/files/files.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

static int trace_open(struct handle *h, struct err *e)
{
	struct mounted *model = h->node.model;
	bool all = h->node.viewer == model->mount->uid;
	return model_trace_open(&h->trace, model->model, all ? NULL : &h->node.viewer,
				pollers_trace_changed, model, e);
}

static void trace_release(struct handle *h)
{
	if (h->trace)
		model_trace_close(h->trace);
}

/* Takes the next piece, which begins at this read's offset. */
static int trace_take_piece(struct handle *h, const struct file_call *c, char *buffer)
{
	size_t n = model_trace_read(h->trace, buffer, TRACE_READ_BYTES);
	text_cut(&h->shown, 0);
	text_add(&h->shown, buffer, n);
	h->first = h->cursor = c->offset;
	return h->shown.failed ? -1 : 0;
}

static bool trace_is_in_piece(const struct handle *h, uint64_t offset)
{
	return offset >= h->first && offset - h->first < h->shown.length;
}

static ssize_t trace_copy_piece(struct handle *h, const struct file_call *c, char *buffer)
{
	size_t from = (size_t)(c->offset - h->first), left = h->shown.length - from;
	size_t n = c->size < left ? c->size : left;
	memcpy(buffer, h->shown.data + from, n);
	h->cursor = c->offset + n;
	return (ssize_t)n;
}

/* A prompt that is being closed means that the model will work. */
static ssize_t trace_read(struct handle *h, struct file_call *c, char *buffer)
{
	struct mounted *model = h->node.model;
	if (trace_is_in_piece(h, c->offset))
		return trace_copy_piece(h, c, buffer);
	/* Check before taking the lines, so that no line is missed. */
	bool working = model_working(model->model);
	struct conversation *closing = conversations_closing(model);
	if (trace_take_piece(h, c, buffer)) {
		h->shown.failed = false;
		return -ENOMEM;
	}
	if (h->shown.length)
		return trace_copy_piece(h, c, buffer);
	if (working || (closing && c->nonblocking))
		return handle_read_waits(c, &model->for_trace);
	if (!closing || c->waited)
		return 0;
	call_wait(c, &closing->for_release, RELEASE_WAIT_MS);
	return CALL_KEPT;
}

static uint64_t trace_size(const struct node *n)
{
	(void)n;
	return 0;
}

static unsigned trace_poll(struct handle *h)
{
	const struct mounted *model = h->node.model;
	bool idle = !model_working(model->model) && !conversations_closing(model);
	bool ready = idle || trace_is_in_piece(h, h->cursor) || model_trace_has_lines(h->trace);
	return ready ? POLLIN | POLLRDNORM : 0;
}

static struct link *trace_pollers(const struct handle *h)
{
	return &h->node.model->trace_pollers;
}

const struct file_ops trace_ops = {
	.open = trace_open,
	.read = trace_read,
	.release = trace_release,
	.size = trace_size,
	.poll = trace_poll,
	.pollers = trace_pollers,
};
