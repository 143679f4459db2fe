/* See mountpoint.h. */
#include "fs/program/mountpoint.h"
#include "fs/base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ours[] = "fuse.moefs";

/* ---- unmounting ---- */

enum { NOT_FOUND = 127 };

static void mountpoint_exec_helper(const char *point, bool lazily, int out)
{
	const char *arguments[6] = {"fusermount3", "-u"};
	int n = 2;
	if (lazily)
		arguments[n++] = "-z";
	arguments[n++] = "--";
	arguments[n] = point;
	if (dup2(out, STDERR_FILENO) >= 0)
		execvp(*arguments, (char *const *)arguments);
	_exit(NOT_FOUND);
}

/* The helper's standard error is a file in memory, whose first line is the reason of a failure. */
static int mountpoint_run_helper(const char *point, bool lazily, struct err *e)
{
	char said[512];
	int status = 0, out = memfd_create("fusermount3", MFD_CLOEXEC);
	if (out < 0)
		return err_sys(e, errno, "cannot make a file in memory");
	pid_t child = fork();
	if (child == 0)
		mountpoint_exec_helper(point, lazily, out);
	int code = child < 0 ? errno : 0;
	while (!code && waitpid(child, &status, 0) < 0)
		code = errno == EINTR ? 0 : errno;
	ssize_t n = pread(out, said, sizeof said - 1, 0);
	said[n > 0 ? n : 0] = 0;
	said[strcspn(said, "\n")] = 0;
	close(out);
	if (code)
		return err_sys(e, code, "cannot start fusermount3");
	if (status == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
		return err_set(e, ENOENT,
			       "fusermount3 is missing: install the package fuse3 (apt install "
			       "fuse3)");
	return err_set(e, strstr(said, strerror(EBUSY)) ? EBUSY : EPERM, "%s: %s", point, said);
}

int mountpoint_unmount(const char *point, bool lazily, struct err *e)
{
	if (umount2(point, UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EBUSY)
		return err_set(e, EBUSY, "%s is in use", point);
	return mountpoint_run_helper(point, lazily, e);
}

/* ---- the mountpoint ---- */

struct mountpoint_type {
	const char *path;
	char type[64]; /* of the newest mount there; empty: no mount */
};

static int mountpoint_note_type(void *ctx, const struct mountinfo *m)
{
	struct mountpoint_type *t = ctx;
	if (strcmp(m->point, t->path) == 0)
		(void)snprintf(t->type, sizeof t->type, "%s", m->type);
	return 0;
}

/* Checks a path: returns 0 or an errno, and the mount there (none, if the table cannot be read).
 * statvfs asks the file system itself; for a dead one, stat may succeed with attributes that the
 * kernel remembers. */
static int mountpoint_look(const char *path, struct stat *st, struct mountpoint_type *t)
{
	struct statvfs fs;
	*t = (struct mountpoint_type){.path = path};
	int code = stat(path, st) || statvfs(path, &fs) ? errno : 0;
	(void)proc_each_mount(NULL, mountpoint_note_type, t);
	return code;
}

/* Makes *path a real path if possible, without accessing the mount itself. */
static void mountpoint_make_real(char **path)
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

static bool mountpoint_ends_with(const char *name, const char *end)
{
	size_t length = strlen(name), tail = strlen(end);
	return length > tail && !strcmp(name + length - tail, end);
}

/* A user who forgets the mountpoint ends the command line with a model. */
static int mountpoint_refuse_model(const char *path, struct err *e)
{
	DIR *folder = opendir(path); /* NULL: its files are unknown */
	const struct dirent *d;
	bool found = false;
	while (folder && !found && (d = readdir(folder)))
		found = !strcmp(d->d_name, "config.json") ||
			mountpoint_ends_with(d->d_name, ".safetensors") ||
			mountpoint_ends_with(d->d_name, ".gguf");
	if (folder)
		(void)closedir(folder);
	if (!found)
		return 0;
	return err_set(e, EINVAL,
		       "%s is a model's folder, which the mount would hide: the last word must be "
		       "the mountpoint, such as "
		       "an empty folder",
		       path);
}

int mountpoint_prepare(char **mountpoint, struct err *e)
{
	struct stat st;
	struct mountpoint_type there;
	struct err ignored; /* ENOTCONN is reported below */
	mountpoint_make_real(mountpoint);
	const char *path = *mountpoint;
	int code = mountpoint_look(path, &st, &there);
	if (code == ENOTCONN && !strcmp(there.type, ours) &&
	    mountpoint_unmount(path, true, &ignored) == 0)
		code = mountpoint_look(path, &st, &there);
	if (code == ENOTCONN)
		return err_set(
			e, code,
			"%s has a mount whose program has ended; unmount it with fusermount3 -u %s",
			path, path);
	if (code == ENOENT)
		return err_set(e, code, "%s does not exist; make it with mkdir", path);
	if (code)
		return err_sys(e, code, "cannot mount on %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ENOTDIR, "%s is not a folder: mount on one", path);
	if (!strcmp(there.type, ours))
		return err_set(e, EBUSY,
			       "%s: a moefs is mounted there already; unmount it with moefs umount "
			       "%s, or mount somewhere "
			       "else",
			       path, path);
	if (*there.type &&
	    strcmp(there.type, "autofs") != 0) /* an automount is meant to be mounted on */
		return err_set(e, EBUSY,
			       "%s: a file system of type %s is mounted there already, and the "
			       "mount would hide it; unmount "
			       "it, or mount on a folder in it",
			       path, there.type);
	return mountpoint_refuse_model(path, e);
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
	return err_set(
		e, ENOTEMPTY,
		"%s is not empty: the mount would hide %s; mount on an empty folder, or with "
		"-o nonempty",
		mountpoint, first);
}

static bool mountpoint_is_inside(const char *mountpoint, const char *real)
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
		return err_set(e, ENOTDIR,
			       "%s does not exist: the part before the last / is a file", model);
	bool inside = mountpoint_is_inside(mountpoint, real);
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
		return 0; /* journal */
	char *folder = strndup(log, (size_t)(slash - log) + 1);
	char *real = folder ? realpath(folder, NULL) : NULL;
	bool inside = real && mountpoint_is_inside(mountpoint, real);
	free(folder);
	free(real);
	if (inside)
		return err_set(e, EINVAL, "-o log=%s is inside the mount; keep the log elsewhere",
			       log);
	return 0; /* if the folder is missing, opening the log reports that */
}

/* ---- what mounting needs from the system: its device, and the right to mount or a helper that has
 * it ---- */

static int mountpoint_check_device(struct err *e)
{
	static const char device[] = "/dev/fuse";
	struct stat st;
	int fd = open(device, O_RDWR | O_CLOEXEC), code = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (!code)
		return 0;
	if (code == ENOENT || code == ENODEV || code == ENXIO)
		return err_set(
			e, ENODEV,
			"/dev/fuse is missing: load the module with `modprobe fuse`, or start "
			"the container with --device /dev/fuse --cap-add SYS_ADMIN");
	if (code == EPERM)
		return err_set(e, code,
			       "this container may not use /dev/fuse: start it with "
			       "--device /dev/fuse --cap-add SYS_ADMIN");
	if (code == EACCES && !stat(device, &st))
		return err_set(e, code,
			       "you may not open /dev/fuse: its mode is %04o, and it belongs to "
			       "user %u; run "
			       "`chmod 666 /dev/fuse` as root",
			       (unsigned)(st.st_mode & 07777), (unsigned)st.st_uid);
	return err_sys(e, code, "cannot open /dev/fuse");
}

/* Whether this process may mount by itself (CAP_SYS_ADMIN, capabilities(7)). */
static bool mountpoint_may_mount(void)
{
	enum { SYS_ADMIN = 21 };
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	unsigned long long effective = 0;
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "CapEff:", 7))
			effective = strtoull(line + 7, NULL, 16);
	if (f)
		(void)fclose(f);
	return effective >> SYS_ADMIN & 1;
}

