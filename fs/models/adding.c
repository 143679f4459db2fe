/* What is mounted by the command line: a model, or a folder of them (mount.h). */
#include "fs/models/models.h"
#include "fs/models/rescan.h"

#include <errno.h>
#include <sys/stat.h>

static int add_one(struct mount *m, const char *path, const char *name, struct err *e)
{
	struct found f;
	int failed = models_find(&f, m->engine, path, true, e);
	if (!failed)
		failed = models_take(m, &f, name, e);
	if (!failed)
		model_load(m->models[m->model_count - 1]->model);
	return failed;
}

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int add_folder(struct mount *m, const char *path, struct err *e)
{
	int failed = rescan_add_folder(m, path, e);
	if (failed != -ENOENT)
		return failed;
	int found = model_locate(path, e);
	if (found != -ENOENT)
		return found;
	return err_set(e, ENOENT,
		       "%s is no checkpoint and holds none: there is no config.json and no GGUF "
		       "file in it or in a folder of it",
		       path);
}

int models_add(struct mount *m, const char *path, const char *name, struct err *e)
{
	int found = model_locate(path, e);
	if (!found)
		return add_one(m, path, name, e);
	if (name) {
		struct err why = *e;
		return err_set(e, EINVAL, "-o name=%s is for one model: %s", name, why.text);
	}
	return is_folder(path) ? add_folder(m, path, e) : found;
}
