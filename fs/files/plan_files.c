/* sessions/NAME/plan: what a turn will cost, before it runs. Opened for reading and writing, it
 * takes a prompt and returns the plan of the turn that would answer it, private to the open file.
 * The model computes nothing. Opened for reading, it returns the plan of the conversation's next
 * turn, or a sentence why there is none. A worker renders and encodes. */
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/files/values.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct plan_reading {
	struct job job;
	struct file_call *call;
	struct node node;
	struct session *session; /* borrowed */
	struct text text;	 /* the prompt; empty: the conversation's next turn */
	struct session_plan plan;
	int code;
	struct err why;
};

static int plan_open(struct handle *h, struct err *e)
{
	if (handle_reads(h))
		return 0;
	return err_set(e, EINVAL,
		       "plan: open it for reading and writing, as in `exec 3<>plan`: the plan is "
		       "read from the same open file");
}

static int plan_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		      struct err *e)
{
	uint64_t most = model_max_prompt_bytes(h->node.model->model);
	(void)offset;
	if (size > most || h->written.length > most - size)
		return err_set(e, EFBIG,
			       "plan: the prompt is too long; at most %llu bytes are allowed "
			       "(info/max_prompt_bytes)",
			       (unsigned long long)most);
	return unsubmitted_add(h, data, size, e);
}

/* ---- the text ---- */

static void plan_put_time(struct text *out, const char *name, bool known, double seconds, double off)
{
	if (known)
		text_format(out, "%s %.4g %.2g\n", name, seconds, off);
	else
		text_format(out, "%s - -\n", name);
}

static void plan_print(struct text *out, const struct session_plan *p)
{
	text_format(out,
		    "prompt_tokens %" PRIu64 "\nkept_tokens %" PRIu64 "\nnew_tokens %" PRIu64
		    "\ncontext_left %" PRIu64 "\nexpert_bytes %" PRIu64 "\n",
		    p->prompt_tokens, p->kept_tokens, p->new_tokens, p->context_left,
		    p->expert_bytes);
	plan_put_time(out, "first_token_seconds", p->timed, p->first_token_seconds,
		      p->first_token_off);
	plan_put_time(out, "token_seconds", p->timed, p->token_seconds, p->token_off);
	text_format(out, "remembered %s\n", p->remembered ? "yes" : "no");
}

/* ---- a worker's part ---- */

static void plan_work(struct job *job)
{
	struct plan_reading *p = LINK_OWNER(job, struct plan_reading, job);
	size_t n = p->text.length;
	n -= n && p->text.data[n - 1] == '\n';
	p->code = session_plan(p->session, p->text.length ? p->text.data : NULL, n, &p->plan,
			       &p->why);
	text_free(&p->text);
}

/* A handle that only reads shows why there is no plan; one with a prompt gets an error. */
static ssize_t plan_answer(struct plan_reading *p, char *buffer)
{
	struct handle *h = p->call->handle;
	h->shown.failed = false;
	h->cursor = 0;
	text_cut(&h->shown, 0);
	if (p->code && handle_writes(h))
		return failure_refused(&p->node, &p->why);
	if (p->code)
		text_format(&h->shown, "%s\n", p->why.text);
	else
		plan_print(&h->shown, &p->plan);
	if (h->shown.failed)
		return -ENOMEM;
	size_t n = h->shown.length < p->call->size ? h->shown.length : p->call->size;
	memcpy(buffer, h->shown.data, n);
	h->cursor = n;
	return (ssize_t)n;
}

static void plan_finish(struct job *job)
{
	struct plan_reading *p = LINK_OWNER(job, struct plan_reading, job);
	struct file_call *c = p->call;
	char *buffer = c->mount->scratch;
	ssize_t n = p->node.conversation->session ? plan_answer(p, buffer) : -EIO;
	if (n < 0)
		fuse_reply_err(c->req, (int)-n);
	else
		fuse_reply_buf(c->req, buffer, (size_t)n);
	call_free(c);
	conversation_return(p->node.conversation);
	free(p);
}

static ssize_t plan_begin(struct handle *h, struct file_call *c)
{
	struct plan_reading *p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	p->job = (struct job){.slow = true, .work = plan_work, .finish = plan_finish};
	p->call = c;
	p->node = h->node;
	p->session = conversation_borrow(h->node.conversation);
	text_add(&p->text, h->written.data, h->written.length);
	unsubmitted_drop(h);
	workers_run(h->node.mount->workers, &p->job);
	return CALL_KEPT;
}

/* Reads follow the handle's own cursor, since writes move the offset, too. */
static ssize_t plan_read(struct handle *h, struct file_call *c, char *buffer)
{
	bool asked = h->written.length, reads_alone = !handle_writes(h);
	if (asked || (reads_alone && !c->offset))
		return plan_begin(h, c);
	size_t left = h->shown.data ? h->shown.length - (size_t)h->cursor : 0;
	size_t n = left < c->size ? left : c->size;
	if (n)
		memcpy(buffer, h->shown.data + h->cursor, n);
	h->cursor += n;
	return (ssize_t)n;
}

static uint64_t plan_size(const struct node *n)
{
	(void)n;
	return 0;
}

const struct file_ops plan_ops = {
	.open = plan_open,
	.read = plan_read,
	.write = plan_write,
	.truncate = value_text_cut,
	.size = plan_size,
};
