/* Operations on folders: listing them, and making and removing what is in them. See ops.h.
 *
 * Nothing but sessions and names in ask.d can be made or removed. Yet `rm -rf sessions/NAME` has to
 * get to the rmdir of the session, so what is in a session goes, without effect, for a process that
 * is clearing the folder: one that has it open and has listed it. Others hear EPERM, since a
 * success without effect would make tar x, which has it open, too, try for ever to replace a file.
 */
#include "fs/ops.h"
#include "fs/request.h"
#include "fs/process.h"

#include <errno.h>
#include <linux/fs.h> /* RENAME_NOREPLACE */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- open folders ---- */

/* An open folder of a session's. Others need not be remembered. */
struct open_folder {
	struct link link; /* on mount.folders */
	uint64_t inode;
	pid_t opener; /* the process */
	bool listed;
};

static struct open_folder *folder_of(const struct fuse_file_info *file)
{
	return (struct open_folder *)(uintptr_t)file->fh; // NOLINT(performance-no-int-to-ptr)
}

static void folder_free(struct open_folder *f)
{
	if (f)
		list_remove(&f->link);
	free(f);
}

void folders_release(struct mount *m)
{
	while (!list_empty(&m->folders))
		folder_free(LINK_OWNER(m->folders.next, struct open_folder, link));
}

/* Whether the process that asks is clearing this folder. */
static bool is_clearing(fuse_req_t req, fuse_ino_t inode)
{
	const struct mount *m = mount_of(req);
	pid_t process = process_of(fuse_req_ctx(req)->pid);
	for (struct link *l = m->folders.next; l != &m->folders; l = l->next) {
		const struct open_folder *f = LINK_OWNER(l, struct open_folder, link);
		if (f->inode == inode && f->opener == process && f->listed)
			return true;
	}
	return false;
}

static void open_again(const struct prepared_request *of)
{
	struct fuse_file_info file = of->file;
	op_opendir(of->req, of->inode, &file);
}

void op_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct node n;
	struct open_folder *f = NULL;
	const struct prepared_request of = {
		.req = req, .inode = inode, .file = *file, .again = open_again};
	if (!node_or_error(req, inode, R_OK, &n) || request_waits(&n, &of))
		return;
	if (n.conversation) {
		f = calloc(1, sizeof *f);
		if (!f) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
		f->inode = inode;
		f->opener = process_of(fuse_req_ctx(req)->pid);
		list_append(&mount_of(req)->folders, &f->link);
	}
	file->fh = (uintptr_t)f;
	/* The process may have been killed in the meantime: then there will be no RELEASEDIR. */
	if (fuse_reply_open(req, file) == -ENOENT)
		folder_free(f);
}

void op_releasedir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	folder_free(folder_of(file));
	fuse_reply_err(req, 0);
}

/* ---- listing ---- */

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

static void list(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		 const struct fuse_file_info *file, bool plus)
{
	struct node folder, n;
	char name[NAME_SIZE];
	if (!node_or_error(req, inode, R_OK, &folder))
		return;
	if (folder_of(file))
		folder_of(file)->listed = true;
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

void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		struct fuse_file_info *file)
{
	list(req, inode, size, offset, file, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		    struct fuse_file_info *file)
{
	list(req, inode, size, offset, file, true);
}

static void fail(fuse_req_t req, const struct err *e)
{
	mount_failure_of(mount_of(req), caller(req), e);
	fuse_reply_err(req, e->code);
}

/* ---- making and removing: sessions, and nothing else ---- */

static bool is_folder(const struct node *n, enum folder folder)
{
	return n->row == tree_row(folder);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
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
	struct err e;
	if (c && sessions_is_default(c)) {
		err_set(&e, EPERM,
			"%s/sessions/default is the session of the model's own folder and stays "
			"where it is: make others with mkdir",
			folder.model->name);
		fail(req, &e);
		return NULL;
	}
	if (c && c->uid != caller(req))
		code = EPERM;
	if (!code)
		return c;
	fuse_reply_err(req, code);
	return NULL;
}

/* What is in a session of one's own goes without effect for who is clearing it. */
static bool goes_without_effect(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	return !tree_node(mount_of(req), parent, caller(req), &folder) && folder.conversation &&
	       !sessions_is_default(folder.conversation) &&
	       folder.conversation->uid == folder.viewer && is_clearing(req, parent) &&
	       !tree_child(&folder, name, &child);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (ask_unlink(req, parent, name))
		return;
	fuse_reply_err(req, goes_without_effect(req, parent, name) ? 0 : EPERM);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
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

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
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

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)device;
	fuse_reply_err(req, EPERM);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	op_mknod(req, parent, name, 0, 0);
}

void op_link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t parent, const char *name)
{
	(void)inode;
	op_mknod(req, parent, name, 0, 0);
}
