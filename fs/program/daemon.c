/* Going into the background. See daemon.h. */
#include "fs/program/daemon.h"

#include <errno.h>
#include <fcntl.h>
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

/* Not before it is mounted: an automounter lets only its own process group touch the place, as
 * mount(8) and what it starts are, and has everybody else wait until something is mounted there. */
void daemon_ready(int pipe_end)
{
	(void)setsid();
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
