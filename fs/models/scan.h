/* Searches folders of models for models that are not in the tree yet. A worker runs this, so
 * nothing here touches the mount; the loop puts the models found into the tree
 * (model_folders.c). */
#ifndef MOEFS_FS_MODELS_SCAN_H
#define MOEFS_FS_MODELS_SCAN_H

#include "fs/models/models.h"

struct known_model { /* a model of the tree */
	char *path;
	uint32_t index; /* in mount.models */
	bool gone;	/* result: the path no longer exists */
};

struct scan {
	struct engine *engine;
	char *const *folders; /* owned by the caller */
	size_t folder_count;
	struct known_model *known;
	size_t known_count;
	/* An inotify descriptor, or -1. The scan adds watches for the folders and, for one event,
	 * for each folder in them that is not a model yet. */
	int notices;
	/* Skip anything that changed within the last two seconds: it may be half copied and only
	 * look complete. Its line in `before` is kept. */
	bool patient;
	struct text before; /* a copy of mount.skipped, for a patient scan */

	/* Results: */
	struct found_model *found; /* open models that are not in the tree yet */
	size_t found_count;
	struct text skipped; /* a line for each model that cannot be mounted */
	bool changing;	     /* something was skipped for this reason */
	struct err failed;   /* a folder that could not be read; code 0: none */
};

void scan_run(struct scan *s);	/* blocks */
void scan_free(struct scan *s); /* closes the models found that models_take did not take */

/* Calls visit for each path in a folder, sorted by name, without hidden files. Blocks. */
int scan_folder(const char *folder, void (*visit)(void *ctx, const char *path, const char *name),
		void *ctx, struct err *e);

#endif
