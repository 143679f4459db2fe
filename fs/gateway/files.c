/* /tree/PATH: the tree's own files over HTTP, which is what the page has beyond the protocols. GET
 * reads one, as it grows if it does, or lists a folder; PUT writes one; POST makes a session and
 * DELETE removes it. */
#include "fs/gateway/turn/client.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/place.h"
#include "fs/gateway/turn/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 << 10, SEND = 1000 };
static const char plain[] = "text/plain; charset=utf-8";

static enum MHD_Result answer(struct request *r, struct place *at, const struct problem *p)
{
	place_close(at);
	return reply_problem(r, p);
}

/* Conversations lie open here, so that pages of other places get nothing even where -o cors= lets
 * them speak the protocols. Sec-Fetch-Site comes with what has no Origin, such as a picture. */
static int refuse_others(struct request *r, struct problem *p)
{
	const char *origin = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Origin");
	const char *host = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Host");
	const char *site =
		MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
	const char *at = origin ? strstr(origin, "://") : NULL;
	bool ours = !origin || (at && host && !strcasecmp(at + 3, host));
	if (ours && (!site || !strcasecmp(site, "same-origin") || !strcasecmp(site, "none")))
		return 0;
	return problem_set(p, PROBLEM_FORBIDDEN, NULL,
			   "The tree's files are for this server's own page, not for others");
}

static int begin(struct place *at, struct request *r, enum place_use use, struct problem *p)
{
	at->folder = -1;
	return refuse_others(r, p) ? -1 : place_open(at, r, use, p);
}

/* ---- folders ---- */

/* JSON cannot give every name: where some of its bytes are no characters, `path` has the name as a
 * request's path takes it. */
static void add_path(struct json_object *o, const char *name)
{
	struct text shown = {0}, path = {0};
	text_add_characters(&shown, name, strlen(name));
	text_add(&shown, "", 1);
	for (const unsigned char *at = (const unsigned char *)name; *at; at++)
		if (*at > ' ' && *at < 0x7f && !strchr("%?#", *at))
			text_add(&path, at, 1);
		else
			text_format(&path, "%%%02X", *at);
	if (!shown.failed && !path.failed && strcmp(shown.data, name) != 0)
		json_object_object_add(o, "path",
				       json_object_new_string_len(path.data, (int)path.length));
	text_free(&shown);
	text_free(&path);
}

static struct json_object *entry(int folder, const char *name, const char *known_as)
{
	struct stat st;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW))
		return NULL; /* it has gone meanwhile */
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "name", json_object_new_string(known_as));
	add_path(o, known_as);
	json_object_object_add(o, "folder", json_object_new_boolean(S_ISDIR(st.st_mode)));
	json_object_object_add(o, "size", json_object_new_int64(st.st_size));
	json_object_object_add(o, "changed", json_object_new_int64(st.st_mtime));
	return o;
}

