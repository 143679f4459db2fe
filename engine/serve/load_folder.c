/* Making room for a store's folder. */
#include "engine/serve/internal.h"
#include "engine/serve/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int load_make_parents(const char *folder, struct err *e)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", folder);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0755) && errno != EEXIST)
			return err_sys(e, errno,
				       "%s: this folder for the store cannot be created; choose "
				       "another with -o store=",
				       path);
		*slash = '/';
	}
	return 0;
}
