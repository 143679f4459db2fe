/* What all files that are asked have in common. See question.h.
 *
 * Reads follow the handle's own cursor and not the file's offset, which writes move as well. One
 * thing is taken from the offset: a seek back over what was just read reads it again, because that
 * is how bash's `read` returns what it read too far. */
#include "fs/files/question.h"
#include "fs/files/files.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

static const struct question *kind(const struct handle *h)
{
	return h->node.row->question;
}

static const char *name(const struct handle *h)
{
	return h->node.row->name;
}

/* ---- open, write ---- */

int question_session(struct handle *h, struct err *e)
{
	struct conversation *c;
	int code = conversation_make_private(h->node.model, h->node.viewer, name(h), &c, e);
	if (code)
		return code;
	h->node.conversation = c;
	poller_moved(h);
	return 0;
}

static int question_open(struct handle *h, struct err *e)
{
	if (!handle_reads(h))
		return err_set(
			e, EINVAL,
			"%s: open it for reading and writing, as in `exec 3<>%s`; the answer "
			"is read from the same open file",
			name(h), name(h));
	return handle_writes(h) && kind(h)->open ? kind(h)->open(h, e) : 0;
}

static bool answering(const struct handle *h)
{
	bool complete = true;
	if (h->answer)
		answer_size(h->answer, &complete);
	return h->task || !complete;
}

static int question_write(struct handle *h, const char *data, size_t size, uint64_t offset,
			  struct err *e)
{
	(void)offset;
	uint64_t most = kind(h)->most(h);
	if (answering(h))
		return err_set(e, EBUSY, "%s: read the answer to its end before the next question",
			       name(h));
	if (h->answer)
		unsubmitted_drop(h);
	answer_unref(h->answer);
	h->answer = NULL;
	h->failed = 0;
	int code;
	if (h->poison)
		code = err_set(e, h->poison,
			       "%s: an earlier write of this question failed; read, and ask again",
			       name(h));
	else if (size > most || h->written.length > most - size)
		code = err_set(e, EFBIG, "%s: more than %llu bytes %s; nothing was submitted",
			       name(h), (unsigned long long)most, kind(h)->why);
	else
		code = unsubmitted_add(h, data, size, e);
	h->poison = -code;
	return code;
}

static int question_truncate(struct handle *h, uint64_t size, struct err *e)
{
	(void)e;
	if (size < h->written.length)
		text_cut(&h->written, (size_t)size);
	return 0;
}

/* ---- submit ---- */

static bool pending(const struct handle *h)
{
	const struct text *t = &h->written;
	return h->poison || t->length > 1 || (t->length == 1 && t->data[0] != '\n');
}

static int submit(struct handle *h, struct err *e)
{
	int code;
	if (h->poison)
		code = err_set(e, EIO, "%s: the question was not submitted: %s", name(h),
			       h->poison == EFBIG    ? "it was too long"
			       : h->poison == ENOSPC ? "too much text was written and not submitted"
						     : "out of memory");
	else
		code = kind(h)->submit(h, e);
	h->poison = 0;
	if (!h->task) /* which has its text, and what is counted for it */
		unsubmitted_drop(h);
	h->cursor = 0;
	return code;
}

/* ---- a worker's answers ---- */

static void task_work(struct job *job)
{
	struct task *t = LINK_OWNER(job, struct task, job);
	t->made = t->answer(t->model, t->text.data, t->text.length, &t->stop, &t->why);
	text_free(&t->text);
}

/* An answer takes its place in what is counted, until the next question. */
static void take_answer(struct handle *h, struct task *t)
{
	bool complete;
	int code = t->made ? 0 : -ENOMEM;
	if (!code)
		code = unsubmitted_count(h, answer_size(t->made, &complete), &t->why);
	h->task = NULL;
	h->failed = code;
	if (!code)
		h->answer = answer_ref(t->made);
	if (t->why.code)
		failure_refused(&h->node, &t->why);
	calls_wake(h->node.mount, &h->readers);
	poller_tell(h);
}

static void task_finish(struct job *job)
{
	struct task *t = LINK_OWNER(job, struct task, job);
	if (t->handle)
		take_answer(t->handle, t);
	answer_unref(t->made);
	free(t);
}

int question_work(struct handle *h,
		  struct answer *(*answer)(struct model *m, const char *text, size_t length,
					   const _Atomic bool *stop, struct err *e),
		  struct err *e)
{
	struct task *t = calloc(1, sizeof *t);
	if (!t)
		return err_set(e, ENOMEM, "%s: no memory for an answer", name(h));
	t->handle = h;
	t->model = h->node.model->model;
	t->answer = answer;
	t->text = h->written;
	h->written = (struct text){0};
	h->task = t;
	t->job.slow = true;
	t->job.work = task_work;
	t->job.finish = task_finish;
	workers_run(h->node.mount->workers, &t->job);
	return 0;
}

void question_give_up(struct handle *h)
{
	if (h->task)
		atomic_store(&h->task->stop, true);
	calls_wake(h->node.mount, &h->readers);
}

/* ---- read ---- */

static ssize_t wait_for_more(struct handle *h, struct file_call *c)
{
	return handle_read_waits(c, h->node.conversation ? &h->node.conversation->for_text
							 : &h->readers);
}

static ssize_t read_answer(struct handle *h, struct file_call *c, char *buffer)
{
	if (c->offset >= h->first && c->offset < h->next) {
		uint64_t back = h->next - c->offset;
		h->cursor -= back < h->cursor ? back : h->cursor;
	}
	bool complete = false;
	ssize_t n = answer_read(h->answer, h->cursor, buffer, c->size, &complete);
	if (n == 0 && !complete && c->size)
		return wait_for_more(h, c);
	if (n > 0) {
		h->cursor += (uint64_t)n;
		h->next = c->offset + (uint64_t)n;
	}
	return n;
}

static ssize_t question_read(struct handle *h, struct file_call *c, char *buffer)
{
	struct err e = {0};
	if (!handle_writes(h))
		return 0;
	if (!h->answer && !h->task && pending(h)) {
		h->first = h->next = c->offset;
		if (submit(h, &e))
			return failure_refused(&h->node, &e);
		failure_accepted(&h->node);
	}
	if (h->task)
		return wait_for_more(h, c);
	if (h->failed) {
		int failed = h->failed;
		h->failed = 0;
		return failed;
	}
	return h->answer ? read_answer(h, c, buffer) : 0;
}

static uint64_t question_size(const struct node *n)
{
	(void)n;
	return 0;
}

/* With a question pending it is readable: a read is what submits it. */
static unsigned question_poll(struct handle *h)
{
	bool complete;
	if (!answering(h))
		return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	return h->answer && answer_size(h->answer, &complete) > h->cursor ? POLLIN | POLLRDNORM : 0;
}

static void question_release(struct handle *h)
{
	if (h->node.conversation)
		conversation_end(h->node.conversation);
	if (!h->task)
		return;
	h->task->handle = NULL;
	atomic_store(&h->task->stop, true);
	h->task = NULL;
}

const struct file_ops question_ops = {
	.open = question_open,
	.read = question_read,
	.write = question_write,
	.truncate = question_truncate,
	.release = question_release,
	.size = question_size,
	.poll = question_poll,
};
