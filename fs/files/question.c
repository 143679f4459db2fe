/* Files that answer questions: ask, score, embed, embed.npy, tokenizer/encode and tokenizer/decode.
 *
 * Each open file is a question and its answer: write the question, read the answer through the same
 * open file. The first read submits. After the end of the answer, a write begins the next question;
 * before, a write is EBUSY. The first four are answered by a session of the open file's own, the
 * other two by a worker with the model's tokenizer, which needs no weights.
 *
 * Reads follow the handle's own cursor and not the file's offset, since writes move the offset,
 * too. But a seek back over the bytes just read reads them again, since bash's `read` returns in
 * this way bytes that it has read too far. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/values.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The differences between these files. */
struct question {
	bool session;				  /* an open file has its own session */
	uint64_t (*most)(const struct handle *h); /* most bytes of a question */
	const char *most_is;			  /* for a sentence: the source of the limit */
	/* Submits h->written, which is not empty: sets h->answer, which may still grow, or
	 * h->task. */
	int (*submit)(struct handle *h, struct err *e);
};

/* An answer that a worker makes. */
struct task {
	struct job job;
	struct model *model;
	struct text text; /* the question */
	struct answer *(*answer)(struct model *m, const char *text, size_t length,
				 const _Atomic bool *stop, struct err *e);
	struct err why;
	struct answer *made;
	struct handle *handle; /* for the loop; NULL: the file was closed in the meantime */
	_Atomic bool stop;     /* no reader waits for the answer any more */
};

static const char *question_name(const struct handle *h)
{
	return h->node.row->name;
}

/* ---- open, write ---- */

static int question_open(struct handle *h, struct err *e)
{
	struct conversation *c;
	if (!handle_reads(h))
		return err_set(
			e, EINVAL,
			"%s: open it for reading and writing, as in `exec 3<>%s`: the answer "
			"is read from the same open file",
			question_name(h), question_name(h));
	if (!handle_writes(h) || !h->node.row->question->session)
		return 0;
	int code =
		conversation_make_private(h->node.model, h->node.viewer, question_name(h), &c, e);
	if (code)
		return code;
	h->node.conversation = c;
	poller_moved(h);
	return 0;
}

static bool question_answering(const struct handle *h)
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
	const struct question *q = h->node.row->question;
	uint64_t most = q->most(h);
	if (question_answering(h))
		return err_set(e, EBUSY,
			       "%s: read the answer to its end before you ask the next question",
			       question_name(h));
	if (h->answer)
		unsubmitted_drop(h);
	answer_unref(h->answer);
	h->answer = NULL;
	h->failed = 0;
	int code;
	if (h->poison)
		code = err_set(e, h->poison,
			       "%s: an earlier write of this question failed; read to discard it, "
			       "then ask again",
			       question_name(h));
	else if (size > most || h->written.length > most - size)
		code = err_set(e, EFBIG,
			       "%s: the question is too long, and was not submitted; at most %llu "
			       "bytes are allowed (%s)",
			       question_name(h), (unsigned long long)most, q->most_is);
	else
		code = unsubmitted_add(h, data, size, e);
	h->poison = -code;
	return code;
}

/* ---- a worker's answers ---- */

static void question_task_work(struct job *job)
{
	struct task *t = LINK_OWNER(job, struct task, job);
	t->made = t->answer(t->model, t->text.data, t->text.length, &t->stop, &t->why);
	text_free(&t->text);
}

static void question_task_finish(struct job *job)
{
	struct task *t = LINK_OWNER(job, struct task, job);
	struct handle *h = t->handle;
	bool complete;
	if (h) {
		/* Until the next question, the answer counts as waiting text in place of the
		 * question. */
		h->failed = t->made ? unsubmitted_count(h, answer_size(t->made, &complete), &t->why)
				    : -ENOMEM;
		h->task = NULL;
		if (!h->failed)
			h->answer = answer_ref(t->made);
		if (t->why.code)
			failure_refused(&h->node, &t->why);
		calls_wake(h->node.mount, &h->readers);
		poller_tell(h);
	}
	answer_unref(t->made);
	free(t);
}

