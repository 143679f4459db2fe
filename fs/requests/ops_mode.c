/* Another mode, where the row has a use for that (experts' pins): a worker does it, since it may
 * wait for who reads or gives back experts just then. */
#include "fs/base/workers.h"
#include "fs/requests/ops.h"
#include "fs/tree/tree.h"

#include <errno.h>
#include <stdlib.h>

struct mode_change {
	struct job job;
	fuse_req_t req;
	struct node node;
	mode_t mode, changed;
	int code;
	struct err why;
};

static void work(struct job *job)
{
	struct mode_change *c = LINK_OWNER(job, struct mode_change, job);
	c->code = c->node.row->hooks->chmod(&c->node, c->mode, c->changed, &c->why);
}

static void finish(struct job *job)
{
	struct mode_change *c = LINK_OWNER(job, struct mode_change, job);
	struct stat st;
	if (c->code) {
		node_failure(&c->node, &c->why);
		fuse_reply_err(c->req, -c->code);
	} else {
		node_took(&c->node);
		node_attr(&c->node, &st);
		fuse_reply_attr(c->req, &st, node_attr_seconds(&c->node));
	}
	free(c);
}

int mode_change(fuse_req_t req, const struct node *n, mode_t mode, mode_t changed)
{
	if (!n->row->hooks || !n->row->hooks->chmod || n->viewer != n->mount->uid)
		return -EPERM;
	struct mode_change *c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->job = (struct job){.work = work, .finish = finish};
	c->req = req;
	c->node = *n;
	c->mode = mode;
	c->changed = changed;
	workers_run(n->mount->workers, &c->job);
	return MODE_CHANGES;
}
