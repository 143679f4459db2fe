/* Operations on names and attributes, and the handshake. See ops.h; folders are in ops_folder.c,
 * open files in ops_file.c. */
#include "fs/requests/ops.h"
#include "fs/mount/handle.h"
#include "fs/requests/denied.h"
#include "fs/requests/pages.h"
#include "fs/requests/request.h"

#include <errno.h>
#include <unistd.h>

/* ---- the handshake ---- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct mount *m = userdata;
	/* RELEASE is a background request: below this limit it waits behind slow mapped reads. */
	conn->max_background = 4096;
	conn->congestion_threshold = 4096;
	/* O_TRUNC has to come with OPEN: a truncate of its own would look like ftruncate. */
	conn->want |= conn->capable & FUSE_CAP_ATOMIC_O_TRUNC;
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_SPLICE_READ);
	m->copies_by_pages = conn->proto_minor >= 38; /* Linux 6.5 */
	m->ready = true;
}

/* ---- looking ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);

static void lookup_again(const struct prepared_request *of)
{
	op_lookup(of->req, of->inode, of->name);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	struct fuse_entry_param entry;
	const struct prepared_request of = {
		.req = req, .inode = parent, .name = name, .again = lookup_again};
	if (!node_or_error(req, parent, X_OK, &folder) || request_waits(&folder, &of))
		return;
	int code = node_is_folder(&folder) ? tree_child(&folder, name, &child) : -ENOTDIR;
	if (code) {
		fuse_reply_err(req, -code);
		return;
	}
	entry_of(&child, &entry);
	fuse_reply_entry(req, &entry);
}

/* Nothing is counted: an inode number is all there is to a node (tree.h). */
static void op_forget(fuse_req_t req, fuse_ino_t inode, uint64_t lookups)
{
	(void)inode;
	(void)lookups;
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	(void)count;
	(void)forgets;
	fuse_reply_none(req);
}

static void tell_size(fuse_req_t req, const struct node *n, uint64_t size)
{
	struct stat st;
	node_attr(n, &st);
	st.st_size = (off_t)size;
	fuse_reply_attr(req, &st, node_attr_seconds(n));
}

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct node n;
	struct stat st;
	if (!node_or_error(req, inode, 0, &n))
		return;
	if (!node_is_folder(&n) && n.row->ops->size_later && node_may(&n, n.viewer, R_OK)) {
		int code = n.row->ops->size_later(&n, req, tell_size);
		if (code)
			fuse_reply_err(req, -code);
		return;
	}
	/* Who seeks from the end does so from the size that is answered. */
	if (!file)
		pages_looked(&n);
	node_attr(&n, &st);
	fuse_reply_attr(req, &st, node_attr_seconds(&n));
}

/* Whether a thread's process has opened the file to write, and not closed it. */
static bool is_writing(const struct node *n, pid_t thread)
{
	pid_t process = process_of(thread);
	uint64_t inode = tree_inode(n);
	for (struct link *l = n->mount->handles.next; l != &n->mount->handles; l = l->next) {
		const struct handle *h = LINK_OWNER(l, struct handle, all);
		if (handle_writes(h) && tree_inode(&h->node) == inode &&
		    handle_opener(h) == process)
			return true;
	}
	return false;
}

/* Times are the daemon's, and a truncation by name is nobody's writing: both succeed without
 * effect. Modes and owners cannot be changed but to what they are, or as the row's hook allows; for
 * a process that is writing the file (cp -p) that succeeds without effect as well, so that what it
 * wrote is no half. */
static int set_attributes(fuse_req_t req, const struct node *n, const struct stat *to, int what)
{
	struct stat now;
	node_attr(n, &now);
	if (what & FUSE_SET_ATTR_SIZE && !node_may(n, n->viewer, W_OK))
		return -EACCES;
	bool owner = (what & FUSE_SET_ATTR_UID && to->st_uid != now.st_uid) ||
		     (what & FUSE_SET_ATTR_GID && to->st_gid != now.st_gid);
	mode_t mode = what & FUSE_SET_ATTR_MODE ? (to->st_mode ^ now.st_mode) & 07777 : 0;
	if ((!owner && !mode) || is_writing(n, fuse_req_ctx(req)->pid))
		return 0;
	int code = owner ? -EPERM : mode_change(req, n, to->st_mode, mode);
	if (code == -EPERM)
		denied_attributes(n);
	return code;
}

static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *to, int what,
		       struct fuse_file_info *file)
{
	struct node n;
	struct stat st;
	if (!node_or_error(req, inode, 0, &n))
		return;
	int code = set_attributes(req, &n, to, what);
	if (code == MODE_CHANGES)
		return;
	if (!code && what & FUSE_SET_ATTR_SIZE && file)
		code = file_truncate(file, (uint64_t)to->st_size);
	if (code) {
		fuse_reply_err(req, -code);
		return;
	}
	node_attr(&n, &st);
	fuse_reply_attr(req, &st, node_attr_seconds(&n));
}

static void op_statfs(fuse_req_t req, fuse_ino_t inode)
{
	(void)inode;
	enum { UNIT = 4096 };
	struct pager_stats s;
	engine_cache_stats(mount_of(req)->engine, &s);
	uint64_t left = s.budget > s.used ? s.budget - s.used : 0;
	struct statvfs st = {
		.f_bsize = UNIT,
		.f_frsize = UNIT,
		.f_blocks = s.budget / UNIT,
		.f_bfree = left / UNIT,
		.f_bavail = left / UNIT,
		.f_namemax = NAME_SIZE - 1,
	};
	fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops moefs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.rename = op_rename,
	.mknod = op_mknod,
	.create = op_create,
	.symlink = op_symlink,
	.link = op_link,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.fsync = op_fsync,
	.release = op_release,
	.poll = op_poll,
};
