/* See standard.h. */
#include "fs/base/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* mount.fuse3 sets HOME=/root if mount(8) has removed HOME, also for ordinary users. */
static bool standard_home_is_wrong(const char *home)
{
	return getuid() != 0 && !strcmp(home, "/root") && access(home, W_OK) != 0;
}

void standard_begin(void)
{
	char path[4096];
	int fd;
	do /* not close-on-exec: child programs need the standard files, too */
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);

	size_t size = getenv("PATH") ? 0 : confstr(_CS_PATH, path, sizeof path);
	if (size && size <= sizeof path)
		(void)setenv("PATH", path, 0);

	const char *home = getenv("HOME");
	const struct passwd *user =
		home && !standard_home_is_wrong(home) ? NULL : getpwuid(getuid());
	if (user && user->pw_dir && *user->pw_dir == '/')
		(void)setenv("HOME", user->pw_dir, 1);
}

int standard_written(struct err *e)
{
	bool lost = ferror(stdout);
	errno = 0;
	lost |= fflush(stdout) != 0;
	clearerr(stdout);
	if (!lost)
		return 0;
	return errno ? err_sys(e, errno, "cannot write to standard output")
		     : err_set(e, EIO, "cannot write to standard output");
}

int standard_write_all(int fd, const void *data, size_t size)
{
	for (const char *at = data; size;) {
		ssize_t n = write(fd, at, size);
		if (n < 0 && errno != EINTR)
			return errno;
		at += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}
