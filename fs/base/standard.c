/* Standard files and the environment. See standard.h. */
#include "fs/base/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not close-on-exec: programs that are started need them as well. */
static void open_files(void)
{
	int fd;
	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static void set_path(void)
{
	char path[4096];
	size_t size = getenv("PATH") ? 0 : confstr(_CS_PATH, path, sizeof path);
	if (size && size <= sizeof path)
		(void)setenv("PATH", path, 0);
}

/* mount.fuse3 puts /root in the place of a HOME that mount(8) has removed, whoever mounts. */
static bool is_stand_in(const char *home)
{
	return getuid() != 0 && !strcmp(home, "/root") && access(home, W_OK) != 0;
}

static void set_home(void)
{
	const char *home = getenv("HOME");
	if (home && !is_stand_in(home))
		return;
	const struct passwd *user = getpwuid(getuid());
	if (user && user->pw_dir && *user->pw_dir == '/')
		(void)setenv("HOME", user->pw_dir, 1);
}

void standard_begin(void)
{
	open_files();
	set_path();
	set_home();
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
