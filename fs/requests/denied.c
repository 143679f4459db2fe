#include "fs/requests/denied.h"
#include "fs/base/spelling.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool denied_is_tools(const char *name)
{
	size_t n = strlen(name);
	return *name == '.' || (n && name[n - 1] == '~') || !strcmp(name, "4913") ||
	       (n == 9 && !strncmp(name, "sed", 3));
}

/* The file or folder of the folder whose name is most like the one that was asked for; "": none. */
static void find_nearest(const struct node *folder, const char *name, char nearest[NAME_SIZE])
{
	struct node child;
	char child_name[NAME_SIZE];
	struct spelling s = {.word = name};
	uint64_t place = 0;
	unsigned changes = 0;
	*nearest = 0;
	/* Folders of thousands of names are nobody's to type. */
	for (unsigned i = 0; i < 256 && tree_next(folder, &place, &child, child_name); i++) {
		s.nearest = NULL;
		spelling_try(&s, child_name);
		if (s.nearest && s.changes && (!*nearest || s.changes < changes)) {
			memcpy(nearest, child_name, NAME_SIZE);
			changes = s.changes;
		}
	}
}

static void say_create(const struct node *folder, const char *name, struct err *e)
{
	char nearest[NAME_SIZE], meant[NAME_SIZE + 32] = "";
	bool params = folder->row == tree_row(FOLDER_PARAMS);
	find_nearest(folder, name, nearest);
	if (*nearest)
		(void)snprintf(meant, sizeof meant, "; did you mean %s?", nearest);
	if (params)
		err_set(e, EPERM, "there is no param \"%.64s\"%s", name,
			*meant ? meant : "; see moefs(5), or `ls params`");
	else if (folder->row == tree_row(FOLDER_SESSIONS))
		err_set(e, EPERM, "\"%.64s\" is not a folder: sessions are made with mkdir", name);
	else
		err_set(e, EPERM, "there is no file \"%.64s\" here, and none can be made%s", name,
			meant);
	err_name(e, params ? "no_param" : "not_permitted");
}

static void say(const struct node *folder, const char *name, enum denied what, struct err *e)
{
	static const char *const words[] = {
		[DENIED_MKDIR] = "folders are made in sessions/ only, where each is a conversation",
		[DENIED_REMOVE] = "only sessions and names in ask.d can be removed; `echo reset > "
				  "ctl` forgets a conversation",
		[DENIED_RENAME] = "only sessions can be renamed, within sessions/; editors that "
				  "replace a file have to write it in place",
		[DENIED_LINK] = "links, pipes and devices cannot be made here",
	};
	if (what == DENIED_CREATE)
		say_create(folder, name, e);
	else
		err_set(e, EPERM, "\"%.64s\": %s", name, words[what]);
}

void denied(fuse_req_t req, fuse_ino_t parent, const char *name, enum denied what)
{
	struct node folder;
	struct err e;
	if (!denied_is_tools(name) && !tree_node(mount_of(req), parent, caller(req), &folder) &&
	    node_is_folder(&folder)) {
		say(&folder, name, what, &e);
		node_denied(&folder, &e);
	}
	fuse_reply_err(req, EPERM);
}

void denied_attributes(const struct node *n)
{
	struct err e;
	err_set(&e, EPERM, "modes and owners stay as they are; only experts take chmod +t, which "
			   "pins them, and only of the user who mounted");
	node_denied(n, &e);
}

void denied_others(fuse_req_t req, const struct node *folder, const char *name)
{
	struct err e;
	err_set(&e, EPERM, "\"%.64s\" belongs to another user", name);
	node_denied(folder, &e);
	fuse_reply_err(req, EPERM);
}
