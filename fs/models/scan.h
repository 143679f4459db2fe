/* Looking into folders of models for models that are not in the tree yet. A worker runs this, so
 * nothing here touches the mount; the loop puts what was found into the tree (model_folders.c).
 */
#ifndef MOEFS_FS_MODELS_SCAN_H
#define MOEFS_FS_MODELS_SCAN_H

#include "fs/models/models.h"

struct known_model { /* a model of the tree */
	char *path;
	uint32_t index; /* in mount.models */
	bool gone;	/* result: nothing is at the path any more */
};

struct scan {
	struct engine *engine;
	char *const *folders; /* the caller's */
	size_t folder_count;
	struct known_model *known;
	size_t known_count;
	/* An inotify descriptor, or -1. The scan adds watches for the folders and, for one change,
	 * for each folder in them that is not a model yet. */
	int notices;
	/* Leave alone what changed within the last two seconds: it may be half copied and only look
	 * complete. What `before` says of it is kept. */
	bool patient;
	struct text before; /* a copy of mount.skipped, for a patient scan */

	/* Results: */
	struct found_model *found; /* opened, and not in the tree yet */
	size_t found_count;
	struct text skipped; /* a line for each model that cannot be mounted */
	bool changing;	     /* something was left alone */
	struct err failed;   /* a folder that cannot be read; code 0: none */
};

void scan_run(struct scan *s);	/* blocks */
void scan_free(struct scan *s); /* closes what was found and not taken (models_take) */

/* Calls visit for each path in a folder, sorted by name, without hidden ones. Blocks. */
int scan_folder(const char *folder, void (*visit)(void *ctx, const char *path, const char *name),
		void *ctx, struct err *e);

#endif
