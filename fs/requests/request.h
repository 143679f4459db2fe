/* What the operations of ops*.c have in common: who asks, of what, and how a name is answered. */
#ifndef MOEFS_FS_REQUEST_H
#define MOEFS_FS_REQUEST_H

#include "fs/mount/handle.h"
#include "fs/tree/tree.h"

struct mount *mount_of(fuse_req_t req);
uid_t caller(fuse_req_t req);
/* The node, or NULL after having answered with the error. `what`: the access that is needed. */
struct node *node_or_error(fuse_req_t req, fuse_ino_t inode, int what, struct node *n);
void entry_of(const struct node *n, struct fuse_entry_param *entry);

/* prepare.c */
struct prepared_request {
	fuse_req_t req;
	fuse_ino_t inode;	    /* the folder's */
	const char *name;	    /* asked for in it, or NULL */
	struct fuse_file_info file; /* of an open folder */
	void (*again)(const struct prepared_request *of);
};
/* True: the folder is not prepared; the request is answered later, by `again` or with an error. */
bool request_waits(const struct node *folder, const struct prepared_request *of);

/* worker_read.c: has a worker read; -ENOMEM, or CALL_KEPT. */
ssize_t worker_read(struct handle *h, struct call *c);

#endif
