/* The models of a mount: opening them, putting them into the tree, watching and removing them.
 * model_folders.h finds the models in mounted folders. Only the loop calls these functions, unless
 * a comment says otherwise. */
#ifndef MOEFS_FS_MODELS_MODELS_H
#define MOEFS_FS_MODELS_MODELS_H

#include "fs/mount/mount.h"

enum { MODEL_NAME_MOST = 240 }; /* bytes; "-2", "-3" … may be appended */

/* Whether a model's folder may have this name. */
bool models_name_fits(const char *name);
/* The number of models in the tree. */
size_t models_count(const struct mount *m);
struct mounted *models_named(const struct mount *m, const char *name, size_t length); /* or NULL */

/* ---- opening and closing ---- */

/* An open model that is not in the tree yet. */
struct found_model {
	struct model *model;
	char *name; /* its name in the tree; NULL: the model's own */
	char *path, *config, *examples;
	size_t config_length;
	struct timespec config_time;
};
/* How much of a model is read before the model is in the tree. Reading the vocabulary takes
 * longest, and its errors are found only by reading it. */
enum models_reads {
	MODELS_READS_HEADERS,	 /* for the many models that another program keeps */
	MODELS_READS_VOCABULARY, /* checks the vocabulary and frees it */
	MODELS_READS_ALL,	 /* keeps the vocabulary, since the weights will be read next */
};
/* Opens the model at a path and reports any error that can be found without reading the weights.
 * From any thread; blocks. */
int models_find(struct found_model *f, struct engine *g, const char *path, enum models_reads reads,
		struct err *e);
void models_drop(struct found_model *f); /* closes the model, unless models_take took it */
/* Puts the model into the tree under this name; NULL: under f->name. Afterwards *f is empty, also
 * after an error. */
int models_take(struct mount *m, struct found_model *f, const char *name, struct err *e);
/* Whether the model is not loaded, has no open file, and has only an empty default session. */
bool models_unused(const struct mounted *model);
/* Removes an unused model from the tree. A worker closes it. */
void models_leave(struct mounted *model);
/* Closes a model that is not in the tree, and all its sessions. */
void models_free(struct mounted *model);
void models_close(struct mount *m); /* closes all models; blocks until the steps in progress end */

/* Puts failures since the last call (of the GPU; of loading, converting or refining a model) into
 * MOUNT/error.
 * True: a model is loading. */
bool models_watch(struct mount *m);

/* ---- -o PARAM=VALUE ---- */

/* A session param with its value from the command line, as it would be written to the param's file.
 * Every session begins with this value in place of the checkpoint's default. */
struct param_given {
	size_t param; /* its index for params_name() */
	char *value;
};
/* Appends a line for each such param, for info/defaults. */
void models_params_given(const struct mount *m, struct text *out);

/* ---- progress ---- */

/* "NAME: [###...] WORDS" for the first model that is being converted, checked or warmed. False:
 * there is none. */
bool models_progress_line(const struct mount *m, char *line, size_t size);
/* models_progress_line for one model, under its own name. */
bool models_progress_of(const struct model *m, char *line, size_t size);
/* For info/progress: "idle", "warming 42 % 12/30 experts", or the engine's words for a
 * conversion. */
void models_progress_words(const struct model *m, char *words, size_t size);

#endif