/* Passes the question to a worker. */
static int question_begin_task(struct handle *h,
			       struct answer *(*answer)(struct model *m, const char *text,
							size_t length, const _Atomic bool *stop,
							struct err *e),
			       struct err *e)
{
	struct task *t = calloc(1, sizeof *t);
	if (!t)
		return err_set(e, ENOMEM, "%s: no memory for an answer", question_name(h));
	t->job = (struct job){
		.slow = true, .work = question_task_work, .finish = question_task_finish};
	t->handle = h;
	t->model = h->node.model->model;
	t->answer = answer;
	t->text = h->written;
	h->written = (struct text){0};
	h->task = t;
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

static int question_submit(struct handle *h, struct err *e)
{
	int code;
	if (h->poison)
		code = err_set(e, EIO, "%s: the question was not submitted: %s", question_name(h),
			       h->poison == EFBIG    ? "it was too long"
			       : h->poison == ENOSPC ? "too much text waits that is not submitted"
						     : "out of memory");
	else
		code = h->node.row->question->submit(h, e);
	h->poison = 0;
	if (!h->task) /* a task has taken the text, which still counts */
		unsubmitted_drop(h);
	h->cursor = 0;
	return code;
}

static ssize_t question_wait(struct handle *h, struct file_call *c)
{
	return handle_read_waits(c, h->node.conversation ? &h->node.conversation->for_text
							 : &h->readers);
}

static ssize_t question_read_answer(struct handle *h, struct file_call *c, char *buffer)
{
	if (c->offset >= h->first && c->offset < h->next) {
		uint64_t back = h->next - c->offset;
		h->cursor -= back < h->cursor ? back : h->cursor;
	}
	bool complete = false;
	ssize_t n = answer_read(h->answer, h->cursor, buffer, c->size, &complete);
	if (n == 0 && !complete && c->size)
		return question_wait(h, c);
	if (n > 0) {
		h->cursor += (uint64_t)n;
		h->next = c->offset + (uint64_t)n;
	}
	return n;
}

static ssize_t question_read(struct handle *h, struct file_call *c, char *buffer)
{
	const struct text *t = &h->written;
	bool pending = h->poison || t->length > 1 || (t->length == 1 && t->data[0] != '\n');
	struct err e = {0};
	if (!handle_writes(h))
		return 0;
	if (!h->answer && !h->task && pending) {
		h->first = h->next = c->offset;
		if (question_submit(h, &e))
			return failure_refused(&h->node, &e);
		failure_accepted(&h->node);
	}
	if (h->task)
		return question_wait(h, c);
	if (h->failed) {
		int failed = h->failed;
		h->failed = 0;
		return failed;
	}
	return h->answer ? question_read_answer(h, c, buffer) : 0;
}

static uint64_t question_size(const struct node *n)
{
	(void)n;
	return 0;
}

/* Readable also with a pending question, since a read submits it. */
static unsigned question_poll(struct handle *h)
{
	bool complete;
	if (!question_answering(h))
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
	.truncate = value_text_cut,
	.release = question_release,
	.size = question_size,
	.poll = question_poll,
};

/* ---- the files ---- */

static uint64_t question_most_prompt(const struct handle *h)
{
	return model_max_prompt_bytes(h->node.model->model);
}

static int question_ask(struct handle *h, struct err *e)
{
	return session_submit(h->node.conversation->session, h->written.data, h->written.length,
			      &h->answer, e);
}

static int question_score(struct handle *h, struct err *e)
{
	return session_score(h->node.conversation->session, h->written.data, h->written.length,
			     &h->answer, e);
}

/* Encoding a text takes up to twenty times its length, if each byte is a token. */
static uint64_t question_most_tokenizer(const struct handle *h)
{
	enum { TEXT_MOST = 128 << 20 };
	(void)h;
	return TEXT_MOST;
}

static int question_embed(struct handle *h, struct err *e)
{
	return session_embed(h->node.conversation->session, h->written.data, h->written.length,
			     false, &h->answer, e);
}

static int question_embed_array(struct handle *h, struct err *e)
{
	return session_embed(h->node.conversation->session, h->written.data, h->written.length,
			     true, &h->answer, e);
}

static uint64_t question_most_array(const struct handle *h)
{
	uint64_t most = question_most_prompt(h);
	return most < SESSION_EMBED_BYTES ? SESSION_EMBED_BYTES : most;
}

static int question_encode(struct handle *h, struct err *e)
{
	return question_begin_task(h, model_encode, e);
}

static int question_decode(struct handle *h, struct err *e)
{
	return question_begin_task(h, model_decode, e);
}

const struct question ask_question = {
	.session = true,
	.most = question_most_prompt,
	.most_is = "info/max_prompt_bytes",
	.submit = question_ask,
};
const struct question score_question = {
	.session = true,
	.most = question_most_prompt,
	.most_is = "info/max_prompt_bytes",
	.submit = question_score,
};
const struct question embed_question = {
	.session = true,
	.most = question_most_prompt,
	.most_is = "info/max_prompt_bytes",
	.submit = question_embed,
};
const struct question embed_array_question = {
	.session = true,
	.most = question_most_array,
	.most_is = "16 MiB, or info/max_prompt_bytes if that is more",
	.submit = question_embed_array,
};
const struct question encode_question = {
	.most = question_most_tokenizer,
	.most_is = "the tokenizer's limit",
	.submit = question_encode,
};
const struct question decode_question = {
	.most = question_most_tokenizer,
	.most_is = "the tokenizer's limit",
	.submit = question_decode,
};
