/* Sessions that outlive the mount: -o sessions=DIR.
 *
 *     DIR/UID/MODEL/N     a session's name, params and texts (kept_file.c has the form), 0600
 *     DIR/UID/MODEL/N.refused    one of which something was refused when it was read
 *     DIR/MODEL.lock      held while a mount keeps the model's sessions
 *
 * A session is written whenever it has changed and at the end of each turn: by a worker, to a
 * file beside the old one, which is then renamed. A failure is reported in MOUNT/error and changes
 * nothing else: no turn and no write fails because of it, and the next change tries again.
 *
 * What is computed of a conversation is not kept, only its texts. Sessions of single requests
 * (http-…, ask, ask.d) are not kept. Nothing is believed of a folder or file that is not the
 * daemon's own. The loop calls all of this.
 */
#ifndef MOEFS_FS_MODELS_KEPT_H
#define MOEFS_FS_MODELS_KEPT_H

#include "fs/mount/mount.h"

/* Opens the folder, or creates it, for all models to come. -EPERM: it is not this user's, or others
 * may write in it. */
int kept_open(struct mount *m, const char *folder, struct err *e);
void kept_close(struct mount *m);

/* Makes the sessions that the folder has for a model that has just entered the tree. skips: params
 * of sessions/default that stay as they are. What is wrong with a session is reported in
 * MOUNT/error. Before the tree answers, all are there when this returns. Later they appear one
 * after the other: a worker reads each file, and between two the loop goes on. */
void kept_load(struct mounted *model, bool (*skips)(const struct mount *m, size_t param));
void kept_unload(struct mounted *model);

/* A session has changed: it is written soon. Returns at once. */
void kept_changed(struct conversation *c); /* mount.kept.changed */
/* A session was removed by its owner: so is its file. Before conversation_remove. */
void kept_removed(struct conversation *c);

/* ---- kept_file.c ---- */

enum { KEPT_MOST = 160 << 20 }; /* bytes of one session */

/* What stands in a file besides params and texts. */
struct kept_head {
	char name[NAME_SIZE];
	gid_t gid;
};

/* The folder of a user's sessions of a model, opened: >= 0, or -errno in words. create: makes it. */
int kept_folder_open(int folder, uid_t uid, const char *model, bool create, struct err *e);
/* Writes a session into a folder as file `number`, all of it or nothing. */
int kept_file_write(int folder, uint32_t number, const struct kept_head *head,
		    const struct session *s, struct err *e);
/* Reads file `number` and its head. *text is the file, to be freed; what it holds besides is for
 * kept_file_apply. */
int kept_file_read(int folder, uint32_t number, struct kept_head *head, struct text *text,
		   struct err *e);
/* Gives a session what the file has, but params that `skips` names (NULL: none). What is refused is
 * left out; the first refusal is returned in words. */
struct kept_target {
	struct session *session;
	bool (*skips)(const struct mount *m, size_t param);
	const struct mount *mount; /* for skips */
};
int kept_file_apply(const struct text *text, const struct kept_target *to, struct err *e);
/* Whether a folder is a daemon's own, and nobody else may write in it. */
int kept_check_folder(int folder, const char *name, struct err *e);

#endif
