/* See late.h. */
#include "fs/files/late.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void work(struct job *job)
{
	struct late_write *w = LINK_OWNER(job, struct late_write, job);
	w->code = w->take(w, &w->why);
}

static void finish(struct job *job)
{
	struct late_write *w = LINK_OWNER(job, struct late_write, job);
	w->handle->late--;
	if (w->code) {
		node_failure(&w->handle->node, &w->why);
		fuse_reply_err(w->req, -w->code);
	} else {
		node_took(&w->handle->node);
		fuse_reply_write(w->req, w->size);
	}
	free(w);
}

int late_write(const struct late_write *w, const char *bytes, bool slow, struct err *e)
{
	struct late_write *own = malloc(sizeof *own + w->size + 1);
	if (!own)
		return err_set(e, ENOMEM, "%s: no memory for what is written",
			       w->handle->node.row->name);
	*own = *w;
	own->job = (struct job){.slow = slow, .work = work, .finish = finish};
	own->code = 0;
	own->why = (struct err){0};
	memcpy(own->bytes, bytes, w->size);
	own->bytes[w->size] = 0;
	w->handle->late++;
	workers_run(w->handle->node.mount->workers, &own->job);
	return 0;
}
