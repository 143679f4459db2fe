/* Folders of models: a model that comes into a mounted folder appears in the tree, and one that is
 * removed there goes. This is the loop's part: what it does with the results. A worker looks into
 * the folders (scan.h).
 */
#ifndef MOEFS_FS_MODELS_MODEL_FOLDERS_H
#define MOEFS_FS_MODELS_MODEL_FOLDERS_H

#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>

/* What a path of the command line mounts. A model: mounted and asked to load. `name`: its name in
 * the tree, NULL for its own. A folder of models: each of them, to be loaded by its first prompt;
 * the folder is watched from then on. Models in it that cannot be mounted get a line in
 * mount.skipped; an error if none is left. Before the loop; blocks for small files and the headers
 * of the weights. */
int models_add(struct mount *m, const char *path, const char *name, struct err *e);

/* Mounts what is found in the folders of other programs (engine/model.h), as a folder of models. An
 * error if there is none, or if nothing in them can be mounted. Before the loop; blocks. */
int models_add_others(struct mount *m, struct err *e);

/* Looks into the folders again and answers `req`, a write of `size` bytes, when that is done. */
int model_folders_rescan(struct mount *m, fuse_req_t req, size_t size, struct err *e);

/* ---- for the loop ---- */

/* Readable when something changes in a folder; -1: there are no folders, or no inotify. */
int model_folders_fd(const struct mount *m);
void model_folders_changed(struct mount *m);
/* Milliseconds until model_folders_expire has something to do; -1: nothing. */
int model_folders_timeout(const struct mount *m);
void model_folders_expire(struct mount *m);
void model_folders_stop(struct mount *m); /* when the mount ends: answers the waiting writes */
void model_folders_free(struct mount *m); /* after the workers have ended */

#endif
