/* Folders of stores that are moefs' own. See own_store.h. */
#include "fs/program/own_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void own_store_cache(char path[PATH_MAX])
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (cache && *cache == '/')
		(void)snprintf(path, PATH_MAX, "%s/moefs", cache);
	else
		(void)snprintf(path, PATH_MAX, "%s/.cache/moefs", home ? home : "");
}

static bool own_store_is_beside(const char *real)
{
	static const char end[] = ".moefs";
	const char *slash = strrchr(real, '/'), *name = slash;
	while (name && name > real && name[-1] != '/')
		name--;
	size_t length = name ? (size_t)(slash - name) : 0;
	return length > sizeof end - 1 &&
	       !strncmp(slash - (sizeof end - 1), end, sizeof end - 1);
}

bool own_store_is(const char *folder)
{
	char real[PATH_MAX], cache[PATH_MAX], real_cache[PATH_MAX];
	if (!realpath(folder, real))
		return false;
	if (own_store_is_beside(real))
		return true;
	own_store_cache(cache);
	if (!realpath(cache, real_cache))
		return false;
	size_t length = strlen(real_cache);
	return !strncmp(real, real_cache, length) && real[length] == '/';
}
