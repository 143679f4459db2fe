/* See systemd.h. */
#include "fs/base/systemd.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LISTEN_FDS_START = 3 }; /* SD_LISTEN_FDS_START of <systemd/sd-daemon.h> */

void systemd_notify(const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path ? strlen(path) : 0;
	if (!length || length >= sizeof to.sun_path)
		return;
	memcpy(to.sun_path, path, length);
	if (*path == '@') /* a name in the abstract namespace, unix(7) */
		to.sun_path[0] = 0;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, size);
	close(fd);
}

int systemd_socket(struct err *e)
{
	const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	int n = process && count && atol(process) == getpid() ? atoi(count) : 0;
	if (n <= 0)
		return -1;
	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	if (n > 1)
		return err_set(e, EINVAL,
			       "systemd passes %d sockets, and moefs-http listens on one: write "
			       "one .socket unit for each",
			       n);
	return LISTEN_FDS_START;
}
