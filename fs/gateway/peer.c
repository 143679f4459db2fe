/* Finds the user who owns a client's socket. See access.h.
 *
 * sock_diag(7) finds a socket by its exact addresses and ports. If it is missing (a kernel or a
 * sandbox without inet_diag), /proc/net/tcp and tcp6 list all sockets. A socket that its owner has
 * closed, or that was never passed to a process, is reported with user 0 and inode 0: user 0 alone
 * proves nothing. A user that this user namespace does not map is reported as the overflow user,
 * which may be anybody. */
#include "fs/gateway/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One end of a connection. IPv4 is written as IPv6 (::ffff:a.b.c.d), as in dual-stack sockets. */
struct peer_end {
	struct in6_addr address;
	uint32_t scope;
	uint16_t port; /* network byte order */
};

/* The kernel's answer for a socket. */
struct peer_holder {
	unsigned state, user;
	unsigned long inode;
};

/* ---- addresses ---- */

static struct in6_addr peer_mapped(struct in_addr v4)
{
	struct in6_addr v6 = {0};
	v6.s6_addr[10] = v6.s6_addr[11] = 0xff;
	memcpy(v6.s6_addr + 12, &v4, sizeof v4);
	return v6;
}

static bool peer_end_of(const struct sockaddr_storage *a, struct peer_end *end)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	if (a->ss_family == AF_INET)
		*end = (struct peer_end){peer_mapped(v4->sin_addr), 0, v4->sin_port};
	else if (a->ss_family == AF_INET6)
		*end = (struct peer_end){v6->sin6_addr, v6->sin6_scope_id, v6->sin6_port};
	else
		return false;
	return true;
}

static bool peer_same_end(const struct peer_end *a, const struct peer_end *b)
{
	return a->port == b->port && IN6_ARE_ADDR_EQUAL(&a->address, &b->address);
}

/* ---- sock_diag ---- */

struct peer_diag_request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

static void peer_put_address(const struct in6_addr *address, bool v4, __be32 out[4])
{
	if (v4)
		memcpy(out, address->s6_addr + 12, 4);
	else
		memcpy(out, address, sizeof *address);
}

