/* Which model is meant. See find.h. */
#include "fs/commands/find.h"
#include "fs/commands/mounts.h"
#include "fs/base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FUSE_MAGIC = 0x65735546 }; /* what statfs(2) says of every FUSE file system */

static char *join(const char *folder, const char *name)
{
	char *path = NULL;
	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "no memory for the name of a model");
}

/* ---- in a mount ---- */

/* What a mount is looked through for, and what was found. */
struct search {
	const char *name;	 /* a model's; NULL: by its source */
	const char *source;	 /* a real path; NULL: any model */
	const struct stat *file; /* the same, looked at */
	char *folder;		 /* of the one found */
	bool exactly;		 /* it is that source, and not inside it */
	unsigned count;
	char names[256]; /* of those found, as many as there is room for */
};

static bool is_inside(const char *path, const char *folder)
{
	size_t length = strlen(folder);
	return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* A hub's cache, or a folder with one GGUF file, has what is mounted inside. */
static bool fits(struct search *s, const char *folder, const char *name)
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
	return s->exactly || is_inside(source, s->source);
}

static int visit(void *ctx, const char *folder, const char *name)
{
	struct search *s = ctx;
	if (!fits(s, folder, name))
		return 0;
	size_t used = strlen(s->names);
	(void)snprintf(s->names + used, sizeof s->names - used, "%s%s", used ? ", " : "", name);
	s->count++;
	free(s->folder);
	s->folder = strdup(folder);
	return !s->folder || s->name || s->exactly ? 1 : 0;
}

/* Whether the mount has one, and one alone that is not more exactly meant than others. */
static bool has(const struct mount_seen *m, struct search *s)
{
	s->count = 0;
	s->exactly = false;
	s->names[0] = 0;
	(void)mounts_models(m, visit, s);
	if (s->count && (s->count == 1 || s->exactly))
		return true;
	free(s->folder);
	s->folder = NULL;
	return false;
}

static int search_mounts(struct search *s, struct err *e)
{
	struct mounts_seen mounts;
	int code = mounts_read(&mounts, NULL, e);
	if (code)
		return code;
	for (size_t i = mounts.count; i-- > 0 && !s->folder;)
		if (mounts.list[i].uid == geteuid())
			(void)has(&mounts.list[i], s);
	mounts_free(&mounts);
	return 0;
}

/* Those there are to be asked; of a mount with very many, as many as a search has room for. */
static void names_of_mine(struct text *names)
{
	struct mounts_seen mounts;
	struct err ignored;
	if (mounts_read(&mounts, NULL, &ignored))
		return;
	for (size_t i = 0; i < mounts.count; i++) {
		struct search s = {0};
		if (mounts.list[i].uid != geteuid())
			continue;
		(void)has(&mounts.list[i], &s);
		text_string(names, names->length && *s.names ? ", " : "");
		text_string(names, s.names);
		free(s.folder);
	}
	mounts_free(&mounts);
}

/* A mistyped name is seen beside the right ones. */
static int no_model(const char *model, struct err *e)
{
	struct text names = {0};
	names_of_mine(&names);
	bool any = names.length > 0;
	text_add(&names, "", 1);
	any = any && !names.failed;
	err_set(e, ENOENT, "no mount of yours has a model '%s', and there is no such file: %s%s%s",
		model, any ? "mounted are " : "give the path of one", any ? names.data : "",
		any ? "; any other is given by its path" : "");
	text_free(&names);
	return -ENOENT;
}

int find_only(const char *mountpoint, char **folder, struct err *e)
{
	struct mount_seen mount = {.point = (char *)mountpoint};
	struct search s = {0};
	if (!has(&mount, &s) && s.count)
		return err_set(e, EINVAL, "there are %u models: say which: %s", s.count, s.names);
	*folder = s.folder;
	return s.folder ? 0 : err_set(e, ENOENT, "%s: no model is mounted there", mountpoint);
}

/* ---- by a path ---- */

static bool is_fuse(const char *path)
{
	struct statfs fs;
	return statfs(path, &fs) == 0 && fs.f_type == FUSE_MAGIC;
}

static bool has_file(const char *folder, const char *file)
{
	char *path = join(folder, file);
	bool there = path && access(path, F_OK) == 0;
	free(path);
	return there;
}

/* The name as it is, since links in a hub's cache lead to names that say nothing. */
static char *absolute(const char *path)
{
	char *here = *path == '/' ? NULL : getcwd(NULL, 0);
	char *whole = *path == '/' ? strdup(path) : here ? join(here, path) : NULL;
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
	if (is_fuse(real) && has_file(real, "info/state") && has_file(real, "sessions")) {
		*folder = real;
		return 0;
	}
	if (is_fuse(real) && has_file(real, "cache/budget") && has_file(real, "README")) {
		code = find_only(real, folder, e);
	} else {
		struct search s = {.source = real, .file = &st};
		code = search_mounts(&s, e);
		*folder = s.folder;
		*path = code || s.folder ? NULL : absolute(given);
		if (!code && !*folder && !*path)
			code = no_memory(e);
	}
	free(real);
	return code;
}

/* A name with what completion of a folder's name leaves behind it is still a name. */
static bool is_name(const char *model, char *name, size_t size)
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
	struct search s = {.name = name};
	bool named = is_name(model, name, sizeof name);
	*folder = *path = NULL;
	int code = named ? search_mounts(&s, e) : 0;
	*folder = s.folder;
	if (code || s.folder)
		return code;
	if (named && access(model, F_OK))
		return no_model(name, e);
	return find_by_path(model, folder, path, e);
}
