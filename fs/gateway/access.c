/* See access.h.
 *
 * Without keys the gateway's own user is served (peer.c), and so is that user's browser. But a page
 * of another site in that browser is not served. Such a page may use a host name of its own that
 * leads here (DNS rebinding): the Host header tells. Or it may send a request that a browser sends
 * without asking us: its Origin tells. An address in the Host header cannot be such a name. */
#include "fs/gateway/access.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/http_request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const char *access_header(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* Whether a Host header names this machine: localhost, an address, or -o host=. */
static bool access_knows_host(const struct gateway_options *o, const char *host)
{
	char name[256];
	struct in6_addr address;
	size_t n = strcspn(host, ":");
	if (*host == '[') {
		host++;
		n = strcspn(host, "]");
	}
	if (n >= sizeof name)
		return false;
	memcpy(name, host, n);
	name[n] = 0;
	return !strcasecmp(name, "localhost") ||
	       (n > 10 && !strcasecmp(name + n - 10, ".localhost")) ||
	       inet_pton(AF_INET, name, &address) == 1 ||
	       inet_pton(AF_INET6, name, &address) == 1 || (o->host && !strcasecmp(name, o->host));
}

/* Whether a page may send requests: it comes from this host, or -o cors= allows its origin. */
static bool access_knows_origin(const struct gateway_options *o, const char *origin,
				const char *host)
{
	const char *at = strstr(origin, "://");
	if (o->cors && (!strcmp(o->cors, "*") || !strcasecmp(o->cors, origin)))
		return true;
	return at && host && !strcasecmp(at + 3, host);
}

int access_check(struct http_request *r, struct problem *p)
{
	const struct gateway *g = r->gateway;
	const struct gateway_options *o = g->options;
	const char *host = access_header(r, "Host"), *origin = access_header(r, "Origin");
	bool open = r->route && r->route->flags & ROUTE_OPEN;
	if (host && !o->key_file && !access_knows_host(o, host))
		return problem_set(p, PROBLEM_FORBIDDEN, NULL,
				   "The Host header \"%.100s\" does not name this machine: use "
				   "localhost or an address, or start moefs-http with -o host=NAME",
				   host);
	if (origin && !access_knows_origin(o, origin, host))
		return problem_set(p, PROBLEM_FORBIDDEN, NULL,
				   "Pages of \"%.100s\" may not send requests. To allow them, "
				   "start moefs-http with -o cors=ORIGIN",
				   origin);
	if (!g->keys)
		return r->own_user || open ? 0
					   : problem_set(p, PROBLEM_KEY, NULL,
							 "Without keys only processes of the user "
							 "who runs this gateway, and of root, may "
							 "send requests. To serve others, start it "
							 "with -o key_file=FILE, one key per line");
	/* OpenAI's clients send Authorization, Anthropic's x-api-key. */
	const char *bearer = access_header(r, "Authorization"),
		   *key = access_header(r, "x-api-key");
	if (bearer && !strncasecmp(bearer, "Bearer ", 7))
		key = bearer + 7;
	r->key = key ? access_keys_find(g->keys, key) : 0;
	if (r->key || open)
		return 0;
	return problem_set(p, PROBLEM_KEY, NULL,
			   key ? "This key is unknown: send a key from the file of -o key_file="
			       : "Send a key: Authorization: Bearer KEY, or x-api-key: KEY");
}

int access_check_size(const struct http_request *r, struct problem *p)
{
	const char *length = access_header(r, "Content-Length");
	unsigned most = r->gateway->options->body;
	if (length && strtoull(length, NULL, 10) > most)
		return problem_set(p, PROBLEM_TOO_LARGE, NULL,
				   "The body is larger than %u bytes (-o body=)", most);
	return 0;
}

/* ---- the end of a request ---- */

struct access_framing {
	unsigned lengths, codings;
	bool odd; /* a header name or a coding that another server may interpret differently */
};

static enum MHD_Result access_note_header(void *ctx, enum MHD_ValueKind kind, const char *name,
					  const char *value)
{
	struct access_framing *f = ctx;
	(void)kind;
	f->odd |= name[strcspn(name, " \t")] != 0;
	f->lengths += !strcasecmp(name, "Content-Length");
	if (!strcasecmp(name, "Transfer-Encoding")) {
		f->codings++;
		f->odd |= !value || strcasecmp(value, "chunked") != 0;
	}
	return MHD_YES;
}

/* RFC 9112, 5.1 and 6.3. */
bool access_is_unclear(const struct http_request *r)
{
	struct access_framing f = {0};
	(void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, access_note_header, &f);
	return f.odd || f.lengths + f.codings > 1;
}

/* ---- keys ---- */

enum { KEYS_MOST = 255, KEY_SIZE = 256, LINE_MOST = 4096 };

