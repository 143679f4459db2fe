/* Which user has the socket at the other end of a connection: both ways of asking the kernel agree
 * for every kind of address, and a socket that its owner has closed belongs to nobody. */
#include "fs/gateway/peer.c" /* its two ways stand beside each other here; outside, the first that works counts */

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct pair {
	int listener, client, server;
	struct peer_end client_end, server_end;
};

static bool connected(struct pair *p, int listen_family, const char *listen_on, int family,
		      const char *to)
{
	struct sockaddr_storage a = {.ss_family = (sa_family_t)listen_family}, ours = {0};
	struct sockaddr_in *v4 = (void *)&a;
	struct sockaddr_in6 *v6 = (void *)&a;
	socklen_t size = sizeof a, ours_size = sizeof ours;
	*p = (struct pair){.client = -1, .server = -1};
	assert_int_equal(inet_pton(listen_family, listen_on,
				   listen_family == AF_INET ? (void *)&v4->sin_addr
							    : (void *)&v6->sin6_addr),
			 1);
	p->listener = socket(listen_family, SOCK_STREAM, 0);
	if (p->listener < 0 || bind(p->listener, (void *)&a, sizeof a) || listen(p->listener, 1) ||
	    getsockname(p->listener, (void *)&a, &size))
		return false;
	in_port_t port = listen_family == AF_INET ? v4->sin_port : v6->sin6_port;
	a = (struct sockaddr_storage){.ss_family = (sa_family_t)family};
	v4->sin_port = port; /* where both have it */
	assert_int_equal(
		inet_pton(family, to,
			  family == AF_INET ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr),
		1);
	p->client = socket(family, SOCK_STREAM, 0);
	if (p->client < 0 || connect(p->client, (void *)&a, sizeof a))
		return false;
	p->server = accept(p->listener, NULL, NULL);
	size = sizeof a;
	assert_int_equal(getpeername(p->server, (void *)&a, &size), 0);
	assert_int_equal(getsockname(p->server, (void *)&ours, &ours_size), 0);
	assert_true(peer_end_of(&a, &p->client_end));
	assert_true(peer_end_of(&ours, &p->server_end));
	return true;
}

static void disconnected(struct pair *p)
{
	for (int *fd = &p->listener; fd <= &p->server; fd++)
		if (*fd >= 0)
			close(*fd);
}

static bool by_proc(const struct pair *p, struct peer_holder *h)
{
	return peer_proc("/proc/net/tcp", &p->client_end, &p->server_end, h) ||
	       peer_proc("/proc/net/tcp6", &p->client_end, &p->server_end, h);
}

static const struct {
	int listen_family;
	const char *listen_on;
	int family;
	const char *to;
} ways[] = {
	{AF_INET, "127.0.0.1", AF_INET, "127.0.0.1"},
	{AF_INET, "127.0.0.1", AF_INET6, "::ffff:127.0.0.1"},
	{AF_INET6, "::", AF_INET, "127.0.0.1"},
	{AF_INET6, "::", AF_INET6, "::ffff:127.0.0.1"},
	{AF_INET6, "::1", AF_INET6, "::1"},
};

static void our_own_is_ours(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct pair p;
		struct peer_holder h;
		if (!connected(&p, ways[i].listen_family, ways[i].listen_on, ways[i].family,
			       ways[i].to)) {
			assert_true(i > 0); /* IPv6 may be off */
			disconnected(&p);
			continue;
		}
		assert_true(peer_is_own_user(p.server));
		assert_true(by_proc(&p, &h));
		assert_int_equal(h.state, TCP_ESTABLISHED);
		assert_int_equal(h.user, geteuid());
		assert_int_not_equal(h.inode, 0);
		disconnected(&p);
	}
}

static void a_closed_one_is_nobodys(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct pair p;
		struct peer_holder h = {0};
		if (!connected(&p, ways[i].listen_family, ways[i].listen_on, ways[i].family,
			       ways[i].to)) {
			disconnected(&p);
			continue;
		}
		close(p.client);
		p.client = -1;
		assert_false(peer_is_own_user(p.server));
		assert_false(by_proc(&p, &h) && h.inode && h.state == TCP_ESTABLISHED);
		disconnected(&p);
	}
}

static void an_unmapped_user_is_nobody(void **state)
{
	(void)state;
	assert_true(peer_user_is_own(geteuid()) || geteuid() == peer_overflow_user());
	assert_true(peer_user_is_own(0));
	assert_false(peer_user_is_own(peer_overflow_user()));
	assert_false(peer_user_is_own(geteuid() + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_is_ours),
		cmocka_unit_test(a_closed_one_is_nobodys),
		cmocka_unit_test(an_unmapped_user_is_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
