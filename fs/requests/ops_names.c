/* FUSE's operations that create, remove and rename. See ops.h.
 *
 * Only sessions and names in ask.d can be created or removed. Anything else is EPERM, and `error`
 * says why. But `rm -rf sessions/NAME` has to get to the rmdir of the session. So a process that is
 * clearing a session's folder (it has the folder open and has listed it) may remove the files in
 * it, without effect. For other processes such a success would be harmful: tar x, which also has
 * the folder open, would try forever to replace a file. */
#include "fs/base/human.h"
#include "fs/models/kept.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <linux/fs.h> /* RENAME_NOREPLACE */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool name_folder_is(const struct node *n, enum folder folder)
{
	return n->row == tree_row(folder);
}

/* ---- operations that the tree does not allow ---- */

enum denied { DENIED_CREATE, DENIED_MKDIR, DENIED_REMOVE, DENIED_RENAME, DENIED_LINK };

/* Names of files that editors and sed create beside the file that they write: .x.swp, x~,
 * sedXXXXXX, 4913. No user typed them, so `error` does not mention them. */
static bool name_is_temporary(const char *name)
{
	size_t n = strlen(name);
	return *name == '.' || (n && name[n - 1] == '~') || !strcmp(name, "4913") ||
	       (n == 9 && !strncmp(name, "sed", 3));
}

/* The name in the folder that is most similar to `name`; "": none is. */
static void name_nearest(const struct node *folder, const char *name, char nearest[NAME_SIZE])
{
	enum { LOOKED_AT = 256 }; /* nobody mistypes one of thousands */
	struct node child;
	char child_name[NAME_SIZE];
	struct spelling s = {.word = name};
	uint64_t place = 0;
	unsigned changes = 0;
	*nearest = 0;
	for (unsigned i = 0; i < LOOKED_AT && tree_next(folder, &place, &child, child_name); i++) {
		s.nearest = NULL;
		human_try_spelling(&s, child_name);
		if (s.nearest && s.changes && (!*nearest || s.changes < changes)) {
			memcpy(nearest, child_name, NAME_SIZE);
			changes = s.changes;
		}
	}
}

static void names_why_no_file(const struct node *folder, const char *name, struct err *e)
{
	char nearest[NAME_SIZE], meant[NAME_SIZE + 32] = "";
	bool params = name_folder_is(folder, FOLDER_PARAMS);
	name_nearest(folder, name, nearest);
	if (*nearest)
		(void)snprintf(meant, sizeof meant, "; did you mean %s?", nearest);
	if (params)
		err_set(e, EPERM, "there is no param \"%.64s\"%s", name,
			*meant ? meant : "; `ls params` lists the params, moefs(5) describes them");
	else if (name_folder_is(folder, FOLDER_SESSIONS))
		err_set(e, EPERM,
			"cannot create the file \"%.64s\" here: sessions are folders; use mkdir",
			name);
	else
		err_set(e, EPERM, "there is no file \"%.64s\" here, and files cannot be created%s",
			name, meant);
	err_name(e, params ? "no_param" : "not_permitted");
}

/* Answers with EPERM and puts the reason into the caller's `error`. */
static void names_deny(fuse_req_t req, fuse_ino_t parent, const char *name, enum denied what)
{
	static const char *const words[] = {
		[DENIED_MKDIR] = "folders can only be created in sessions/, where each folder is a "
				 "session",
		[DENIED_REMOVE] = "only sessions and names in ask.d can be removed; to forget a "
				  "conversation, `echo reset > ctl`",
		[DENIED_RENAME] = "only sessions can be renamed, within sessions/; set your editor "
				  "to write files in place",
		[DENIED_LINK] = "links, pipes and devices cannot be created here",
	};
	struct node folder;
	struct err e;
	if (!name_is_temporary(name) &&
	    !tree_node(request_mount(req), parent, request_caller(req), &folder) &&
	    node_is_folder(&folder)) {
		if (what == DENIED_CREATE)
			names_why_no_file(&folder, name, &e);
		else
			err_set(&e, EPERM, "\"%.64s\": %s", name, words[what]);
		failure_denied(&folder, &e);
	}
	fuse_reply_err(req, EPERM);
}

/* names_deny for another user's session or question. */
static void names_deny_foreign(fuse_req_t req, const struct node *folder, const char *name)
{
	struct err e;
	err_set(&e, EPERM, "\"%.64s\" belongs to another user", name);
	failure_denied(folder, &e);
	fuse_reply_err(req, EPERM);
}

static void names_fail(fuse_req_t req, const struct err *e)
{
	failure_of_user(request_mount(req), request_caller(req), e);
	fuse_reply_err(req, e->code);
}

/* ---- creating ---- */

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)mode;
	struct node folder;
	struct fuse_entry_param entry;
	struct err e;
	if (!request_node(req, parent, W_OK | X_OK, &folder))
		return;
	if (!name_folder_is(&folder, FOLDER_SESSIONS)) {
		names_deny(req, parent, name, DENIED_MKDIR);
		return;
	}
	struct node made = folder;
	made.row = tree_row(FOLDER_SESSION);
	const struct fuse_ctx *who = fuse_req_ctx(req);
	if (conversation_make(folder.model, name, who->uid, who->gid, &made.conversation, &e)) {
		names_fail(req, &e);
		return;
	}
	request_entry(&made, &entry);
	fuse_reply_entry(req, &entry);
}

static bool name_folder_asks(const struct node *folder)
{
	return name_folder_is(folder, FOLDER_ASKS) || name_folder_is(folder, FOLDER_EMBEDS);
}

