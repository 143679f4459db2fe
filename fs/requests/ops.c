/* FUSE's operations on attributes, modes and extended attributes; the handshake; the table of all
 * operations. See ops.h. */
#include "fs/base/workers.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct mount *m = userdata;
	/* RELEASE is a background request: beyond the limit it would wait behind slow mapped
	 * reads. */
	conn->max_background = 4096;
	conn->congestion_threshold = 4096;
	/* O_TRUNC must come with OPEN: a separate truncation would look like ftruncate. */
	conn->want |= conn->capable & FUSE_CAP_ATOMIC_O_TRUNC;
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_SPLICE_READ);
	m->copies_by_pages = conn->proto_minor >= 38; /* Linux 6.5; see ops_splice.c */
	m->ready = true;
}

/* ---- attributes ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);

static void op_lookup_again(const struct prepared_request *of)
{
	op_lookup(of->req, of->inode, of->name);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	struct fuse_entry_param entry;
	const struct prepared_request of = {
		.req = req, .inode = parent, .name = name, .again = op_lookup_again};
	if (!request_node(req, parent, X_OK, &folder) || request_prepare(&folder, &of))
		return;
	int code = node_is_folder(&folder) ? tree_child(&folder, name, &child) : -ENOTDIR;
	if (code) {
		fuse_reply_err(req, -code);
		return;
	}
	request_entry(&child, &entry);
	fuse_reply_entry(req, &entry);
}

/* Lookups are not counted: a node is nothing but its inode number (tree.h). */
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

static void op_reply_attr(fuse_req_t req, const struct node *n)
{
	struct stat st;
	tree_attr(n, &st);
	fuse_reply_attr(req, &st, tree_attr_seconds(n));
}

static void op_reply_size(fuse_req_t req, const struct node *n, uint64_t size)
{
	struct stat st;
	tree_attr(n, &st);
	st.st_size = (off_t)size;
	fuse_reply_attr(req, &st, tree_attr_seconds(n));
}

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct node n;
	if (!request_node(req, inode, 0, &n))
		return;
	if (!node_is_folder(&n) && n.row->ops->size_later && tree_allows(&n, n.viewer, R_OK)) {
		int code = n.row->ops->size_later(&n, req, op_reply_size);
		if (code)
			fuse_reply_err(req, -code);
		return;
	}
	/* With an open file the answer may be for lseek(SEEK_END), which needs the true size. */
	if (!file)
		splice_looked(&n);
	op_reply_attr(req, &n);
}

static void op_statfs(fuse_req_t req, fuse_ino_t inode)
{
	(void)inode;
	enum { UNIT = 4096 };
	struct pager_stats s;
	engine_cache_stats(request_mount(req)->engine, &s);
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

/* ---- modes: experts' pins ---- */

/* A worker runs the row's chmod, since it may have to wait for the thread that reads or evicts
 * experts. */
struct mode_change {
	struct job job;
	fuse_req_t req;
	struct node node;
	mode_t mode, changed;
	int code;
	struct err why;
};

static void op_chmod_work(struct job *job)
{
	struct mode_change *c = LINK_OWNER(job, struct mode_change, job);
	c->code = c->node.row->hooks->chmod(&c->node, c->mode, c->changed, &c->why);
}

static void op_chmod_finish(struct job *job)
{
	struct mode_change *c = LINK_OWNER(job, struct mode_change, job);
	if (c->code) {
		failure_refused(&c->node, &c->why);
		fuse_reply_err(c->req, -c->code);
	} else {
		failure_took(&c->node);
		op_reply_attr(c->req, &c->node);
	}
	free(c);
}

/* Makes a worker run the row's hook to change a mode, then answers the request. `changed`: the bits
 * that differ. -EPERM: there is no hook, or the node is not the viewer's. */
static int op_chmod(fuse_req_t req, const struct node *n, mode_t mode, mode_t changed)
{
	uid_t owner = n->mount->uid;
	if (!n->row->hooks || !n->row->hooks->chmod ||
	    (n->row->hooks->owner && !n->row->hooks->owner(n, &owner)) || n->viewer != owner)
		return -EPERM;
	struct mode_change *c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->job = (struct job){.work = op_chmod_work, .finish = op_chmod_finish};
	c->req = req;
	c->node = *n;
	c->mode = mode;
	c->changed = changed;
	workers_run(n->mount->workers, &c->job);
	return 0;
}

/* Whether the process of this thread has the file open for writing. */
static bool op_is_writing(const struct node *n, pid_t thread)
{
	pid_t process = proc_of_thread(thread);
	uint64_t inode = tree_inode(n);
	for (struct link *l = n->mount->handles.next; l != &n->mount->handles; l = l->next) {
		const struct handle *h = LINK_OWNER(l, struct handle, all);
		if (handle_writes(h) && tree_inode(&h->node) == inode &&
		    handle_opener(h) == process)
			return true;
	}
	return false;
}

/* The daemon sets all times: setting them succeeds, but has no effect unless the row has a hook. */
static int op_touch(const struct node *n)
{
	const struct row_hooks *hooks = n->row->hooks;
	struct err e;
	uid_t owner = n->mount->uid;
	if (!hooks || !hooks->touch)
		return 0;
	if (hooks->owner && (!hooks->owner(n, &owner) || n->viewer != owner))
		return -EPERM;
	return hooks->touch(n, &e);
}

/* Modes and owners cannot be changed except by the row's hook. Setting them to their present values
 * succeeds without effect, and so does a truncation by name, which is not a write. A process that
 * is writing the file may also set others without effect (cp -p), since an error would come after
 * the text was written. */
static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *to, int what,
		       struct fuse_file_info *file)
{
	struct node n;
	struct stat now;
	int code = 0;
	if (!request_node(req, inode, 0, &n))
		return;
	tree_attr(&n, &now);
	bool owner = (what & FUSE_SET_ATTR_UID && to->st_uid != now.st_uid) ||
		     (what & FUSE_SET_ATTR_GID && to->st_gid != now.st_gid);
	mode_t mode = what & FUSE_SET_ATTR_MODE ? (to->st_mode ^ now.st_mode) & 07777 : 0;
	if (what & FUSE_SET_ATTR_SIZE && !tree_allows(&n, n.viewer, W_OK)) {
		code = -EACCES;
	} else if ((owner || mode) && !op_is_writing(&n, fuse_req_ctx(req)->pid)) {
		code = owner ? -EPERM : op_chmod(req, &n, to->st_mode, mode);
		if (!code)
			return;
	}
	if (code == -EPERM) {
		struct err e;
		err_set(&e, EPERM,
			"modes and owners cannot be changed; only experts and prefixes accept "
			"chmod +t, which pins them, and only from the user whose they are");
		failure_denied(&n, &e);
	}
	if (!code && what & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))
		code = op_touch(&n);
	if (!code && what & FUSE_SET_ATTR_SIZE && file)
		code = file_truncate(file, (uint64_t)to->st_size);
	if (code)
		fuse_reply_err(req, -code);
	else
		op_reply_attr(req, &n);
}

