/* Shared by FUSE's operations: the caller, the node, and the answer for a name. See ops.h. */
#include "fs/base/workers.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long the kernel may cache a name. Names change only through the kernel (mkdir, rmdir,
 * rename), except for names of ROW_PASSING, which disappear by themselves. */
#define NAME_SECONDS 86400.0

struct mount *request_mount(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

uid_t request_caller(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid;
}

struct node *request_node(fuse_req_t req, fuse_ino_t inode, int wanted, struct node *n)
{
	int code = tree_node(request_mount(req), inode, request_caller(req), n);
	if (!code && wanted && !tree_allows(n, n->viewer, wanted))
		code = -EACCES;
	if (!code)
		return n;
	fuse_reply_err(req, -code);
	return NULL;
}

void request_entry(const struct node *n, struct fuse_entry_param *entry)
{
	splice_looked(n);
	*entry = (struct fuse_entry_param){
		.attr_timeout = tree_attr_seconds(n),
		.entry_timeout = n->row->flags & ROW_PASSING ? 0 : NAME_SECONDS,
	};
	tree_attr(n, &entry->attr);
	entry->ino = entry->attr.st_ino;
}

/* ---- folders whose names take long to find ---- */

struct preparation {
	struct job job;
	struct prepared_request of; /* owns its name */
	struct node folder;
	int failed;
	struct err why;
};

static void request_prepare_work(struct job *job)
{
	struct preparation *p = LINK_OWNER(job, struct preparation, job);
	p->failed = p->folder.row->prepare(&p->folder, &p->why);
}

static void request_prepare_finish(struct job *job)
{
	struct preparation *p = LINK_OWNER(job, struct preparation, job);
	if (p->failed) {
		failure_of_mount(p->folder.mount, &p->why);
		fuse_reply_err(p->of.req, -p->failed);
	} else
		p->of.again(&p->of);
	free((char *)p->of.name);
	free(p);
}

bool request_prepare(const struct node *folder, const struct prepared_request *of)
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
	p->job = (struct job){.work = request_prepare_work, .finish = request_prepare_finish};
	p->of = *of;
	p->of.name = name;
	p->folder = *folder;
	workers_run(folder->mount->workers, &p->job);
	return true;
}
