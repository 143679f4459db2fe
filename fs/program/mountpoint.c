/* The place where to mount. See mountpoint.h. */
#include "fs/program/mountpoint.h"
#include "fs/base/proc.h"
#include "fs/program/unmount.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static const char ours[] = "fuse.moefs";

/* ---- what is mounted ---- */

struct looked_up {
	const char *path;
	char type[64]; /* of the last mount there; empty: nothing is mounted there */
};

static int note_type(void *ctx, const struct mountinfo *m)
{
	struct looked_up *l = ctx;
	if (strcmp(m->point, l->path) == 0)
		(void)snprintf(l->type, sizeof l->type, "%s", m->type);
	return 0;
}

/* Where the table cannot be read, it is as if nothing were mounted. */
static void look_up(struct looked_up *l, const char *path)
{
	*l = (struct looked_up){.path = path};
	(void)proc_each_mount(NULL, note_type, l);
}

/* 0 or an errno. statvfs asks the file system itself: of one that is dead the kernel may remember
 * enough for stat to succeed. */
static int look_at(const char *path, struct stat *st)
{
	struct statvfs fs;
	return stat(path, st) || statvfs(path, &fs) ? errno : 0;
}

/* Where it can be made out, which needs no look at the mount itself. */
static void make_real(char **path)
{
	size_t length = strlen(*path);
	while (length > 1 && (*path)[length - 1] == '/')
		(*path)[--length] = 0;
	char *real = realpath(*path, NULL);
	if (!real)
		return;
	free(*path);
	*path = real;
}

/* What is mounted there would be hidden, and by a second moefs the first. An automount is there to
 * be mounted on. */
static int refuse_second(const char *path, const char *type, struct err *e)
{
	if (!*type || !strcmp(type, "autofs"))
		return 0;
	if (!strcmp(type, ours))
		return err_set(e, EBUSY,
			       "%s: a moefs is mounted there already; unmount it with moefs umount "
			       "%s, or mount somewhere else",
			       path, path);
	return err_set(e, EBUSY,
		       "%s: a file system of type %s is mounted there already, and would be "
		       "hidden; unmount it, or mount on a folder in it",
		       path, type);
}

static bool ends_with(const char *name, const char *end)
{
	size_t length = strlen(name), tail = strlen(end);
	return length > tail && !strcmp(name + length - tail, end);
}

/* Whoever names models alone, and forgets where to mount them, names a model last. */
static int refuse_model(const char *path, struct err *e)
{
	DIR *folder = opendir(path); /* NULL: what is hidden there nobody of us can know */
	const struct dirent *d;
	bool found = false;
	while (folder && !found && (d = readdir(folder)))
		found = !strcmp(d->d_name, "config.json") || ends_with(d->d_name, ".safetensors") ||
			ends_with(d->d_name, ".gguf");
	if (folder)
		(void)closedir(folder);
	if (!found)
		return 0;
	return err_set(
		e, EINVAL,
		"%s is a model's folder, and would be hidden: the last word is where to mount, "
		"such as an empty folder",
		path);
}

int mountpoint_prepare(char **mountpoint, struct err *e)
{
	struct stat st;
	struct looked_up there;
	struct err ignored; /* what is said is that its program is gone */
	make_real(mountpoint);
	int code = look_at(*mountpoint, &st);
	look_up(&there, *mountpoint);
	if (code == ENOTCONN && !strcmp(there.type, ours) &&
	    unmount(*mountpoint, true, &ignored) == 0) {
		code = look_at(*mountpoint, &st);
		look_up(&there, *mountpoint);
	}
	if (code == ENOTCONN)
		return err_set(
			e, code,
			"%s: a file system whose program is gone is mounted there; unmount it "
			"with fusermount3 -u %s",
			*mountpoint, *mountpoint);
	if (code == ENOENT)
		return err_set(e, code, "%s does not exist; make it with mkdir", *mountpoint);
	if (code)
		return err_sys(e, code, "cannot mount on %s", *mountpoint);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ENOTDIR, "%s is not a directory: mount on one", *mountpoint);
	code = refuse_second(*mountpoint, there.type, e);
	return code ? code : refuse_model(*mountpoint, e);
}

int mountpoint_check_empty(const char *mountpoint, struct err *e)
{
	DIR *folder = opendir(mountpoint);
	const struct dirent *d;
	char first[sizeof d->d_name] = "";
	while (folder && !*first && (d = readdir(folder)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			(void)snprintf(first, sizeof first, "%s", d->d_name);
	if (folder)
		(void)closedir(folder);
	if (!*first)
		return 0;
	return err_set(e, ENOTEMPTY,
		       "%s is not empty: it has %s in it, which the mount would hide; mount on an "
		       "empty folder, or with -o nonempty",
		       mountpoint, first);
}

static bool is_inside(const char *mountpoint, const char *real)
{
	size_t length = strlen(mountpoint);
	return !strncmp(real, mountpoint, length) &&
	       (real[length] == '/' || real[length] == 0 || length == 1);
}

int mountpoint_check_model(const char *mountpoint, const char *model, struct err *e)
{
	char *real = realpath(model, NULL);
	if (!real && errno == ENOENT)
		return err_set(e, ENOENT, "%s does not exist: download it first", model);
	if (!real && errno != ENOTDIR)
		return err_sys(e, errno, "%s", model);
	if (!real)
		return err_set(e, ENOTDIR, "%s does not exist: what is before the last / is a file",
			       model);
	bool inside = is_inside(mountpoint, real);
	free(real);
	if (inside)
		return err_set(e, EINVAL,
			       "%s would be hidden by the mount on %s: mount somewhere else", model,
			       mountpoint);
	return 0;
}

int mountpoint_check_log(const char *mountpoint, const char *log, struct err *e)
{
	const char *slash = strrchr(log, '/');
	if (!slash)
		return 0; /* the system's log */
	char *folder = strndup(log, (size_t)(slash - log) + 1);
	char *real = folder ? realpath(folder, NULL) : NULL;
	bool inside = real && is_inside(mountpoint, real);
	free(folder);
	free(real);
	if (inside)
		return err_set(e, EINVAL,
			       "-o log=%s: lies in the mount itself; keep the log elsewhere", log);
	return 0; /* where the folder is missing, opening the log says so */
}
