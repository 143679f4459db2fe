/* Going through a mount's models. */
#include "fs/mount/mount.h"

struct mounted *mounted_next(const struct mount *m, const struct mounted *after)
{
	for (size_t i = after ? after->index + 1 : 0; i < m->model_count; i++)
		if (m->models[i])
			return m->models[i];
	return NULL;
}
