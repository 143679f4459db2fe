/* Work on models without a mount: `moefs --check`, `moefs --refine` and `moefs --loss`; and which
 * stores are moefs' own. */
#ifndef MOEFS_FS_PROGRAM_OFFLINE_H
#define MOEFS_FS_PROGRAM_OFFLINE_H

#include "fs/base/text.h"
#include "fs/program/options.h"

#include <limits.h>

/* Checks each path, and each model in a folder of models. Fills `tables`, one table per model with
 * an empty line between, and `wrong`, a line for each model that cannot be mounted. 0, or an error
 * of the options. The caller frees both. */
int offline_check(const struct options *o, struct text *tables, struct text *wrong, struct err *e);

/* Fills `table` with a line for each model that other programs keep: NAME, a tab, its path, and if
 * it cannot be opened a tab and the reason. NAME is - for a folder that cannot be looked into.
 * -ENOENT: there is none. The caller frees the table. */
int offline_list_others(struct text *table, struct err *e);

/* Called with the result for a model, or with the reason of a failure. */
typedef void offline_report(const char *sentence, bool failed);

/* Refines the models, one after the other: makes a better store of the same bits for the next
 * mount. Shows a line of progress on a terminal. Blocks. A failure was either reported or, before
 * the first model, is in *e. */
int offline_refine(const struct options *o, offline_report *report, struct err *e);
/* Measures what the models' stores lose, in the same way. */
int offline_loss(const struct options *o, offline_report *report, struct err *e);

/* The folder of stores that cannot be beside their models: ~/.cache/moefs, or XDG_CACHE_HOME. */
void offline_cache_folder(char path[PATH_MAX]);
/* Whether a store lies in a MODEL.moefs folder or in the cache folder. Stores elsewhere, such as a
 * published one, which is also a model, were put there by somebody. False if that cannot be told.
 */
bool offline_store_is_own(const char *folder);

#endif