/* The descriptor becomes the listing's. */
static enum MHD_Result list(struct request *r, struct place *at, int fd)
{
	struct problem p = {0};
	DIR *folder = fdopendir(fd);
	if (!folder) {
		close(fd);
		place_refused(at, r, -errno, &p);
		return answer(r, at, &p);
	}
	struct json_object *all = json_object_new_array();
	for (const struct dirent *d; (d = readdir(folder));) {
		const char *name = at->sessions ? place_known_as(r, d->d_name) : d->d_name;
		if (!name || !strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		struct json_object *o = entry(dirfd(folder), d->d_name, name);
		if (o)
			json_object_array_add(all, o);
	}
	closedir(folder);
	place_close(at);
	return reply_json(r, MHD_HTTP_OK, all);
}

/* ---- files ---- */

struct reading {
	int fd, client;
};

/* What there is of it: 1 at its end, -errno where it has failed, -EAGAIN where more will come. */
static int read_some(int fd, struct text *out)
{
	char piece[PIECE];
	ssize_t n;
	do
		n = read(fd, piece, sizeof piece);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	text_add(out, piece, (size_t)n);
	return out->failed ? -ENOMEM : n == 0;
}

static int read_next(void *ctx, struct text *out)
{
	struct reading *f = ctx;
	struct pollfd file = {.fd = f->fd, .events = POLLIN};
	int code = read_some(f->fd, out);
	if (code == -EAGAIN)
		return client_wait(f->client, &file, 1, SEND) < 0 ? -1 : 0;
	return code < 0 ? -1 : code;
}

static void read_end(void *ctx)
{
	struct reading *f = ctx;
	close(f->fd);
	free(f);
}

/* What is there at once is an answer with its length; else, and where reading more fails, the
 * connection's end tells. Where files cannot be polled each read may wait, so that what one has
 * brought goes out before the next. */
static enum MHD_Result give(struct request *r, struct place *at, int fd)
{
	struct problem p = {0};
	struct text text = {0};
	int code = 0;
	enum MHD_Result result = MHD_NO;
	while (!code && text.length < PIECE && (r->gateway->polls || !text.length))
		code = read_some(fd, &text);
	if (code == 1)
		result = reply_text(r, MHD_HTTP_OK, plain, text.data ? text.data : "", text.length);
	else if (code && code != -EAGAIN && !text.length) {
		place_refused(at, r, code, &p);
		result = reply_problem(r, &p);
	} else {
		struct reading *f = malloc(sizeof *f);
		if (f) {
			*f = (struct reading){fd, r->client};
			fd = -1;
			result = reply_growing(r, plain, &text, read_next, read_end, f);
		}
	}
	text_free(&text);
	if (fd >= 0)
		close(fd);
	place_close(at);
	return result;
}

enum MHD_Result files_get(struct request *r)
{
	struct place at = {0};
	struct problem p = {0};
	struct stat st;
	if (begin(&at, r, PLACE_READ, &p))
		return answer(r, &at, &p);
	int fd = openat(at.folder, at.name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		place_refused(&at, r, -errno, &p);
		if (fd >= 0)
			close(fd);
		return answer(r, &at, &p);
	}
	return S_ISDIR(st.st_mode) ? list(r, &at, fd) : give(r, &at, fd);
}

/* sync: its close would say nothing of how it went, as tree_write_far has it. */
static int write_body(const struct place *at, const struct text *body, bool sync)
{
	int fd = openat(at->folder, at->name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
	return tree_write_open(fd < 0 ? -errno : fd, body->data, body->length, sync);
}

/* What a use of a place has come to. */
static enum MHD_Result done(struct request *r, struct place *at, int code, unsigned status)
{
	struct problem p = {0};
	if (code) {
		place_refused(at, r, code, &p);
		return answer(r, at, &p);
	}
	place_close(at);
	return reply_text(r, status, plain, "", 0);
}

static bool is_gap(char c)
{
	return c == ' ' || c == '\n';
}

/* `fork NAME` for a session's ctl, as the tree calls it: the copy is who asks's as well. As the
 * tree reads it, NAME is what follows one blank or newline, up to the last of them. */
static int name_fork(const struct request *r, struct text *verb)
{
	static const char FORK[] = "fork ";
	char known[NAME_MAX + 1], name[NAME_MAX + 1];
	const struct text *body = &r->body;
	size_t at = sizeof FORK - 1, end = body->length;
	while (end > at && is_gap(body->data[end - 1]))
		end--;
	if (end <= at || end - at > NAME_MAX || memchr(body->data + at, 0, end - at))
		return -EINVAL;
	memcpy(known, body->data + at, end - at);
	known[end - at] = 0;
	if (strchr(known, '/') || !strcmp(known, ".") || !strcmp(known, ".."))
		return -EINVAL;
	if (!place_tree_name(r, known, name))
		return -ENAMETOOLONG;
	text_format(verb, "%s%s\n", FORK, name);
	return verb->failed ? -ENOMEM : 0;
}

static bool is_fork(const struct place *at, const struct text *body)
{
	return at->session && !strcmp(at->name, "ctl") && body->length > 4 &&
	       !memcmp(body->data, "fork", 4) && is_gap(body->data[4]);
}

enum MHD_Result files_put(struct request *r)
{
	struct place at = {0};
	struct problem p = {0};
	struct text verb = {0};
	if (begin(&at, r, PLACE_WRITE, &p))
		return answer(r, &at, &p);
	bool forks = is_fork(&at, &r->body);
	int code = forks ? name_fork(r, &verb) : 0;
	if (!code)
		code = write_body(&at, forks ? &verb : &r->body, !r->gateway->polls);
	text_free(&verb);
	return done(r, &at, code, MHD_HTTP_OK);
}

enum MHD_Result files_make(struct request *r)
{
	struct place at = {0};
	struct problem p = {0};
	if (begin(&at, r, PLACE_FOLDER, &p))
		return answer(r, &at, &p);
	return done(r, &at, mkdirat(at.folder, at.name, 0700) ? -errno : 0, MHD_HTTP_CREATED);
}

enum MHD_Result files_remove(struct request *r)
{
	struct place at = {0};
	struct problem p = {0};
	if (begin(&at, r, PLACE_FOLDER, &p))
		return answer(r, &at, &p);
	return done(r, &at, unlinkat(at.folder, at.name, AT_REMOVEDIR) ? -errno : 0, MHD_HTTP_OK);
}
