#include "fs/requests/request.h"
#include "fs/requests/pages.h"

#include <errno.h>

/* Names change only through the kernel (mkdir, rmdir, rename), so it may believe them for long, but
 * for those that go by themselves. */
#define NAME_SECONDS 86400.0

struct mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

uid_t caller(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid;
}

struct node *node_or_error(fuse_req_t req, fuse_ino_t inode, int what, struct node *n)
{
	int code = tree_node(mount_of(req), inode, caller(req), n);
	if (!code && what && !node_may(n, n->viewer, what))
		code = -EACCES;
	if (!code)
		return n;
	fuse_reply_err(req, -code);
	return NULL;
}

void entry_of(const struct node *n, struct fuse_entry_param *entry)
{
	pages_looked(n);
	*entry = (struct fuse_entry_param){
		.attr_timeout = node_attr_seconds(n),
		.entry_timeout = n->row->flags & ROW_PASSING ? 0 : NAME_SECONDS,
	};
	node_attr(n, &entry->attr);
	entry->ino = entry->attr.st_ino;
}
