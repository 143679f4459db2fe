/* Whether the checkpoint that a store was made from is still there (model.h). */
#include "cache/store_inspect.h"
#include "engine/model.h"
#include "engine/source/identity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What is kept beside the store; else, of one beside a model, that model: MODELDIR.moefs/RECIPE. */
static bool store_find_path(const char *folder, char *path, size_t size)
{
	static const char beside[] = ".moefs";
	const size_t ending = strlen(beside);
	if (!store_checkpoint(folder, path, size, NULL))
		return true;
	const char *recipe = strrchr(folder, '/');
	size_t length = recipe ? (size_t)(recipe - folder) : 0;
	if (length <= ending || length - ending >= size ||
	    memcmp(recipe - ending, beside, ending) != 0)
		return false;
	(void)snprintf(path, size, "%.*s", (int)(length - ending), folder);
	return true;
}

static enum store_of store_compare(const char *folder, const struct store_seen *seen,
				   const struct source_state *now)
{
	uint64_t number[2];
	struct identity id;
	source_number(now, number);
	if (!memcmp(number, seen->key.fingerprint, sizeof number))
		return STORE_OF_SAME;
	if (seen->kind == STORE_IN_PLACE) /* its number is of all sizes and times */
		return seen->key.fingerprint[0] || seen->key.fingerprint[1] ? STORE_OF_CHANGED
									    : STORE_OF_UNKNOWN;
	if (identity_find(&id, folder, seen->key.fingerprint, NULL))
		return STORE_OF_UNKNOWN;
	static const enum store_of says[] = {[IDENTITY_SAME] = STORE_OF_SAME,
					     [IDENTITY_MAYBE] = STORE_OF_TOUCHED,
					     [IDENTITY_OTHER] = STORE_OF_CHANGED};
	enum store_of of = says[identity_compare(&id, now)];
	identity_free(&id);
	return of;
}

/* Before its conversion has begun a store to be knows no checkpoint: it will be of the one that the
 * store is of which is refined, beside it. */
static bool store_look_beside(const char *folder, char *beside, size_t size,
			      struct store_seen *seen)
{
	const size_t length = strlen(folder), ending = strlen(STORE_REFINED);
	bool known = seen->key.fingerprint[0] || seen->key.fingerprint[1];
	if (known || seen->kind != STORE_UNFINISHED || length <= ending ||
	    strcmp(folder + length - ending, STORE_REFINED) != 0)
		return false;
	int n = snprintf(beside, size, "%.*s", (int)(length - ending), folder);
	return n < (int)size && !store_inspect(beside, seen, NULL);
}

enum store_of model_store_of(const char *folder, char *path, size_t size)
{
	struct store_seen seen;
	struct source_state now;
	struct stat st;
	char beside[PATH_MAX];
	*path = 0;
	if (store_inspect(folder, &seen, NULL) || !store_find_path(folder, path, size))
		return STORE_OF_UNKNOWN;
	if (stat(path, &st))
		return errno == ENOENT || errno == ENOTDIR ? STORE_OF_GONE : STORE_OF_UNKNOWN;
	if (store_look_beside(folder, beside, sizeof beside, &seen))
		folder = beside;
	/* A folder that has no checkpoint any more cannot be looked at as one. */
	enum store_of of = source_look(&now, path, NULL) ? STORE_OF_CHANGED
							 : store_compare(folder, &seen, &now);
	source_forget(&now);
	return of;
}
