/* The place where to mount. See mountpoint.h. */
#include "fs/program/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ours[] = "fuse.moefs";

/* ---- what is mounted ---- */

/* Blanks and the like stand in mountinfo as a backslash and three octal digits (proc(5)). */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++, to++) {
		unsigned code = 0;
		*to = *from;
		if (*from != '\\' || strspn(from + 1, "01234567") < 3)
			continue;
		for (int i = 1; i <= 3; i++)
			code = code * 8 + (unsigned)(from[i] - '0');
		*to = (char)code;
		from += 3;
	}
	*to = 0;
}

/* The type of mountinfo's last mount on this path; empty: nothing is mounted there. The fifth field
 * is the path, and the type follows a lone hyphen. */
static void type_of(const char *path, char *type, size_t bytes)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	*type = 0;
	while (f && getline(&line, &size, f) > 0) {
		char *hyphen = strstr(line, " - ");
		char *save = NULL, *field = strtok_r(line, " ", &save);
		for (int i = 0; field && i < 4; i++)
			field = strtok_r(NULL, " ", &save);
		if (field)
			unescape(field);
		if (field && hyphen && strcmp(field, path) == 0)
			(void)snprintf(type, bytes, "%.*s", (int)strcspn(hyphen + 3, " "),
				       hyphen + 3);
	}
	free(line);
	if (f)
		(void)fclose(f);
}

static int unmount_dead(const char *path)
{
	if (umount2(path, MNT_DETACH) == 0)
		return 0;
	pid_t child = fork();
	if (child < 0)
		return -1;
	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", path, (char *)NULL);
		_exit(127);
	}
	int status = 0;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status == 0 ? 0 : -1;
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
		return err_set(
			e, EBUSY,
			"%s: a moefs is mounted there already; unmount it with fusermount3 -u "
			"%s, or mount somewhere else",
			path, path);
	return err_set(e, EBUSY,
		       "%s: a file system of type %s is mounted there already, and would be "
		       "hidden; unmount it, or mount on a folder in it",
		       path, type);
}

int mountpoint_prepare(char **mountpoint, struct err *e)
{
	struct stat st;
	char type[64];
	make_real(mountpoint);
	int code = look_at(*mountpoint, &st);
	type_of(*mountpoint, type, sizeof type);
	if (code == ENOTCONN && !strcmp(type, ours) && unmount_dead(*mountpoint) == 0) {
		code = look_at(*mountpoint, &st);
		type_of(*mountpoint, type, sizeof type);
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
	return refuse_second(*mountpoint, type, e);
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
	size_t length = strlen(mountpoint);
	int inside = strncmp(real, mountpoint, length) == 0 &&
		     (real[length] == '/' || real[length] == 0 || length == 1);
	free(real);
	if (inside)
		return err_set(e, EINVAL,
			       "%s would be hidden by the mount on %s: mount somewhere else", model,
			       mountpoint);
	return 0;
}

/* ---- what mounting needs ---- */

static int check_device(struct err *e)
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
		return err_set(
			e, code,
			"/dev/fuse is there, but this container is not given it: start it with "
			"--device /dev/fuse --cap-add SYS_ADMIN");
	if (code == EACCES && !stat(device, &st))
		return err_set(
			e, code,
			"/dev/fuse cannot be opened by you: its mode is %04o, and it belongs "
			"to user %u; `chmod 666 /dev/fuse` as root",
			(unsigned)(st.st_mode & 07777), (unsigned)st.st_uid);
	return err_sys(e, code, "/dev/fuse cannot be opened");
}

/* Whether this process may mount by itself (CAP_SYS_ADMIN, capabilities(7)). */
static bool may_mount(void)
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

/* Finds a program as execvp does. */
static bool find_program(const char *program, struct stat *st)
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

static int check_helper(struct err *e)
{
	struct stat st;
	if (!find_program("fusermount3", &st))
		return err_set(
			e, ENOENT,
			"fusermount3 is missing: install the package fuse3 (apt install fuse3)");
	if (geteuid() == 0)
		return err_set(e, EPERM,
			       "root may not mount here (CAP_SYS_ADMIN is missing): start the "
			       "container with --cap-add SYS_ADMIN");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return err_set(
			e, EPERM,
			"fusermount3 may not gain root's rights in this process "
			"(no_new_privs is set by what started it): mount from outside of it");
	if (st.st_uid != 0 || !(st.st_mode & S_ISUID))
		return err_set(e, EPERM,
			       "fusermount3 is not set-user-ID root, which it needs to mount for "
			       "you: install the package fuse3 again");
	return 0;
}

/* What fusermount3 asks of the directory. */
static int check_owner(const char *mountpoint, struct err *e)
{
	struct stat st;
	if (stat(mountpoint, &st))
		return err_sys(e, errno, "cannot mount on %s", mountpoint);
	bool sticky = st.st_mode & S_ISVTX && st.st_uid != getuid();
	if (!sticky && access(mountpoint, W_OK) == 0)
		return 0;
	return err_set(
		e, EACCES,
		"cannot mount on %s: it belongs to user %u%s; mount on a directory of your own",
		mountpoint, (unsigned)st.st_uid,
		sticky ? " and is sticky" : ", and you may not write to it");
}

static bool others_are_allowed(void)
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
	int code = check_device(e);
	if (code || may_mount())
		return code;
	code = check_helper(e);
	if (!code)
		code = check_owner(mountpoint, e);
	if (!code && others && !others_are_allowed())
		code = err_set(e, EPERM,
			       "-o allow_other is not for users here: root has to put the line "
			       "user_allow_other into /etc/fuse.conf");
	return code;
}
