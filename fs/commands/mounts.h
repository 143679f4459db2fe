/* The mounts of moefs that this process can see, what is read from their trees, and which model a
 * user means. */
#ifndef MOEFS_FS_COMMANDS_MOUNTS_H
#define MOEFS_FS_COMMANDS_MOUNTS_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- mounts.c ---- */

struct mount_seen {
	char *point, *source; /* without mountinfo's escapes */
	uid_t uid;	      /* the mount's user: user_id= of the kernel's options */
	char device[32];      /* MAJOR:MINOR */
	bool hidden;	      /* something was mounted over it since */
};

struct mounts_seen {
	struct mount_seen *list;
	size_t count;
};

/* In the order in which they were mounted. table: NULL is /proc/self/mountinfo. After an error
 * nothing is to be freed. */
int mounts_read(struct mounts_seen *out, const char *table, struct err *e);
void mounts_free(struct mounts_seen *m);

/* Calls visit for each model of a mount, by name, with the path of its folder and its name, until
 * it returns other than 0, which is returned. -errno: the tree cannot be read; it is another user's
 * (EACCES), or its daemon is gone (ENOTCONN). Blocks as long as the mount does. */
int mounts_models(const struct mount_seen *m,
		  int (*visit)(void *ctx, const char *folder, const char *name), void *ctx);
/* The value of a file of one line, such as MODEL/info/state, without its newline. -errno. */
int mounts_value(const char *folder, const char *file, char *value, size_t size);

/* What a mount says of itself. Another process reads it and is ended if the mount does not answer,
 * so that a stopped daemon does not stop the command. */
struct mount_look {
	long process;	    /* the daemon; 0: unknown */
	const char *failed; /* why nothing more is known; NULL: all is */
	struct text items;  /* NAME and STATE of each model, each ended by a zero */
};
int mounts_look(struct mount_look *out, const struct mount_seen *m, struct err *e);
/* The model after *place (0: the first); name and state live until mounts_look_free. False: no
 * more. */
bool mounts_next_model(const struct mount_look *l, size_t *place, const char **name,
		       const char **state);
void mounts_look_free(struct mount_look *l);

/* ---- find.c ---- */

/* Finds what MODEL means: *folder is the folder of a mounted model (malloc'ed), or that is NULL and
 * *path is what to mount (malloc'ed, absolute). MODEL is the name of a model in one of the caller's
 * mounts (the newest of several), or, if it has a slash or no model has that name, a path: the
 * folder of a mounted model, a mount with one model, or a checkpoint or GGUF file, which one of the
 * caller's mounts may have. -ENOENT: none of these. */
int find_model(const char *model, char **folder, char **path, struct err *e);
/* The folder of a mount's only model (malloc'ed). -EINVAL: it has several, and e names some. */
int find_only_model(const char *mountpoint, char **folder, struct err *e);

#endif