struct access_keys {
	size_t count;
	char of[KEYS_MOST][KEY_SIZE]; /* zero-padded */
};

/* Reads a line without its newline, with any bytes. -1: there is none. A line that does not fit is
 * cut. */
static ssize_t access_read_line(FILE *file, char line[LINE_MOST])
{
	size_t n = 0;
	int c = EOF;
	while (n < LINE_MOST && (c = getc(file)) != EOF && c != '\n')
		line[n++] = (char)c;
	return c == EOF && !n ? -1 : (ssize_t)n;
}

static bool access_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Adds the key of a line, without blanks around it, since clients' headers drop them, too. */
static int access_add_key(struct access_keys *k, const char *path, unsigned number,
			  const char *line, size_t n, struct err *e)
{
	if (n == LINE_MOST)
		return err_set(e, EINVAL, "%s: line %u has more than %d bytes", path, number,
			       LINE_MOST - 1);
	if (number == 1 && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) /* UTF-8's byte order mark */
		line += 3, n -= 3;
	while (n && access_is_blank(*line))
		line++, n--;
	while (n && access_is_blank(line[n - 1]))
		n--;
	if (!n || *line == '#')
		return 0;
	if (n >= KEY_SIZE || k->count == KEYS_MOST)
		return err_set(e, EINVAL, "%s: at most %d keys of at most %d bytes", path,
			       KEYS_MOST, KEY_SIZE - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			return err_set(e, EINVAL,
				       "%s: the key in line %u has a control character, which no "
				       "client can send",
				       path, number);
	memcpy(k->of[k->count++], line, n);
	return 0;
}

int access_keys_read(struct access_keys **out, const char *path, struct err *e)
{
	FILE *file = fopen(path, "re");
	struct access_keys *k = file ? calloc(1, sizeof *k) : NULL;
	char line[LINE_MOST];
	struct stat st;
	ssize_t n;
	int code = k ? 0 : err_sys(e, errno, "%s cannot be read", path);
	if (!code && (fstat(fileno(file), &st) || (S_ISREG(st.st_mode) && st.st_mode & 077)))
		code = err_set(e, EPERM, "%s can be read by others: chmod 600", path);
	for (unsigned number = 1; !code && (n = access_read_line(file, line)) >= 0; number++)
		code = access_add_key(k, path, number, line, (size_t)n, e);
	if (!code && ferror(file))
		code = err_sys(e, errno, "%s cannot be read", path);
	if (!code && !k->count)
		code = err_set(e, EINVAL, "%s has no key", path);
	if (file)
		fclose(file);
	if (code)
		free(k);
	else
		*out = k;
	return code;
}

size_t access_keys_find(const struct access_keys *k, const char *given)
{
	char padded[KEY_SIZE] = "";
	size_t n = strlen(given), found = 0;
	memcpy(padded, given, n < KEY_SIZE - 1 ? n : KEY_SIZE - 1);
	for (size_t i = 0; i < k->count; i++) {
		volatile unsigned char differs = 0;
		for (size_t c = 0; c < KEY_SIZE; c++)
			differs |= (unsigned char)(padded[c] ^ k->of[i][c]);
		found |= differs ? 0 : i + 1;
	}
	return n < KEY_SIZE ? found : 0;
}

/* ---- marks ---- */

static uint64_t access_rotate_left(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void access_sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = access_rotate_left(v[1], 13) ^ v[0];
	v[3] = access_rotate_left(v[3], 16) ^ v[2];
	v[0] = access_rotate_left(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = access_rotate_left(v[1], 17) ^ v[2];
	v[3] = access_rotate_left(v[3], 21) ^ v[0];
	v[2] = access_rotate_left(v[2], 32);
}

/* SipHash-2-4 (Aumasson and Bernstein 2012) of 64-bit words. The result does not reveal the key. */
static uint64_t access_siphash(uint64_t k0, uint64_t k1, const uint64_t *words, size_t count)
{
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du,
			 k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
	for (size_t i = 0; i <= count; i++) {
		uint64_t word = i < count ? words[i] : (uint64_t)count << 59;
		v[3] ^= word;
		access_sip_round(v);
		access_sip_round(v);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		access_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The bytes of a client's key are the key of the hash; the message is empty. */
void access_keys_mark(const struct access_keys *k, size_t number, char mark[KEY_MARK])
{
	uint64_t words[KEY_SIZE / sizeof(uint64_t)];
	const size_t count = sizeof words / sizeof *words;
	memcpy(words, k->of[number - 1], sizeof words);
	uint64_t k0 = access_siphash(0, 1, words, count), k1 = access_siphash(1, 0, words, count);
	(void)snprintf(mark, KEY_MARK, "%016llx",
		       (unsigned long long)access_siphash(k0, k1, NULL, 0));
}

void access_keys_free(struct access_keys *k)
{
	free(k);
}
