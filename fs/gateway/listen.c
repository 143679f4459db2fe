/* See listen.h. */
#include "fs/gateway/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 128 };

static socklen_t listen_address(int socket, struct sockaddr_storage *a)
{
	socklen_t size = sizeof *a;
	memset(a, 0, sizeof *a);
	return getsockname(socket, (struct sockaddr *)a, &size) ? 0 : size;
}

bool listen_is_local(int socket)
{
	struct sockaddr_storage a;
	const struct sockaddr_in *v4 = (const void *)&a;
	const struct sockaddr_in6 *v6 = (const void *)&a;
	if (!listen_address(socket, &a))
		return false;
	if (a.ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return a.ss_family == AF_UNIX ||
	       (a.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr));
}

void listen_words(int socket, char *words, unsigned size)
{
	struct sockaddr_storage a;
	char host[INET6_ADDRSTRLEN] = "", port[16] = "";
	socklen_t n = listen_address(socket, &a);
	if (a.ss_family == AF_UNIX)
		(void)snprintf(words, size, "unix:%s", ((const struct sockaddr_un *)&a)->sun_path);
	else if (n && !getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port,
				   NI_NUMERICHOST | NI_NUMERICSERV))
		(void)snprintf(words, size, a.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
			       port);
	else
		(void)snprintf(words, size, "?");
}

static int listen_bind(int fd, const struct sockaddr *a, socklen_t n, const char *address,
		       struct err *e)
{
	if (bind(fd, a, n) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int code = err_sys(e, errno, "cannot listen on %s", address);
	close(fd);
	return code;
}

/* Removes the socket's file of a killed gateway, on which no process listens. */
static void listen_remove_dead(const struct sockaddr_un *a)
{
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) < 0 &&
		    errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	if (dead && !stat(a->sun_path, &st) && S_ISSOCK(st.st_mode))
		(void)unlink(a->sun_path);
}

static int listen_unix(const char *path, const char *address, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof a.sun_path)
		return err_set(e, EINVAL, "listen=%s: a socket's path has 1 to %zu bytes", address,
			       sizeof a.sun_path - 1);
	memcpy(a.sun_path, path, strlen(path) + 1);
	listen_remove_dead(&a);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "cannot make a socket");
	mode_t mask = umask(077); /* only for its user */
	fd = listen_bind(fd, (const struct sockaddr *)&a, sizeof a, address, e);
	umask(mask);
	return fd;
}

/* Accepts only numeric addresses: a name would have to be looked up, and may have several
 * addresses. */
static int listen_ip(const char *address, struct err *e)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	const char *colon = strrchr(address, ':');
	char host[64] = "";
	size_t n = colon ? (size_t)(colon - address) : 0;
	if (n && *address == '[' && address[n - 1] == ']') {
		address++;
		n -= 2;
	}
	if (!colon || n >= sizeof host)
		return err_set(e, EINVAL, "listen=%s is not ADDR:PORT or unix:PATH", address);
	(void)snprintf(host, sizeof host, "%.*s", (int)n, address);
	if (!strcmp(host, "localhost"))
		(void)snprintf(host, sizeof host, "127.0.0.1");
	if (getaddrinfo(*host ? host : NULL, colon + 1, &hints, &found))
		return err_set(
			e, EINVAL,
			"listen=%s: the address must be a number, such as 127.0.0.1:11435 or "
			"[::1]:11435",
			address);
	int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		fd = err_sys(e, errno, "cannot make a socket");
	else {
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		fd = listen_bind(fd, found->ai_addr, found->ai_addrlen, address, e);
	}
	freeaddrinfo(found);
	return fd;
}

int listen_on(const char *address, struct err *e)
{
	struct sockaddr_storage a;
	if (!strncmp(address, "unix:", 5))
		return listen_unix(address + 5, address, e);
	if (strncmp(address, "fd:", 3) != 0 || address[3] < '0' || address[3] > '9')
		return listen_ip(address, e);
	int fd = atoi(address + 3);
	return listen_address(fd, &a) ? fd : err_set(e, EBADF, "listen=fd:%d is not a socket", fd);
}
