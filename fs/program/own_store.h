/* Which folders of stores are moefs' own, so that whoever deletes a store there deletes nothing
 * that somebody has put elsewhere, such as a published store, which is a model as well. */
#ifndef MOEFS_FS_PROGRAM_OWN_STORE_H
#define MOEFS_FS_PROGRAM_OWN_STORE_H

#include <limits.h>
#include <stdbool.h>

/* ~/.cache/moefs, of XDG_CACHE_HOME if that is set. */
void own_store_cache(char path[PATH_MAX]);
/* Whether the store in this folder lies in a MODEL.moefs folder or below the cache folder. False
 * where that cannot be told. */
bool own_store_is(const char *folder);

#endif
