/* How far a mount's models are, as a line with a bar for a terminal, and in words for
 * info/progress. */
#ifndef MOEFS_FS_PROGRESS_H
#define MOEFS_FS_PROGRESS_H

#include "fs/mount/mount.h"

/* The first model that is converted, checked or warmed; false: none is. */
bool progress_line(const struct mount *m, char *line, size_t size);
/* The same of one model, by its own name. */
bool progress_of(const struct model *m, char *line, size_t size);
/* "idle", what model_fact says of a conversion, or "warming 42 % 12/30 experts". */
void progress_words(const struct model *m, char *words, size_t size);

#endif
