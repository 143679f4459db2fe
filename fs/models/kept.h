/* Sessions that outlive the mount: -o sessions=DIR.
 *
 *     DIR/UID/MODEL/N            a session's name, params and texts (format: kept_file.c), 0600
 *     DIR/UID/MODEL/N.refused    a session of which something was refused when it was read
 *     DIR/MODEL.lock             held while a mount keeps the model's sessions
 *
 * A session is written whenever it has changed and at the end of each turn. A worker writes it to a
 * file beside the old one, then renames the file. A failure is reported in MOUNT/error and has no
 * other effect: no turn and no write fails because of it, and the next change tries again.
 *
 * Only a conversation's texts are kept, not its computed context. Sessions of single requests
 * (http-…, ask, ask.d) are not kept. A folder or file that the daemon does not own is not trusted.
 * Only the loop calls these functions.
 */
#ifndef MOEFS_FS_MODELS_KEPT_H
#define MOEFS_FS_MODELS_KEPT_H

#include "fs/mount/mount.h"

/* Opens or creates the folder, for all models mounted later. -EPERM: the folder belongs to another
 * user, or others may write in it. */
int kept_open(struct mount *m, const char *folder, struct err *e);
void kept_close(struct mount *m);

/* Makes the sessions that the folder has for a model that has just entered the tree. skips: params
 * of sessions/default that stay unchanged. An error in a session's file is reported in MOUNT/error.
 * Before the tree answers, all sessions exist when this returns. Later they appear one by one: a
 * worker reads each file, and the loop continues in between. */
void kept_load(struct mounted *model, bool (*skips)(const struct mount *m, size_t param));
void kept_unload(struct mounted *model);

/* Records that a session has changed, so that it is written soon. Returns at once. */
void kept_changed(struct conversation *c); /* for mount.kept.changed */
/* Removes the file of a session that its owner removes. Call this before conversation_remove. */
void kept_removed(struct conversation *c);

/* ---- kept_file.c ---- */

enum { KEPT_MOST = 160 << 20 }; /* most bytes of one session */

/* The contents of a file in addition to params and texts. */
struct kept_head {
	char name[NAME_SIZE];
	gid_t gid;
};

/* Opens the folder of a user's sessions of a model. create: makes the folder. Returns a descriptor,
 * or -errno with a sentence. */
int kept_folder_open(int folder, uid_t uid, const char *model, bool create, struct err *e);
/* Writes a session into a folder as file `number`, completely or not at all. */
int kept_file_write(int folder, uint32_t number, const struct kept_head *head,
		    const struct session *s, struct err *e);
/* Reads file `number` and its head. *text is the whole file, which the caller frees, for
 * kept_file_apply. */
int kept_file_read(int folder, uint32_t number, struct kept_head *head, struct text *text,
		   struct err *e);
/* Applies the file to a session, except for params that `skips` names (NULL: none). Anything
 * refused is left out; the first refusal is returned with its sentence. */
struct kept_target {
	struct session *session;
	bool (*skips)(const struct mount *m, size_t param);
	const struct mount *mount; /* for skips */
};
int kept_file_apply(const struct text *text, const struct kept_target *to, struct err *e);
/* Checks that the daemon owns a folder, and that nobody else may write in it. */
int kept_check_folder(int folder, const char *name, struct err *e);

#endif
