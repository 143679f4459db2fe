/* experts/trace: which experts each token passes, as the model computes (model.h).
 *
 * Each open file is a reader of its own, who has what follows its open: all of it, if he is the
 * mount's own user, and else his sessions'. He waits while anything works, and is at the end when
 * nothing does.
 *
 * Lines are taken in pieces, and what a read asks for is copied from the last piece. Where that
 * lies in the file is what the reads' offsets say, so that who seeks back over what he has just
 * read, as bash's `read` does, has it again. */
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

/* Takes the next piece, which begins where this read does. */
static int take_piece(struct handle *h, const struct file_call *c, char *buffer)
{
	size_t n = model_trace_read(h->trace, buffer, TRACE_READ_BYTES);
	text_cut(&h->shown, 0);
	text_add(&h->shown, buffer, n);
	h->first = h->cursor = c->offset;
	return h->shown.failed ? -1 : 0;
}

static bool is_in_piece(const struct handle *h, uint64_t offset)
{
	return offset >= h->first && offset - h->first < h->shown.length;
}

static ssize_t copy_piece(struct handle *h, const struct file_call *c, char *buffer)
{
	size_t from = (size_t)(c->offset - h->first), left = h->shown.length - from;
	size_t n = c->size < left ? c->size : left;
	memcpy(buffer, h->shown.data + from, n);
	h->cursor = c->offset + n;
	return (ssize_t)n;
}

/* A prompt that is closing is work to come. */
static ssize_t trace_read(struct handle *h, struct file_call *c, char *buffer)
{
	struct mounted *model = h->node.model;
	if (is_in_piece(h, c->offset))
		return copy_piece(h, c, buffer);
	/* Asked first: what comes after the last look at the lines is not missed. */
	bool working = model_working(model->model);
	struct conversation *closing = conversations_closing(model);
	if (take_piece(h, c, buffer)) {
		h->shown.failed = false;
		return -ENOMEM;
	}
	if (h->shown.length)
		return copy_piece(h, c, buffer);
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
	bool ready = idle || is_in_piece(h, h->cursor) || model_trace_has_lines(h->trace);
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
