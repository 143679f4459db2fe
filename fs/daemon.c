/* Going into the background, and the place where to mount. See daemon.h. */
#include "fs/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

int daemon_begin(int *pipe_end, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		err_sys(e, errno, "cannot make a pipe");
		return 1;
	}
	pid_t child = fork();
	if (child < 0) {
		err_sys(e, errno, "cannot go into the background");
		close(ends[0]);
		close(ends[1]);
		return 1;
	}
	if (child == 0) {
		close(ends[0]);
		*pipe_end = ends[1];
		setsid();
		return -1;
	}
	close(ends[1]);
	char byte;
	ssize_t n;
	do
		n = read(ends[0], &byte, 1);
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	return n == 1 ? 0 : 1;
}

void daemon_ready(int pipe_end)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		(void)dup2(null, fd);
	if (null > 2)
		close(null);
	/* A working directory elsewhere would keep that file system busy. */
	int ignored = chdir("/");
	(void)ignored;
	ssize_t n = write(pipe_end, "", 1);
	(void)n;
	close(pipe_end);
}

/* ---- the mountpoint ---- */

/* Whether mountinfo's last mount on this path is of our type. Its fifth field is the path, and the
 * type follows a lone hyphen. A path with blanks or control characters is escaped there, and not
 * found. */
static int is_ours(const char *path)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int ours = 0;
	while (f && getline(&line, &size, f) > 0) {
		char *hyphen = strstr(line, " - ");
		char *save = NULL, *field = strtok_r(line, " ", &save);
		for (int i = 0; field && i < 4; i++)
			field = strtok_r(NULL, " ", &save);
		if (field && hyphen && strcmp(field, path) == 0)
			ours = strncmp(hyphen + 3, "fuse.moefs ", 11) == 0;
	}
	free(line);
	if (f)
		(void)fclose(f);
	return ours;
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

int mountpoint_prepare(char **mountpoint, struct err *e)
{
	struct stat st;
	size_t length = strlen(*mountpoint);
	while (length > 1 && (*mountpoint)[length - 1] == '/')
		(*mountpoint)[--length] = 0;
	int code = look_at(*mountpoint, &st);
	if (code == ENOTCONN && is_ours(*mountpoint) && unmount_dead(*mountpoint) == 0)
		code = look_at(*mountpoint, &st);
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
	char *real = realpath(*mountpoint, NULL);
	if (!real)
		return err_sys(e, errno, "cannot mount on %s", *mountpoint);
	free(*mountpoint);
	*mountpoint = real;
	return 0;
}

int mountpoint_check_model(const char *mountpoint, const char *model, struct err *e)
{
	char *real = realpath(model, NULL);
	if (!real)
		return err_sys(e, errno, "%s", model);
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

static int in_path(const char *program)
{
	const char *path = getenv("PATH");
	char full[4096];
	while (path && *path) {
		size_t length = strcspn(path, ":");
		(void)snprintf(full, sizeof full, "%.*s/%s", (int)length, path, program);
		if (access(full, X_OK) == 0)
			return 1;
		path += length + (path[length] == ':');
	}
	return 0;
}

int mountpoint_check_fuse(struct err *e)
{
	if (access("/dev/fuse", F_OK))
		return err_set(
			e, ENODEV,
			"/dev/fuse is missing: load the module with `modprobe fuse`, or start "
			"the container with --device /dev/fuse --cap-add SYS_ADMIN");
	if (geteuid() != 0 && !in_path("fusermount3"))
		return err_set(
			e, ENOENT,
			"fusermount3 is missing: install the package fuse3 (apt install fuse3)");
	return 0;
}
