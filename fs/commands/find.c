/* Which model a user means. See mounts.h. */
#include "fs/commands/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FUSE_MAGIC = 0x65735546 }; /* statfs(2)'s type for every FUSE file system */

/* ---- in a mount ---- */

/* The goal of a search in a mount, and its result. */
struct model_search {
	const char *name;	 /* a model's name; NULL: search by source */
	const char *source;	 /* a real path; NULL: any model */
	const struct stat *file; /* of the source */
	char *folder;		 /* the folder of the model found */
	bool exactly;		 /* its source is the path itself, not inside it */
	unsigned count;
	char names[256]; /* of the models found, as many as fit */
};

/* A model whose source lies inside the path matches, too: the path may be a hub's cache, or a
 * folder with one GGUF file. */
static bool find_fits(struct model_search *s, const char *folder, const char *name)
{
	char source[PATH_MAX];
	struct stat st;
	if (s->name)
		return strcmp(s->name, name) == 0;
	if (!s->source)
		return true;
	if (mounts_value(folder, "info/source", source, sizeof source) || stat(source, &st))
		return false;
	s->exactly = st.st_dev == s->file->st_dev && st.st_ino == s->file->st_ino;
	size_t length = strlen(s->source);
	return s->exactly || (strncmp(source, s->source, length) == 0 && source[length] == '/');
}

static int find_visit(void *ctx, const char *folder, const char *name)
{
	struct model_search *s = ctx;
	if (!find_fits(s, folder, name))
		return 0;
	size_t used = strlen(s->names);
	(void)snprintf(s->names + used, sizeof s->names - used, "%s%s", used ? ", " : "", name);
	s->count++;
	free(s->folder);
	s->folder = strdup(folder);
	return !s->folder || s->name || s->exactly ? 1 : 0;
}

/* Whether the mount has exactly one such model, or one whose source is the path itself. */
static bool find_in_mount(const struct mount_seen *m, struct model_search *s)
{
	s->count = 0;
	s->exactly = false;
	s->names[0] = 0;
	(void)mounts_models(m, find_visit, s);
	if (s->count && (s->count == 1 || s->exactly))
		return true;
	free(s->folder);
	s->folder = NULL;
	return false;
}

static int find_in_mounts(struct model_search *s, struct err *e)
{
	struct mounts_seen mounts;
	int code = mounts_read(&mounts, NULL, e);
	if (code)
		return code;
	for (size_t i = mounts.count; i-- > 0 && !s->folder;)
		if (mounts.list[i].uid == geteuid())
			(void)find_in_mount(&mounts.list[i], s);
	mounts_free(&mounts);
	return 0;
}

/* Lists the caller's models in the error, for the case that the name was mistyped. */
static int find_nothing(const char *model, struct err *e)
{
	struct mounts_seen mounts;
	struct err ignored;
	struct text names = {0};
	if (mounts_read(&mounts, NULL, &ignored))
		mounts = (struct mounts_seen){0};
	for (size_t i = 0; i < mounts.count; i++) {
		struct model_search s = {0};
		if (mounts.list[i].uid != geteuid())
			continue;
		(void)find_in_mount(&mounts.list[i], &s);
		text_string(&names, names.length && *s.names ? ", " : "");
		text_string(&names, s.names);
		free(s.folder);
	}
	mounts_free(&mounts);
	bool any = names.length > 0 && !names.failed;
	err_set(e, ENOENT, "you have no mounted model \"%s\", and there is no such file: %s%.*s",
		model,
		any ? "give the path of one, or the name of a mounted one: "
		    : "give the path of one",
		any ? (int)names.length : 0, any ? names.data : "");
	text_free(&names);
	return -ENOENT;
}

int find_only_model(const char *mountpoint, char **folder, struct err *e)
{
	struct mount_seen mount = {.point = (char *)mountpoint};
	struct model_search s = {0};
	if (!find_in_mount(&mount, &s) && s.count)
		return err_set(e, EINVAL, "%s has %u models; name one of them: %s", mountpoint,
			       s.count, s.names);
	*folder = s.folder;
	return s.folder ? 0 : err_set(e, ENOENT, "%s has no models", mountpoint);
}

/* ---- by a path ---- */

static bool find_is_fuse(const char *path)
{
	struct statfs fs;
	return statfs(path, &fs) == 0 && fs.f_type == FUSE_MAGIC;
}

static char *find_join(const char *folder, const char *name)
{
	char *path = NULL;
	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static bool find_file(const char *folder, const char *file)
{
	char *path = find_join(folder, file);
	bool there = path && access(path, F_OK) == 0;
	free(path);
	return there;
}

/* Does not resolve links: in a hub's cache they lead to names without meaning. */
static char *find_absolute(const char *path)
{
	char *here = *path == '/' ? NULL : getcwd(NULL, 0);
	char *whole = *path == '/' ? strdup(path) : here ? find_join(here, path) : NULL;
	free(here);
	return whole;
}

static int find_by_path(const char *given, char **folder, char **path, struct err *e)
{
	struct stat st;
	if (stat(given, &st))
		return err_sys(e, errno, "%s", given);
	char *real = realpath(given, NULL);
	if (!real)
		return err_sys(e, errno, "%s", given);
	int code = 0;
	if (find_is_fuse(real) && find_file(real, "info/state") && find_file(real, "sessions")) {
		*folder = real;
		return 0;
	}
	if (find_is_fuse(real) && find_file(real, "cache/budget") && find_file(real, "README")) {
		code = find_only_model(real, folder, e);
	} else {
		struct model_search s = {.source = real, .file = &st};
		code = find_in_mounts(&s, e);
		*folder = s.folder;
		*path = code || s.folder ? NULL : find_absolute(given);
		if (!code && !*folder && !*path)
			code = err_set(e, ENOMEM, "no memory for the name of a model");
	}
	free(real);
	return code;
}

/* Whether MODEL is a name. A slash after it, added by completion, is ignored. */
static bool find_is_name(const char *model, char *name, size_t size)
{
	size_t length = strlen(model);
	while (length > 1 && model[length - 1] == '/')
		length--;
	(void)snprintf(name, size, "%.*s", (int)length, model);
	return length < size && !strchr(name, '/') && (!model[length] || access(model, F_OK));
}

int find_model(const char *model, char **folder, char **path, struct err *e)
{
	char name[NAME_MAX + 1];
	struct model_search s = {.name = name};
	bool named = find_is_name(model, name, sizeof name);
	*folder = *path = NULL;
	int code = named ? find_in_mounts(&s, e) : 0;
	*folder = s.folder;
	if (code || s.folder)
		return code;
	if (named && access(model, F_OK))
		return find_nothing(name, e);
	return find_by_path(model, folder, path, e);
}
