/* The models of a mount: opened, put into the tree, watched, removed. Which models are in mounted
 * folders, and come and go there, is model_folders.h. The loop calls all of this unless a comment
 * says otherwise.
 */
#ifndef MOEFS_FS_MODELS_MODELS_H
#define MOEFS_FS_MODELS_MODELS_H

#include "fs/mount/mount.h"

enum { MODEL_NAME_MOST = 240 }; /* bytes; "-2", "-3" … may be appended */

/* Whether a model's folder may have this name. */
bool models_name_fits(const char *name);
/* How many models are in the tree. */
size_t models_count(const struct mount *m);
struct mounted *models_named(const struct mount *m, const char *name, size_t length); /* or NULL */

/* ---- opening and closing ---- */

/* A model that is open and not in the tree yet. */
struct found_model {
	struct model *model;
	char *name; /* for the tree; NULL: the model's own */
	char *path, *config, *examples;
	size_t config_length;
	struct timespec config_time;
};
/* How much of a model is read before it is in the tree. Of a vocabulary, which takes longer than
 * all else, what is wrong with it is known only once it is made. */
enum models_reads {
	MODELS_READS_HEADERS,	 /* of many that another program keeps */
	MODELS_READS_VOCABULARY, /* it is checked, and forgotten */
	MODELS_READS_ALL,	 /* it is kept: the weights will be read next */
};
/* Opens the model at a path and reports what is wrong with it, as far as that can be told without
 * its weights. Any thread; blocks. */
int models_find(struct found_model *f, struct engine *g, const char *path, enum models_reads reads,
		struct err *e);
void models_drop(struct found_model *f); /* closes it, unless models_take took it */
/* Puts it into the tree under this name, or under f's if `name` is NULL. *f is empty afterwards,
 * with an error as well. */
int models_take(struct mount *m, struct found_model *f, const char *name, struct err *e);
/* Whether nothing of the model is loaded or open and its only session is an empty default. */
bool models_unused(const struct mounted *model);
/* Takes an unused model out of the tree. A worker closes it. */
void models_leave(struct mounted *model);
/* Closes a model that is not in the tree, with all its sessions. */
void models_free(struct mounted *model);
void models_close(struct mount *m); /* all of them; blocks until the steps in progress end */

/* Puts into MOUNT/error what failed since the last call: loading, converting or refining a model.
 * True: a model is loading. */
bool models_watch(struct mount *m);

/* ---- -o PARAM=VALUE ---- */

/* A session param with the value that the command line gives, as it would be written into its
 * file. Every session begins with it, instead of the checkpoint's default. */
struct param_given {
	size_t param; /* its index for params_name() */
	char *value;
};
/* Appends a line for each, for info/defaults. */
void models_params_given(const struct mount *m, struct text *out);

/* ---- progress ---- */

/* "NAME: [###...] WORDS" of the first model that is converted, checked or warmed; false: none is.
 */
bool models_progress_line(const struct mount *m, char *line, size_t size);
/* The same for one model, under its own name. */
bool models_progress_of(const struct model *m, char *line, size_t size);
/* For info/progress: "idle", "warming 42 % 12/30 experts", or what the engine says of a
 * conversion. */
void models_progress_words(const struct model *m, char *words, size_t size);

#endif
