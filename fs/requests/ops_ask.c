/* Operations on the names in ask.d, the only files that can be made and removed. See ops.h. */
#include "fs/mount/handle.h"
#include "fs/requests/ops.h"
#include "fs/requests/denied.h"

#include <errno.h>

static bool is_asks(const struct node *n)
{
	return n->row == tree_row(FOLDER_ASKS);
}

/* A name in ask.d, taken away by who owns it. */
static int remove_ask(const struct node *folder, const char *name)
{
	struct conversation *c = asks_by_name(folder->model, name);
	if (!c)
		return ENOENT;
	if (c->uid != folder->viewer)
		return EPERM;
	asks_remove(c);
	return 0;
}

bool ask_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder;
	if (tree_node(mount_of(req), parent, caller(req), &folder) || !is_asks(&folder))
		return false;
	int code = remove_ask(&folder, name);
	if (code == EPERM)
		denied_others(req, &folder, name);
	else
		fuse_reply_err(req, code);
	return true;
}

static int make_ask(fuse_req_t req, const struct node *folder, const char *name,
		    struct fuse_file_info *file, struct handle **h, struct err *e)
{
	const struct fuse_ctx *who = fuse_req_ctx(req);
	struct conversation *c;
	struct node made;
	int code = asks_make(folder->model, name, who->uid, who->gid, &c, e);
	if (code)
		return code;
	if (tree_child(folder, name, &made)) /* it is there */
		return -ENOENT;
	code = handle_open(h, &made, file->flags, who->pid, e);
	if (code)
		asks_remove(c);
	return code;
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *file)
{
	(void)mode;
	struct node folder;
	struct handle *h;
	struct fuse_entry_param entry;
	struct err e = {0};
	if (tree_node(mount_of(req), parent, caller(req), &folder) || !is_asks(&folder)) {
		denied(req, parent, name, DENIED_CREATE);
		return;
	}
	int code = make_ask(req, &folder, name, file, &h, &e);
	if (code) {
		node_failure(&folder, &e);
		fuse_reply_err(req, -code);
		return;
	}
	entry_of(&h->node, &entry);
	file->fh = (uintptr_t)h;
	file->direct_io = true;
	if (fuse_reply_create(req, &entry, file) == -ENOENT)
		handle_release(h);
}
