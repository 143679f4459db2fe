/* Work on models without a mount (`moefs --check`, `--refine` and `--loss`), and which stores are
 * moefs' own. */
#ifndef MOEFS_FS_PROGRAM_OFFLINE_H
#define MOEFS_FS_PROGRAM_OFFLINE_H

#include "fs/base/text.h"
#include "fs/program/options.h"

#include <limits.h>

/* Checks each path, and each model in a folder of models. Fills `tables` with one table per model,
 * separated by empty lines, and `wrong` with a line for each model that cannot be mounted. Returns
 * 0, or an error in the options. The caller frees both texts. */
int offline_check(const struct options *o, struct text *tables, struct text *wrong, struct err *e);

/* Fills `table` with a line for each model of another program: NAME, a tab, its path, and if it
 * cannot be opened, a tab and the reason. NAME is - for a folder that cannot be read. -ENOENT:
 * there is no such model. The caller frees the table. */
int offline_list_others(struct text *table, struct err *e);

/* Called with a model's result, or with the reason of its failure. */
typedef void offline_report(const char *sentence, bool failed);

/* Refines the models, one after the other: makes a better store of the same size for the next
 * mount. Shows a line of progress on a terminal. Blocks. A failure is either reported or, before
 * the first model, returned in *e. */
int offline_refine(const struct options *o, offline_report *report, struct err *e);
/* Measures the loss of the models' stores, in the same way. */
int offline_loss(const struct options *o, offline_report *report, struct err *e);

/* The folder for stores that cannot lie beside their models: ~/.cache/moefs, or in
 * XDG_CACHE_HOME. */
void offline_cache_folder(char path[PATH_MAX]);
/* Whether a store lies in a MODEL.moefs folder or in the cache folder. A store elsewhere was put
 * there by a user, such as a published store, which is also a model. False if that cannot be
 * determined. */
bool offline_store_is_own(const char *folder);

#endif
