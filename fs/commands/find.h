/* Which model is meant: one that is mounted, or one that is to be. */
#ifndef MOEFS_FS_COMMANDS_FIND_H
#define MOEFS_FS_COMMANDS_FIND_H

#include "cache/err.h"

/* The folder of a mounted model (malloc'ed), or NULL in *folder and in *path (malloc'ed, absolute)
 * what is to be mounted. MODEL is the name of a model in a mount of the caller's, of several the
 * one that was mounted last; or, if it has a slash or none is called so, a path: the folder of a
 * mounted model, a mount of one model, or a checkpoint or GGUF file, which some mount of the
 * caller's may have. -ENOENT: it is none of these. */
int find_model(const char *model, char **folder, char **path, struct err *e);
/* The folder of a mount's only model (malloc'ed). -EINVAL: it has several, and e names some. */
int find_only(const char *mountpoint, char **folder, struct err *e);

#endif
