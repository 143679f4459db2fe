/* Who may ask. See admit.h.
 *
 * Without keys the gateway's own user may ask (peer.h), and so may that user's browser. A page of
 * another site in that browser may not: neither by a name of its own that leads here (rebinding; the
 * Host header has that name) nor by a request that needs no consent of ours (its Origin tells). A
 * number in the Host header is no such name. */
#include "fs/gateway/admit.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/keys.h"
#include "fs/gateway/routes.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* A Host header's name without its port. False: too long to be one. */
static bool host_name(const char *host, char *name, size_t size)
{
	size_t n = strcspn(host, ":");
	if (*host == '[') {
		host++;
		n = strcspn(host, "]");
	}
	if (n >= size)
		return false;
	memcpy(name, host, n);
	name[n] = 0;
	return true;
}

static bool is_number(const char *name)
{
	struct in6_addr address;
	return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

static bool known_host(const struct options *o, const char *host)
{
	char name[256];
	if (!host_name(host, name, sizeof name))
		return false;
	size_t n = strlen(name);
	bool local = !strcasecmp(name, "localhost") ||
		     (n > 10 && !strcasecmp(name + n - 10, ".localhost"));
	return local || is_number(name) || (o->host && !strcasecmp(name, o->host));
}

/* That a page of another place sends: its origin is neither this host nor the one that is let in.
 */
static bool known_origin(const struct options *o, const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");
	if (o->cors && (!strcmp(o->cors, "*") || !strcasecmp(o->cors, origin)))
		return true;
	return at && host && !strcasecmp(at + 3, host);
}

static bool is_open(const struct request *r)
{
	return r->route && r->route->flags & ROUTE_OPEN;
}

/* As OpenAI's clients send it, or Anthropic's. */
static int find_key(struct request *r, struct problem *p)
{
	const char *bearer = header(r, "Authorization"), *key = header(r, "x-api-key");
	if (bearer && !strncasecmp(bearer, "Bearer ", 7))
		key = bearer + 7;
	r->key = key ? keys_find(r->gateway->keys, key) : 0;
	if (r->key || is_open(r))
		return 0;
	return problem_set(p, PROBLEM_KEY, NULL,
			   key ? "This key is not known here"
			       : "A key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
}

static int check_user(const struct request *r, struct problem *p)
{
	if (r->own_user || is_open(r))
		return 0;
	return problem_set(p, PROBLEM_KEY, NULL,
			   "Without keys only processes of the user who runs this gateway, or of "
			   "root, may ask. To serve others, start it with -o key_file=FILE, a key "
			   "a line");
}

int admit(struct request *r, struct problem *p)
{
	const struct options *o = r->gateway->options;
	const char *host = header(r, "Host"), *origin = header(r, "Origin");
	if (host && !o->key_file && !known_host(o, host))
		return problem_set(p, PROBLEM_FORBIDDEN, NULL,
				   "The host '%.100s' is not known here: ask by localhost or an "
				   "address, or start moefs-http with -o host=",
				   host);
	if (origin && !known_origin(o, origin, host))
		return problem_set(
			p, PROBLEM_FORBIDDEN, NULL,
			"Pages of '%.100s' may not ask: start moefs-http with -o cors=", origin);
	return r->gateway->keys ? find_key(r, p) : check_user(r, p);
}

/* ---- where a request ends ---- */

struct framing {
	unsigned lengths, codings;
	bool odd; /* a name or a coding that another server may read otherwise */
};

static enum MHD_Result note_header(void *ctx, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	struct framing *f = ctx;
	(void)kind;
	f->odd |= name[strcspn(name, " \t")] != 0;
	f->lengths += !strcasecmp(name, "Content-Length");
	if (strcasecmp(name, "Transfer-Encoding") != 0)
		return MHD_YES;
	f->codings++;
	f->odd |= !value || strcasecmp(value, "chunked") != 0;
	return MHD_YES;
}

/* RFC 9112, 5.1 and 6.3. */
bool admit_is_unclear(const struct request *r)
{
	struct framing f = {0};
	(void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, note_header, &f);
	return f.odd || f.lengths + f.codings > 1;
}

int admit_size(const struct request *r, struct problem *p)
{
	const char *length = header(r, "Content-Length");
	unsigned most = r->gateway->options->body;
	if (length && strtoull(length, NULL, 10) > most)
		return problem_set(p, PROBLEM_TOO_LARGE, NULL,
				   "The body is larger than %u bytes (-o body=)", most);
	return 0;
}
