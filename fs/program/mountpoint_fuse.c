/* What mounting needs of the system: its device, and either the right to mount or the helper that
 * has it. See mountpoint.h. */
#include "fs/program/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

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
