/* Making, removing and renaming what is in folders. See ops.h.
 *
 * Nothing but sessions and names in ask.d can be made or removed. Yet `rm -rf sessions/NAME` has to
 * get to the rmdir of the session, so what is in a session goes, without effect, for a process that
 * is clearing the folder: one that has it open and has listed it. Others hear EPERM, since a
 * success without effect would make tar x, which has it open, too, try for ever to replace a file.
 */
#include "fs/requests/ops.h"
#include "fs/requests/denied.h"

#include <errno.h>
#include <linux/fs.h> /* RENAME_NOREPLACE */
#include <string.h>
#include <unistd.h>

static void fail(fuse_req_t req, const struct err *e)
{
	mount_failure_of(mount_of(req), caller(req), e);
	fuse_reply_err(req, e->code);
}

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
		denied(req, parent, name, DENIED_MKDIR);
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
 * makers, whatever the folder's mode, and the default one stays. `shown`: for the words. */
static struct conversation *session_or_error(fuse_req_t req, fuse_ino_t parent, const char *name,
					     enum denied what, const char *shown)
{
	struct node folder;
	if (!node_or_error(req, parent, W_OK | X_OK, &folder))
		return NULL;
	struct conversation *c = NULL;
	if (is_folder(&folder, FOLDER_SESSIONS))
		c = sessions_by_name(folder.model, name);
	struct err e;
	if (!is_folder(&folder, FOLDER_SESSIONS)) {
		denied(req, parent, shown, what);
		return NULL;
	}
	if (c && sessions_is_default(c)) {
		err_set(&e, EPERM,
			"%s/sessions/default is the session of the model's own folder and stays "
			"where it is: make others with mkdir",
			folder.model->name);
		node_denied(&folder, &e);
		fuse_reply_err(req, EPERM);
		return NULL;
	}
	if (c && c->uid == caller(req))
		return c;
	if (c)
		denied_others(req, &folder, name);
	else
		fuse_reply_err(req, ENOENT);
	return NULL;
}

/* What is in a session of one's own goes without effect for who is clearing it. */
static bool goes_without_effect(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	return !tree_node(mount_of(req), parent, caller(req), &folder) && folder.conversation &&
	       !sessions_is_default(folder.conversation) &&
	       folder.conversation->uid == folder.viewer && folder_is_clearing(req, parent) &&
	       !tree_child(&folder, name, &child);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (ask_unlink(req, parent, name))
		return;
	if (goes_without_effect(req, parent, name))
		fuse_reply_err(req, 0);
	else
		denied(req, parent, name, DENIED_REMOVE);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (goes_without_effect(req, parent, name)) {
		fuse_reply_err(req, 0);
		return;
	}
	struct conversation *c = session_or_error(req, parent, name, DENIED_REMOVE, name);
	if (!c)
		return;
	sessions_remove(c);
	fuse_reply_err(req, 0);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	       const char *new_name, unsigned flags)
{
	struct err e;
	const char *shown = denied_is_tools(new_name) ? new_name : name;
	if (parent != new_parent) {
		denied(req, parent, shown, DENIED_RENAME);
		return;
	}
	if (flags & ~(unsigned)RENAME_NOREPLACE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	struct conversation *c = session_or_error(req, parent, name, DENIED_RENAME, shown);
	if (!c)
		return;
	if (strcmp(name, new_name) != 0 && sessions_rename(c, new_name, &e))
		fail(req, &e);
	else
		fuse_reply_err(req, 0);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)device;
	denied(req, parent, name, S_ISREG(mode) ? DENIED_CREATE : DENIED_LINK);
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
