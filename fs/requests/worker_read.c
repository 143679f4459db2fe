/* Reads that a worker does, since they block (file_ops.read_in_worker). */
#include "fs/base/workers.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <stdlib.h>

struct worker_read {
	struct job job;
	struct call *call;
	char *buffer;
	int64_t result;
	struct err why;
};

static void work(struct job *job)
{
	struct worker_read *r = LINK_OWNER(job, struct worker_read, job);
	const struct handle *h = r->call->handle; /* is released after the answer */
	r->result = h->node.row->ops->read_in_worker(h, r->call->offset, r->buffer, r->call->size,
						     &r->why);
}

static void finish(struct job *job)
{
	struct worker_read *r = LINK_OWNER(job, struct worker_read, job);
	if (r->result < 0) {
		mount_failure(r->call->mount, &r->why);
		fuse_reply_err(r->call->req, (int)-r->result);
	} else
		fuse_reply_buf(r->call->req, r->buffer, (size_t)r->result);
	call_free(r->call);
	free(r->buffer);
	free(r);
}

ssize_t worker_read(struct handle *h, struct call *c)
{
	struct worker_read *r = calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->buffer = malloc(c->size + 1);
	if (!r->buffer) {
		free(r);
		return -ENOMEM;
	}
	r->call = c;
	r->job.work = work;
	r->job.finish = finish;
	workers_run(h->node.mount->workers, &r->job);
	return CALL_KEPT;
}
