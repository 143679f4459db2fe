/* Looking into folders of models for those that are not in the tree yet. Sees nothing of the mount,
 * so that a worker can do it; what it finds, the loop puts into the tree (rescan.c). */
#ifndef MOEFS_FS_SCAN_H
#define MOEFS_FS_SCAN_H

#include "fs/models/models.h"

struct known { /* a model that is in the tree, in one of the folders */
	char *path;
	uint32_t index; /* in mount.models */
	bool gone;	/* out: nothing is there any more */
};

struct scan {
	struct engine *engine;
	char *const *folders; /* the caller's */
	size_t folder_count;
	struct known *known;
	size_t known_count;
	/* Where changes are noticed (inotify): of the folders, and, once, of each folder in them
	 * that is no model yet; -1: nowhere. */
	int notices;
	/* What changed just now is left alone: it may be half copied, and complete only by its
	 * looks. What was said of it before still holds. */
	bool patient;
	struct text before; /* a copy of mount.skipped, where it is patient */

	/* What came of it: */
	struct found *found; /* opened, and not in the tree yet */
	size_t found_count;
	struct text skipped; /* a line for each that was meant to be a model and cannot be one */
	bool changing;	     /* something was left alone */
	struct err failed;   /* of a folder that cannot be looked into; code 0: none */
};

void scan_run(struct scan *s);	/* blocks */
void scan_free(struct scan *s); /* with what was found and not taken (models_take) */

/* Calls for each path in a folder, in their order, but for hidden ones. Blocks. */
int scan_inside(const char *folder, void (*visit)(void *ctx, const char *path, const char *name),
		void *ctx, struct err *e);

#endif
