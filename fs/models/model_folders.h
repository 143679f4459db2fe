/* Folders of models. A model added to a mounted folder appears in the tree, and a removed one
 * disappears. This is the loop's part, which applies the results. A worker searches the folders
 * (scan.h). */
#ifndef MOEFS_FS_MODELS_MODEL_FOLDERS_H
#define MOEFS_FS_MODELS_MODEL_FOLDERS_H

#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>

/* Mounts a path of the command line. A model is mounted and asked to load. `name`: its name in the
 * tree; NULL: its own. Of a folder of models each model is mounted, to be loaded by its first
 * prompt, and the folder is watched from then on. Models in it that cannot be mounted get a line in
 * mount.skipped; it is an error if no model is left. Call this before the loop runs. Blocks for
 * small files and the headers of the weights. */
int models_add(struct mount *m, const char *path, const char *name, struct err *e);

/* Mounts the models in the folders of other programs (engine/model.h), like a folder of models. An
 * error if there are none, or none can be mounted. Call this before the loop runs. Blocks. */
int models_add_others(struct mount *m, struct err *e);

/* Searches the folders again. Then answers `req`, a write of `size` bytes. */
int model_folders_rescan(struct mount *m, fuse_req_t req, size_t size, struct err *e);

/* ---- for the loop ---- */

/* Readable when something changes in a folder; -1: there are no folders, or no inotify. */
int model_folders_fd(const struct mount *m);
void model_folders_changed(struct mount *m);
/* Milliseconds until model_folders_expire has something to do; -1: nothing. */
int model_folders_timeout(const struct mount *m);
void model_folders_expire(struct mount *m);
void model_folders_stop(struct mount *m); /* at the mount's end: answers the waiting writes */
void model_folders_free(struct mount *m); /* after the workers have ended */

#endif
