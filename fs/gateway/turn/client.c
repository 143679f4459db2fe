/* The client's socket beside the files. See client.h.
 *
 * The library reads the socket only between requests, and does not look at it while a handler or a
 * content reader is at work, so they look for themselves. POLLRDHUP is the other side's end:
 * closed, or shut down for writing, which no client of HTTP does that still wants its answer; a
 * process that was killed and a connection that was reset are POLLHUP. What it may send meanwhile
 * (the next request) is not asked for and so wakes nobody. */
#include "fs/gateway/turn/client.h"

#include <errno.h>
#include <string.h>

int client_wait(int client, struct pollfd *files, size_t count, int milliseconds)
{
	struct pollfd all[CLIENT_FILES + 1];
	int ready;
	if (count > CLIENT_FILES)
		return -EINVAL;
	memcpy(all, files, count * sizeof *files);
	all[count] = (struct pollfd){.fd = client, .events = POLLRDHUP};
	do
		ready = poll(all, count + 1, milliseconds);
	while (ready < 0 && errno == EINTR);
	if (ready < 0)
		return -errno;
	memcpy(files, all, count * sizeof *files);
	return all[count].revents ? -EPIPE : ready;
}
