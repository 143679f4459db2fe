/* Taking a mount away. See unmount.h. */
#include "fs/program/unmount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127 };

/* Reads what the helper says to its end, so that it never waits for us. */
static void collect(int from, char *said, size_t size)
{
	size_t used = 0;
	char rest[512];
	for (;;) {
		bool room = used + 1 < size;
		ssize_t n =
			read(from, room ? said + used : rest, room ? size - 1 - used : sizeof rest);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += room ? (size_t)n : 0;
	}
	said[used] = 0;
	said[strcspn(said, "\n")] = 0;
}

static void become_helper(const char *point, bool lazily, int out)
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

static int helper(const char *point, bool lazily, struct err *e)
{
	char said[512];
	int ends[2], status = 0;
	if (pipe2(ends, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	pid_t child = fork();
	if (child == 0)
		become_helper(point, lazily, ends[1]);
	int code = child < 0 ? errno : 0;
	close(ends[1]);
	if (!code)
		collect(ends[0], said, sizeof said);
	close(ends[0]);
	while (!code && waitpid(child, &status, 0) < 0)
		code = errno == EINTR ? 0 : errno;
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

int unmount(const char *point, bool lazily, struct err *e)
{
	if (umount2(point, UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EBUSY)
		return err_set(e, EBUSY, "%s is in use", point);
	return helper(point, lazily, e);
}
