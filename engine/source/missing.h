/* The files of weights that a source should have and has not, all of them: opening it names the
 * first alone (package.h). Reads names, and the index of a checkpoint in shards. */
#ifndef MOEFS_ENGINE_SOURCE_MISSING_H
#define MOEFS_ENGINE_SOURCE_MISSING_H

/* Each by its name in the folder, once. A file that stands for another, as git-lfs leaves it, is
 * not there. What cannot be made out is not told. */
void source_missing_files(const char *path, void (*each)(void *ctx, const char *name), void *ctx);

#endif
