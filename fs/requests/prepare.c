/* Folders whose names have to be found out first, which takes long: whoever opens one, or asks for
 * a name in it, is answered when a worker has done that (struct row). */
#include "fs/base/workers.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct preparation {
	struct job job;
	struct prepared_request of; /* its name owned */
	struct node folder;
	int failed;
	struct err why;
};

static void work(struct job *job)
{
	struct preparation *p = LINK_OWNER(job, struct preparation, job);
	p->failed = p->folder.row->prepare(&p->folder, &p->why);
}

static void finish(struct job *job)
{
	struct preparation *p = LINK_OWNER(job, struct preparation, job);
	if (p->failed) {
		mount_failure(p->folder.mount, &p->why);
		fuse_reply_err(p->of.req, -p->failed);
	} else
		p->of.again(&p->of);
	free((char *)p->of.name);
	free(p);
}

bool request_waits(const struct node *folder, const struct prepared_request *of)
{
	if (!folder->row->prepare || folder->row->is_prepared(folder))
		return false;
	struct preparation *p = calloc(1, sizeof *p);
	char *name = strdup(of->name ? of->name : "");
	if (!p || !name) {
		free(p);
		free(name);
		fuse_reply_err(of->req, ENOMEM);
		return true;
	}
	p->of = *of;
	p->of.name = name;
	p->folder = *folder;
	p->job.work = work;
	p->job.finish = finish;
	workers_run(folder->mount->workers, &p->job);
	return true;
}