/* Creates and opens a name in ask.d or embed.d. */
static int names_make_ask(fuse_req_t req, const struct node *folder, const char *name,
			  struct fuse_file_info *file, struct handle **h, struct err *e)
{
	const struct fuse_ctx *who = fuse_req_ctx(req);
	struct conversation *c;
	struct node made;
	int code = asks_make(folder->model, name_folder_is(folder, FOLDER_EMBEDS), name, who->uid, who->gid, &c, e);
	if (code)
		return code;
	if (tree_child(folder, name, &made)) /* cannot fail: the name was just made */
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
	if (tree_node(request_mount(req), parent, request_caller(req), &folder) ||
	    !name_folder_asks(&folder)) {
		names_deny(req, parent, name, DENIED_CREATE);
		return;
	}
	int code = names_make_ask(req, &folder, name, file, &h, &e);
	if (code) {
		failure_refused(&folder, &e);
		fuse_reply_err(req, -code);
		return;
	}
	request_entry(&h->node, &entry);
	file->fh = (uintptr_t)h;
	file->direct_io = true;
	if (fuse_reply_create(req, &entry, file) == -ENOENT)
		handle_release(h);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)device;
	names_deny(req, parent, name, S_ISREG(mode) ? DENIED_CREATE : DENIED_LINK);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	names_deny(req, parent, name, DENIED_LINK);
}

void op_link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t parent, const char *name)
{
	(void)inode;
	names_deny(req, parent, name, DENIED_LINK);
}

/* ---- removing and renaming ---- */

/* Finds the session of this name. Only its owner may remove or rename it, whatever the folder's
 * mode; sessions/default always stays. NULL: the request has been answered with the error. `typed`:
 * the name for the error's sentence. */
static struct conversation *names_find_session(fuse_req_t req, fuse_ino_t parent, const char *name,
					       enum denied what, const char *typed)
{
	struct node folder;
	if (!request_node(req, parent, W_OK | X_OK, &folder))
		return NULL;
	if (!name_folder_is(&folder, FOLDER_SESSIONS)) {
		names_deny(req, parent, typed, what);
		return NULL;
	}
	struct conversation *c = conversations_by_name(folder.model, name);
	if (!c) {
		fuse_reply_err(req, ENOENT);
	} else if (conversation_is_default(c)) {
		struct err e;
		err_set(&e, EPERM,
			"%s/sessions/default cannot be removed or renamed: the model's own folder "
			"shows its files; create other sessions with mkdir",
			folder.model->name);
		failure_denied(&folder, &e);
		fuse_reply_err(req, EPERM);
	} else if (c->uid != request_caller(req)) {
		names_deny_foreign(req, &folder, name);
	} else {
		return c;
	}
	return NULL;
}

/* Whether the name is in a session of the caller whose folder the calling process is clearing. */
static bool name_is_being_cleared(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	return !tree_node(request_mount(req), parent, request_caller(req), &folder) &&
	       folder.conversation && !conversation_is_default(folder.conversation) &&
	       folder.conversation->uid == folder.viewer && folder_is_clearing(req, parent) &&
	       !tree_child(&folder, name, &child);
}

/* Removes a name whose row has a hook for removal; false: there is no such name, or no hook. */
static bool names_remove_hooked(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder, child;
	struct err e = {0};
	uid_t owner;
	if (tree_node(request_mount(req), parent, request_caller(req), &folder) ||
	    tree_child(&folder, name, &child) || !child.row->hooks || !child.row->hooks->remove)
		return false;
	if (child.row->hooks->owner(&child, &owner) && owner != folder.viewer) {
		names_deny_foreign(req, &folder, name);
		return true;
	}
	int code = child.row->hooks->remove(&child, &e);
	if (code)
		failure_refused(&child, &e);
	fuse_reply_err(req, -code);
	return true;
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node folder;
	if (!tree_node(request_mount(req), parent, request_caller(req), &folder) &&
	    name_folder_asks(&folder)) {
		bool embeds = name_folder_is(&folder, FOLDER_EMBEDS);
		struct conversation *c = asks_by_name(folder.model, embeds, name);
		if (c && c->uid != folder.viewer) {
			names_deny_foreign(req, &folder, name);
			return;
		}
		if (c)
			asks_remove(c);
		fuse_reply_err(req, c ? 0 : ENOENT);
	} else if (name_is_being_cleared(req, parent, name)) {
		fuse_reply_err(req, 0);
	} else if (!names_remove_hooked(req, parent, name)) {
		names_deny(req, parent, name, DENIED_REMOVE);
	}
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (name_is_being_cleared(req, parent, name)) {
		fuse_reply_err(req, 0);
		return;
	}
	struct conversation *c = names_find_session(req, parent, name, DENIED_REMOVE, name);
	if (!c)
		return;
	kept_removed(c);
	conversation_remove(c);
	fuse_reply_err(req, 0);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	       const char *new_name, unsigned flags)
{
	struct err e;
	const char *typed = name_is_temporary(new_name) ? new_name : name;
	if (parent != new_parent) {
		names_deny(req, parent, typed, DENIED_RENAME);
		return;
	}
	if (flags & ~(unsigned)RENAME_NOREPLACE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	struct conversation *c = names_find_session(req, parent, name, DENIED_RENAME, typed);
	if (!c)
		return;
	if (strcmp(name, new_name) != 0 && conversation_rename(c, new_name, &e))
		names_fail(req, &e);
	else
		fuse_reply_err(req, 0);
}
