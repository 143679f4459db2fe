/* The models of a mount: found, put into the tree, watched, and gone. The loop's, where it is not
 * said otherwise. */
#ifndef MOEFS_FS_MODELS_H
#define MOEFS_FS_MODELS_H

#include "fs/mount/mount.h"

enum { MODEL_NAME_MOST = 240 }; /* bytes; a number may follow */

/* ---- models.c ---- */

/* Whether a model's folder may be called so. */
bool models_name_fits(const char *name);
/* How many there are that are not gone. */
size_t models_count(const struct mount *m);
struct mounted *models_named(const struct mount *m, const char *name, size_t length); /* or NULL */
/* A model that is open, and in no tree yet. */
struct found {
	struct model *model;
	char *path, *config;
	size_t config_length;
	struct timespec config_time;
};
/* Opens it, and says what is wrong with it as far as that is known before its weights are read.
 * load: it will be, at once. Any thread; blocks. */
int models_find(struct found *f, struct engine *g, const char *path, bool load, struct err *e);
void models_drop(struct found *f); /* closes it, if it was not taken */
/* Puts it into the tree, by this name or its own. Taken or not, f has nothing afterwards. */
int models_take(struct mount *m, struct found *f, const char *name, struct err *e);
/* Nothing of it is loaded, open, or in its conversations. */
bool models_unused(const struct mounted *model);
/* Takes one that is unused out of the tree, and has it closed behind. */
void models_leave(struct mounted *model);
/* Closes one that is in no tree, with all its conversations. */
void models_free(struct mounted *model);
void models_close(struct mount *m); /* blocks until the steps in progress end */
/* Tells MOUNT/error about models that failed to load, or whose conversion stopped, since the last
 * call. True while one is loading. */
bool models_watch(struct mount *m);

/* ---- adding.c ---- */

/* Mounts the model at path and asks it to load, or, where path holds a folder of models, each of
 * them, to be loaded when first asked. In a folder what cannot be mounted is skipped, with a line
 * in `skipped`; an error if nothing is left. The name is for a single model; NULL: its own. Blocks
 * for the small files and the headers of the weights. */
int models_add(struct mount *m, const char *path, const char *name, struct err *e);

/* ---- skipped.c ---- */

/* Takes the lines, each with its newline, in the place of m->skipped, and says those that are new.
 */
void skipped_replace(struct mount *m, struct text *lines);

#endif