/* Finds a program like execvp. */
static bool mountpoint_find_program(const char *program, struct stat *st)
{
	const char *path = getenv("PATH");
	char full[4096];
	while (path && *path) {
		size_t length = strcspn(path, ":");
		(void)snprintf(full, sizeof full, "%.*s/%s", (int)length, path, program);
		if (access(full, X_OK) == 0 && stat(full, st) == 0)
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}

static int mountpoint_check_helper(struct err *e)
{
	struct stat st;
	if (!mountpoint_find_program("fusermount3", &st))
		return err_set(
			e, ENOENT,
			"fusermount3 is missing: install the package fuse3 (apt install fuse3)");
	if (geteuid() == 0)
		return err_set(e, EPERM,
			       "root may not mount here (CAP_SYS_ADMIN is missing): start the "
			       "container with --cap-add SYS_ADMIN");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return err_set(e, EPERM,
			       "fusermount3 may not become root here: this process was started "
			       "with no_new_privs set; "
			       "mount from a process without it");
	if (st.st_uid != 0 || !(st.st_mode & S_ISUID))
		return err_set(
			e, EPERM,
			"fusermount3 is not set-user-ID root, which it needs to mount for you: "
			"install the package fuse3 again");
	return 0;
}

/* Checks fusermount3's requirements for the directory. */
static int mountpoint_check_owner(const char *mountpoint, struct err *e)
{
	struct stat st;
	if (stat(mountpoint, &st))
		return err_sys(e, errno, "cannot mount on %s", mountpoint);
	bool sticky = st.st_mode & S_ISVTX && st.st_uid != getuid();
	if (!sticky && access(mountpoint, W_OK) == 0)
		return 0;
	return err_set(e, EACCES,
		       "cannot mount on %s: it belongs to user %u%s; mount on a folder of your own",
		       mountpoint, (unsigned)st.st_uid,
		       sticky ? " and is sticky" : ", and you may not write to it");
}

static bool mountpoint_others_allowed(void)
{
	static const char words[] = "user_allow_other";
	FILE *f = fopen("/etc/fuse.conf", "re");
	char *line = NULL;
	size_t size = 0;
	bool allowed = false;
	while (f && getline(&line, &size, f) > 0) {
		char *save = NULL, *word = strtok_r(line, " \t\n", &save);
		allowed |= word && !strcmp(word, words) && !strtok_r(NULL, " \t\n", &save);
	}
	free(line);
	if (f)
		(void)fclose(f);
	return allowed;
}

int mountpoint_check_fuse(const char *mountpoint, bool others, struct err *e)
{
	int code = mountpoint_check_device(e);
	if (code || mountpoint_may_mount())
		return code;
	code = mountpoint_check_helper(e);
	if (!code)
		code = mountpoint_check_owner(mountpoint, e);
	if (!code && others && !mountpoint_others_allowed())
		code = err_set(e, EPERM,
			       "-o allow_other: users may not let others in on this system; root "
			       "can allow it "
			       "by adding the line user_allow_other to /etc/fuse.conf");
	return code;
}