/* ---- extended attributes ----
 *
 * A node has the attributes that its row's hooks list; they are read-only. The kernel asks for
 * others by itself: security.capability when a file is opened with truncation, and access lists.
 * ENOSYS would stop that, but for every file of the mount. */

#define XATTR_PREFIX "user.moefs."

static const struct xattr *op_xattrs_of(const struct node *n)
{
	static const struct xattr none[1];
	return n->row->hooks && n->row->hooks->xattrs ? n->row->hooks->xattrs : none;
}

/* room 0: the caller asks how much room it needs. Frees the text. */
static void op_reply_xattr(fuse_req_t req, struct text *t, size_t room)
{
	if (t->failed)
		fuse_reply_err(req, ENOMEM);
	else if (room == 0)
		fuse_reply_xattr(req, t->length);
	else if (t->length > room)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, t->data, t->length);
	text_free(t);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t inode, const char *name, size_t size)
{
	const size_t prefix = strlen(XATTR_PREFIX);
	struct node n;
	struct text value = {0};
	if (!request_node(req, inode, 0, &n))
		return;
	const struct xattr *x = op_xattrs_of(&n);
	while (x->name && (strncmp(name, XATTR_PREFIX, prefix) || strcmp(x->name, name + prefix)))
		x++;
	if (!x->name || !tree_allows(&n, n.viewer, R_OK)) {
		fuse_reply_err(req, x->name ? EACCES : ENODATA);
		return;
	}
	x->render(&n, &value);
	op_reply_xattr(req, &value, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t inode, size_t size)
{
	struct node n;
	struct text names = {0};
	if (!request_node(req, inode, 0, &n))
		return;
	for (const struct xattr *x = op_xattrs_of(&n); x->name; x++) {
		text_format(&names, XATTR_PREFIX "%s", x->name);
		text_add(&names, "", 1);
	}
	op_reply_xattr(req, &names, size);
}

/* No attribute can be set. For our own the answer is EPERM. For others it is `code`, which says
 * that files here have no such attributes; programs that copy files with attributes (cp -a) accept
 * that. */
static void op_refuse_xattr(fuse_req_t req, fuse_ino_t inode, const char *name, int code)
{
	struct node n;
	struct err e;
	if (!request_node(req, inode, 0, &n))
		return;
	bool ours = !strncmp(name, XATTR_PREFIX, strlen(XATTR_PREFIX));
	if (!strncmp(name, "user.", strlen("user."))) { /* other names are set by programs, not
							   typed by users */
		err_set(&e, ours ? EPERM : code, "%.64s: %s", name,
			ours ? "extended attributes are read-only; chmod +t pins an expert"
			     : "files here have no extended attributes except user.moefs.*, which "
			       "are read-only");
		failure_denied(&n, &e);
	}
	fuse_reply_err(req, ours ? EPERM : code);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t inode, const char *name, const char *value,
			size_t size, int flags)
{
	(void)value;
	(void)size;
	(void)flags;
	op_refuse_xattr(req, inode, name, EOPNOTSUPP);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t inode, const char *name)
{
	op_refuse_xattr(req, inode, name, ENODATA);
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
