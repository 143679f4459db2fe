/* Sources that are their own store (cache/store_in_place.h), and the folder for notes about such a
 * store. */
#include "cache/store_inspect.h"
#include "cache/store_in_place.h"
#include "engine/convert/convert.h"
#include "engine/model/model_state.h"
#include "engine/model/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int load_open_in_place(const struct model *m, const struct source_state *now, struct store **out,
		       struct plan *plan, struct err *e)
{
	struct convert_in_place v = {
		.directory = m->id.directory,
		.config = &m->id.config,
		.recipe = m->id.recipe,
		.kernels = m->engine->kernels,
	};
	if (!m->id.recipe.as_published)
		return err_set(e, ENOTSUP, "%s: is converted", m->id.directory);
	source_number(now, v.number);
	int failed = convert_in_place_open(out, plan, &v, e);
	if (failed || source_unchanged(now)) /* the opened files are the ones that were looked at */
		return failed;
	store_close(*out);
	plan_free(plan);
	return err_set(e, EAGAIN, "%s: was changed just now; try again", m->id.directory);
}

bool load_may_write(const struct model *m, int folder)
{
	bool beside = folder % STORE_PLACES == 1;
	return m->stored.folders[folder] &&
	       !(beside && m->id.place.keeper && !m->engine->options.store);
}

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

static bool load_make_folder(const char *folder)
{
	struct err none; /* then no notes are kept */
	return !load_make_parents(folder, &none) && (!mkdir(folder, 0700) || errno == EEXIST);
}

int load_keep_in_folder(struct model *m, struct err *e)
{
	if (!store_is_in_place(m->stored.store))
		return 0;
	int i = 0;
	while (i < STORE_PLACES && load_may_write(m, i) && !load_make_folder(m->stored.folders[i]))
		i++;
	if (i == STORE_PLACES || !load_may_write(m, i))
		i = 0; /* no folder, so no notes are kept */
	atomic_store(&m->stored.folder, i);
	return store_in_place_use_folder(m->stored.store, m->stored.folders[i], e);
}

void load_keep_checkpoint(const struct model *m)
{
	struct err ignored; /* as of heat */
	int at = atomic_load(&m->stored.folder);
	if (load_may_write(m, at))
		(void)store_keep_checkpoint(m->stored.folders[at], m->id.directory, &ignored);
}

void load_keep_sums(const struct model *m)
{
	struct err ignored; /* as of heat */
	if (m->stored.store && store_is_in_place(m->stored.store))
		(void)store_in_place_save_sums(m->stored.store, &ignored);
}