/* A request for the socket whose own end is `client` and whose other end is `server`. */
static struct peer_diag_request peer_diag_request(const struct peer_end *client,
						  const struct peer_end *server)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(&client->address) && IN6_IS_ADDR_V4MAPPED(&server->address);
	struct peer_diag_request r = {
		.head = {.nlmsg_len = sizeof r,
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = v4 ? AF_INET : AF_INET6,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX,
			 .id = {.idiag_sport = client->port,
				.idiag_dport = server->port,
				.idiag_if = client->scope,
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	peer_put_address(&client->address, v4, r.body.id.idiag_src);
	peer_put_address(&server->address, v4, r.body.id.idiag_dst);
	return r;
}

/* If there is no such connection, the kernel may answer with a listener on that port. */
static bool peer_diag_answers(const struct inet_diag_sockid *asked,
			      const struct inet_diag_sockid *got)
{
	return asked->idiag_sport == got->idiag_sport && asked->idiag_dport == got->idiag_dport;
}

static bool peer_diag(const struct peer_end *client, const struct peer_end *server,
		      struct peer_holder *out)
{
	struct peer_diag_request request = peer_diag_request(client, server);
	_Alignas(struct nlmsghdr) char answer[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return false;
	ssize_t n = send(fd, &request, sizeof request, 0);
	if (n == (ssize_t)sizeof request)
		n = recv(fd, answer, sizeof answer, 0);
	else
		n = -1;
	close(fd);
	const struct nlmsghdr *head = (const void *)answer;
	const struct inet_diag_msg *found = NLMSG_DATA(head);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof *found) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    head->nlmsg_len < NLMSG_LENGTH(sizeof *found) ||
	    !peer_diag_answers(&request.body.id, &found->id))
		return false;
	*out = (struct peer_holder){found->idiag_state, found->idiag_uid, found->idiag_inode};
	return true;
}

/* ---- /proc/net ---- */

/* Reads ADDRESS:PORT in the form of /proc/net/tcp: words of the host's byte order in
 * hexadecimal. */
static bool peer_proc_end(const char *text, struct peer_end *end)
{
	const char *colon = strchr(text, ':');
	size_t digits = colon ? (size_t)(colon - text) : 0;
	uint32_t words[4] = {0};
	if (digits != 8 && digits != 32)
		return false;
	for (size_t i = 0; i < digits / 8; i++) {
		char word[9] = "";
		memcpy(word, text + 8 * i, 8);
		words[i] = (uint32_t)strtoul(word, NULL, 16);
	}
	*end = (struct peer_end){.port = htons((uint16_t)strtoul(colon + 1, NULL, 16))};
	if (digits == 8)
		end->address = peer_mapped((struct in_addr){words[0]});
	else
		memcpy(&end->address, words, sizeof words);
	return true;
}

static bool peer_proc_line(const char *line, const struct peer_end *client,
			   const struct peer_end *server, struct peer_holder *out)
{
	char own[64], other[64];
	struct peer_end a, b;
	struct peer_holder h;
	return sscanf(line, " %*d: %63s %63s %x %*s %*s %*s %u %*u %lu", own, other, &h.state,
		      &h.user, &h.inode) == 5 &&
	       peer_proc_end(own, &a) && peer_proc_end(other, &b) && peer_same_end(&a, client) &&
	       peer_same_end(&b, server) && (*out = h, true);
}

static bool peer_proc(const char *path, const struct peer_end *client,
		      const struct peer_end *server, struct peer_holder *out)
{
	FILE *file = fopen(path, "re");
	char line[512];
	bool found = false;
	while (file && !found && fgets(line, sizeof line, file))
		found = peer_proc_line(line, client, server, out);
	if (file)
		fclose(file);
	return found;
}

/* ---- the answer ---- */

/* The user id that represents all users that this namespace does not map. */
static unsigned peer_overflow_user(void)
{
	unsigned user = 65534;
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	if (file && fscanf(file, "%u", &user) != 1)
		user = 65534;
	if (file)
		fclose(file);
	return user;
}

static bool peer_user_is_own(unsigned user)
{
	return (user == geteuid() || user == 0) && user != peer_overflow_user();
}

/* Whether our end of the connection is still open, so that its addresses belonged to no other
 * connection during the lookup. */
static bool peer_still_connected(int socket)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof info;
	return !getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) &&
	       info.tcpi_state == TCP_ESTABLISHED;
}

static bool peer_is_own_by_address(int socket, const struct sockaddr_storage *theirs)
{
	struct sockaddr_storage ours = {0};
	socklen_t size = sizeof ours;
	struct peer_end client, server;
	struct peer_holder h;
	if (getsockname(socket, (struct sockaddr *)&ours, &size) || !peer_end_of(theirs, &client) ||
	    !peer_end_of(&ours, &server))
		return false;
	if (!peer_diag(&client, &server, &h) && !peer_proc("/proc/net/tcp", &client, &server, &h) &&
	    !peer_proc("/proc/net/tcp6", &client, &server, &h))
		return false;
	return h.state == TCP_ESTABLISHED && h.inode && peer_user_is_own(h.user) &&
	       peer_still_connected(socket);
}

bool peer_is_own_user(int socket)
{
	struct sockaddr_storage theirs = {0};
	socklen_t size = sizeof theirs;
	struct ucred who;
	if (getpeername(socket, (struct sockaddr *)&theirs, &size))
		return false;
	if (theirs.ss_family != AF_UNIX)
		return peer_is_own_by_address(socket, &theirs);
	size = sizeof who;
	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
	       peer_user_is_own(who.uid);
}
