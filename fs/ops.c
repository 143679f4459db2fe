/* Operations on names and attributes, and the handshake. See ops.h; open files are in ops_file.c.
 */
#include "fs/ops.h"
#include "fs/handle.h"

#include <errno.h>
#include <linux/fs.h> /* RENAME_NOREPLACE */
#include <string.h>
#include <unistd.h>

/* Names change only through the kernel (mkdir, rmdir, rename), so it may believe them for long. */
#define NAME_SECONDS 86400.0

static struct mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static uid_t caller(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid;
}

/* The node, or NULL after having answered with the error. `what`: the access that is needed. */
static struct node *node_or_error(fuse_req_t req, fuse_ino_t inode, int what, struct node *n)
{
	int code = tree_node(mount_of(req), inode, caller(req), n);
	if (!code && what && !node_may(n, n->viewer, what))
		code = -EACCES;
	if (!code)
		return n;
	fuse_reply_err(req, -code);
	return NULL;
}

static void entry_of(const struct node *n, struct fuse_entry_param *entry)
{
	*entry = (struct fuse_entry_param){
		.attr_timeout = node_attr_seconds(n),
		.entry_timeout = NAME_SECONDS,
	};
	node_attr(n, &entry->attr);
	entry->ino = entry->attr.st_ino;
}

static void fail(fuse_req_t req, const struct err *e)
{
	mount_failure_of(mount_of(req), caller(req), e);
	fuse_reply_err(req, e->code);
}

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
	m->ready = true;
}

/* ---- looking ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	struct fuse_entry_param entry;
	if (!node_or_error(req, parent, X_OK, &folder))
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

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)file;
	struct node n;
	struct stat st;
	if (!node_or_error(req, inode, 0, &n))
		return;
	node_attr(&n, &st);
	fuse_reply_attr(req, &st, node_attr_seconds(&n));
}

/* Times are the daemon's, and a truncation by name is nobody's writing: both succeed without
 * effect. Modes and owners cannot be changed, but to what they are (cp -p, tar x). */
static int setattr_check(const struct node *n, uid_t uid, const struct stat *to, int what)
{
	struct stat now;
	node_attr(n, &now);
	if (what & FUSE_SET_ATTR_MODE && (to->st_mode & 07777) != (now.st_mode & 07777))
		return -EPERM;
	if (what & FUSE_SET_ATTR_UID && to->st_uid != now.st_uid)
		return -EPERM;
	if (what & FUSE_SET_ATTR_GID && to->st_gid != now.st_gid)
		return -EPERM;
	if (what & FUSE_SET_ATTR_SIZE && !node_may(n, uid, W_OK))
		return -EACCES;
	return 0;
}

static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *to, int what,
		       struct fuse_file_info *file)
{
	struct node n;
	struct stat st;
	if (!node_or_error(req, inode, 0, &n))
		return;
	int code = setattr_check(&n, caller(req), to, what);
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

/* ---- folders ---- */

/* "." and ".." stand before the tree's places, which are beyond 255 (tree_next). */
enum { PLACE_DOT = 1, PLACE_DOTDOT = 2 };

static size_t add_entry(fuse_req_t req, char *buffer, size_t left, const char *name,
			const struct node *n, uint64_t place, bool plus)
{
	struct fuse_entry_param entry = {
		.attr = {.st_ino = tree_inode(n), .st_mode = n->row->mode}};
	if (!plus)
		return fuse_add_direntry(req, buffer, left, name, &entry.attr, (off_t)place);
	if (place > PLACE_DOTDOT)
		entry_of(n, &entry);
	return fuse_add_direntry_plus(req, buffer, left, name, &entry, (off_t)place);
}

/* The entry after *place. */
static bool next_entry(const struct node *folder, uint64_t *place, struct node *n,
		       char name[NAME_SIZE])
{
	if (*place > PLACE_DOTDOT)
		return tree_next(folder, place, n, name);
	if (*place == PLACE_DOTDOT) {
		*place = 0;
		return tree_next(folder, place, n, name);
	}
	*n = *folder;
	if (*place == PLACE_DOT)
		tree_parent(folder, n);
	memcpy(name, "..", 3);
	name[*place + 1] = 0;
	++*place;
	return true;
}

static void list(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, bool plus)
{
	struct node folder, n;
	char name[NAME_SIZE];
	if (!node_or_error(req, inode, R_OK, &folder))
		return;
	char *buffer = mount_of(req)->scratch;
	size = size < READ_MAX_BYTES ? size : READ_MAX_BYTES;
	size_t used = 0;
	uint64_t place = (uint64_t)offset;
	while (next_entry(&folder, &place, &n, name)) {
		size_t more = add_entry(req, buffer + used, size - used, name, &n, place, plus);
		if (more > size - used)
			break;
		used += more;
	}
	fuse_reply_buf(req, buffer, used);
}

static void op_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct node n;
	if (node_or_error(req, inode, R_OK, &n))
		fuse_reply_open(req, file);
}

