/* The mounts of moefs that this process can see, their models, and which model a user means. */
#ifndef MOEFS_FS_COMMANDS_MOUNTS_H
#define MOEFS_FS_COMMANDS_MOUNTS_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- mounts.c ---- */

struct mount_seen {
	char *point, *source; /* decoded from mountinfo */
	uid_t uid;	      /* the mount's user: user_id= of the kernel's options */
	char device[32];      /* MAJOR:MINOR */
	bool hidden;	      /* another mount covers this one */
};

struct mounts_seen {
	struct mount_seen *list;
	size_t count;
};

/* Reads the mounts, in the order in which they were mounted. table: NULL means
 * /proc/self/mountinfo. After an error there is nothing to free. */
int mounts_read(struct mounts_seen *out, const char *table, struct err *e);
void mounts_free(struct mounts_seen *m);

/* Calls visit for each model of a mount, sorted by name, with the path of the model's folder and
 * its name, until a call returns nonzero, and returns that. -errno: the tree cannot be read, since
 * it is another user's (EACCES) or its daemon has ended (ENOTCONN). Blocks as long as the mount
 * does. */
int mounts_models(const struct mount_seen *m,
		  int (*visit)(void *ctx, const char *folder, const char *name), void *ctx);
/* Reads a file of one line, such as MODEL/info/state, without its newline. -errno. */
int mounts_value(const char *folder, const char *file, char *value, size_t size);

/* What a mount tells about itself. Another process reads it. That process is ended if the mount
 * does not answer, so that a stopped daemon does not stop the command. */
struct mount_look {
	long process;	    /* the daemon; 0: unknown */
	const char *failed; /* why nothing more is known; NULL: everything is */
	struct text items;  /* NAME and STATE of each model, each followed by a zero byte */
};
int mounts_look(struct mount_look *out, const struct mount_seen *m, struct err *e);
/* The model after *place (0: the first). name and state are valid until mounts_look_free. False: no
 * more. */
bool mounts_next_model(const struct mount_look *l, size_t *place, const char **name,
		       const char **state);
void mounts_look_free(struct mount_look *l);

/* ---- find.c ---- */

/* Finds the model that MODEL means. Sets *folder (malloc'ed) to the folder of a mounted model; or
 * sets *folder to NULL and *path to a path to mount (malloc'ed, absolute). MODEL is the name of a
 * model in one of the caller's mounts (the newest of several). If MODEL has a slash or no model has
 * that name, it is a path: of a mounted model's folder, of a mount with one model, or of a
 * checkpoint or GGUF file, which one of the caller's mounts may have. -ENOENT: none of these. */
int find_model(const char *model, char **folder, char **path, struct err *e);
/* Finds the folder of a mount's only model (malloc'ed). -EINVAL: the mount has several models, and
 * e names some. */
int find_only_model(const char *mountpoint, char **folder, struct err *e);

#endif