static void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		       struct fuse_file_info *file)
{
	(void)file;
	list(req, inode, size, offset, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
			   struct fuse_file_info *file)
{
	(void)file;
	list(req, inode, size, offset, true);
}

/* ---- making and removing: sessions, and nothing else ---- */

static bool is_folder(const struct node *n, enum folder folder)
{
	return n->row == tree_row(folder);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)mode;
	struct node folder;
	struct fuse_entry_param entry;
	struct err e;
	if (!node_or_error(req, parent, W_OK | X_OK, &folder))
		return;
	if (!is_folder(&folder, FOLDER_SESSIONS)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	struct node made = folder;
	made.row = tree_row(FOLDER_SESSION);
	const struct fuse_ctx *who = fuse_req_ctx(req);
	if (sessions_make(folder.model, name, who->uid, who->gid, &made.conversation, &e)) {
		fail(req, &e);
		return;
	}
	entry_of(&made, &entry);
	fuse_reply_entry(req, &entry);
}

/* The session that a name in a folder is, or NULL after having answered: sessions belong to their
 * makers, whatever the folder's mode, and the default one stays. */
static struct conversation *session_or_error(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder;
	if (!node_or_error(req, parent, W_OK | X_OK, &folder))
		return NULL;
	struct conversation *c = NULL;
	if (is_folder(&folder, FOLDER_SESSIONS))
		c = sessions_by_name(folder.model, name);
	int code = c ? 0 : is_folder(&folder, FOLDER_SESSIONS) ? ENOENT : EPERM;
	if (c && (sessions_is_default(c) || c->uid != caller(req)))
		code = EPERM;
	if (!code)
		return c;
	fuse_reply_err(req, code);
	return NULL;
}

/* Files in a session, and its params, go without effect: `rm -rf sessions/NAME` gets to the rmdir
 * of the session, which is what ends it. */
static bool goes_without_effect(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	return !tree_node(mount_of(req), parent, caller(req), &folder) && folder.conversation &&
	       !sessions_is_default(folder.conversation) &&
	       folder.conversation->uid == caller(req) && !tree_child(&folder, name, &child);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, goes_without_effect(req, parent, name) ? 0 : EPERM);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (goes_without_effect(req, parent, name)) {
		fuse_reply_err(req, 0);
		return;
	}
	struct conversation *c = session_or_error(req, parent, name);
	if (!c)
		return;
	sessions_remove(c);
	fuse_reply_err(req, 0);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned flags)
{
	struct err e;
	if (parent != new_parent) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (flags & ~(unsigned)RENAME_NOREPLACE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	struct conversation *c = session_or_error(req, parent, name);
	if (!c)
		return;
	if (strcmp(name, new_name) != 0 && sessions_rename(c, new_name, &e))
		fail(req, &e);
	else
		fuse_reply_err(req, 0);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)device;
	fuse_reply_err(req, EPERM);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *file)
{
	(void)file;
	op_mknod(req, parent, name, mode, 0);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	op_mknod(req, parent, name, 0, 0);
}

static void op_link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t parent, const char *name)
{
	(void)inode;
	op_mknod(req, parent, name, 0, 0);
}

const struct fuse_lowlevel_ops moefs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.statfs = op_statfs,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
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
	.release = op_release,
	.poll = op_poll,
};
