/* The web page, and the tree's files over HTTP for the page.
 *
 *     GET /, /page/NAME   the page's files, which are part of the program (page/README.md)
 *     GET /tree/PATH      reads a file, while it grows if it grows, or lists a folder
 *     … ?from=BYTE        the file's bytes from there on. Of a file that still grows, those that
 *                         come within a second, with status 202. A browser has six connections
 *                         for all its pages; in this way more growing answers than that take
 *                         turns
 *     PUT /tree/PATH      writes a file of a session
 *     POST, DELETE        make and remove a session
 *     MOVE                renames a session; the body is its new name
 *
 * A path's names are looked up one by one without following links, so a path leads only into the
 * tree. Only files of sessions can be written, and only sessions made or removed. With keys each
 * client sees its own sessions: their names in the tree begin with the key's mark, which clients do
 * not see. */
#include "fs/gateway/access.h"
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/reply.h"
#include "fs/gateway/turn/client_wait.h"
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char web_plain[] = "text/plain; charset=utf-8";

/* ---- the page ---- */

enum MHD_Result web_page(struct http_request *r)
{
	static const struct {
		const char *end, *type;
	} types[] = {{".html", "text/html; charset=utf-8"},
		     {".css", "text/css; charset=utf-8"},
		     {".js", "text/javascript; charset=utf-8"},
		     {".svg", "image/svg+xml"},
		     {".txt", "text/plain; charset=utf-8"}};
	const char *name = *r->rest ? r->rest : "index.html", *end = strrchr(name, '.');
	const char *type = "application/octet-stream";
	struct problem p = {0};
	for (size_t i = 0; end && i < sizeof types / sizeof *types; i++)
		if (!strcmp(end, types[i].end))
			type = types[i].type;
	for (const struct web_file *f = web_files; f->name; f++)
		if (!strcmp(f->name, name))
			return reply_text(r, MHD_HTTP_OK, type, (const char *)f->data, f->size);
	problem_set(&p, PROBLEM_NOT_FOUND, NULL, "There is nothing at %.200s", r->path);
	return reply_problem(r, &p);
}

/* ---- resolving a path, and checking access ---- */

enum web_use {
	WEB_READ,
	WEB_WRITE,  /* a file of a session */
	WEB_FOLDER, /* make or remove a session */
};

enum { WEB_PARTS = 8 };

struct web_place {
	enum web_use use;
	char path[TREE_PATH];  /* as requested */
	char parts[TREE_PATH]; /* a copy of the path, split at slashes */
	const char *part[WEB_PARTS];
	int count;
	const char *model;	/* NULL: outside of models */
	const char *session;	/* its name in the tree; NULL: outside of sessions */
	char own[NAME_MAX + 1]; /* buffer for that name, if it differs from the client's */
	const char *name;	/* the last part; "." for the tree itself */
	int folder;		/* the folder of `name`, opened with O_PATH; -1: not opened */
	bool sessions;		/* it is the folder of a model's sessions */
};

/* The prefix of the tree's names for the client's sessions; "" without keys. */
static void web_prefix(const struct http_request *r, char prefix[32])
{
	char mark[KEY_MARK];
	*prefix = 0;
	if (!r->gateway->keys || !r->key)
		return;
	access_keys_mark(r->gateway->keys, r->key, mark);
	(void)snprintf(prefix, 32, "key-%s-", mark);
}

/* Makes the tree's name for a session of the client. False: it is too long. */
static bool web_tree_name(const struct http_request *r, const char *session,
			  char name[NAME_MAX + 1])
{
	char prefix[32];
	web_prefix(r, prefix);
	return snprintf(name, NAME_MAX + 1, "%s%s", prefix, session) <= NAME_MAX;
}

/* Splits the path. False: it has too many parts, or a part is not a name. */
static bool web_split(struct web_place *at, const char *path)
{
	size_t n = strlen(path);
	if (n >= sizeof at->path)
		return false;
	memcpy(at->path, path, n + 1);
	memcpy(at->parts, path, n + 1);
	for (char *part = at->parts; n && part;) {
		char *slash = strchr(part, '/');
		if (slash)
			*slash++ = 0;
		if (!*part || !strcmp(part, ".") || !strcmp(part, "..") || at->count == WEB_PARTS)
			return false;
		at->part[at->count++] = part;
		part = slash;
	}
	return true;
}

static bool web_is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names;
}

/* Whether files outside of sessions may be read. With keys no client may see others' text. So the
 * files of sessions/default, which a model's folder also has, may not be read, nor failures, traces
 * and cache/waiting, which name sessions. */
static bool web_may_look(const struct web_place *at, bool keys)
{
	static const char *const mount[] = {"README", "version", "kept", "cache", NULL};
	static const char *const model[] = {"info", "config.json", NULL};
	static const char *const experts[] = {"map", "stats", "stats.json", NULL};
	if (!at->count || (at->count == 1 && at->model))
		return true;
	if (keys && !strcmp(at->path, "cache/waiting"))
		return false;
	if (!at->model)
		return web_is_one_of(at->part[0], mount) ||
		       (!keys && !strcmp(at->part[0], "error"));
	if (!keys || web_is_one_of(at->part[1], model) || at->sessions)
		return true;
	return at->count == 3 && !strcmp(at->part[1], "experts") &&
	       web_is_one_of(at->part[2], experts);
}

static int web_check(struct web_place *at, const struct http_request *r, struct problem *p)
{
	const struct gateway_options *o = r->gateway->options;
	bool below = at->count > 1 && !strcmp(at->part[1], "sessions"), named = true;
	if (at->count && tree_model(o->tree, at->part[0]))
		at->model = at->part[0];
	at->sessions = at->model && below && at->count == 2;
	if (at->model && below && at->count > 2) {
		named = web_tree_name(r, at->part[2], at->own);
		at->session = at->part[2] = at->own;
	}
	at->name = at->count ? at->part[at->count - 1] : ".";
	bool allowed = at->use == WEB_WRITE    ? at->session && at->count > 3
		       : at->use == WEB_FOLDER ? at->session && at->count == 3
		       : at->session	       ? true
					       : web_may_look(at, o->key_file);
	if (allowed && named)
		return 0;
	if (at->use == WEB_READ)
		return problem_set(p, PROBLEM_NOT_FOUND, NULL, "There is no %.200s here to read",
				   at->path);
	return problem_set(p, PROBLEM_FORBIDDEN, NULL,
			   "%.200s cannot be changed from here: only sessions can, MODEL/sessions/"
			   "NAME, and the files in them",
			   at->path);
}

/* Sets *p to the reason why the tree or the kernel refused to use a place, in the session's words
 * if it has any. Returns -1. code: the -errno. */
static int web_refused(const struct web_place *at, const struct http_request *r, int code,
		       struct problem *p)
{
	static const struct {
		int code;
		enum problem_kind kind;
	} rows[] = {
		{ENOENT, PROBLEM_NOT_FOUND}, {ENOTDIR, PROBLEM_NOT_FOUND},
		{ELOOP, PROBLEM_NOT_FOUND},  {ESTALE, PROBLEM_NOT_FOUND},
		{EACCES, PROBLEM_FORBIDDEN}, {EPERM, PROBLEM_FORBIDDEN},
		{EBUSY, PROBLEM_BUSY},	     {EIO, PROBLEM_FAILED},
		{ENOMEM, PROBLEM_NOT_NOW},   {ENOTCONN, PROBLEM_NOT_NOW},
		{ENOSPC, PROBLEM_NOT_NOW},
	};
	struct tree_failure f = {0};
	enum problem_kind kind = PROBLEM_INVALID;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (-code == rows[i].code)
			kind = rows[i].kind;
	const char *member = code == -EPERM || at->use == WEB_FOLDER ? "denied"
			     : at->use == WEB_WRITE		     ? "refused"
								     : NULL;
	/* EACCES comes from the kernel, so error.json has no reason. */
	if (at->session && kind != PROBLEM_NOT_FOUND && code != -EACCES)
		(void)tree_failure_read(&f, member, r->gateway->options->tree, "%s/sessions/%s",
					at->model, at->session);
	if (tree_failure_kind(&f))
		return problem_set(p, tree_failure_kind(&f), NULL, "%s", f.message);
	return problem_set(p, kind, NULL, "%.200s: %s", at->path, strerror(-code));
}

/* Resolves a request's path, and opens its folder. Call web_close in every case. -1: *p. */
static int web_open(struct web_place *at, struct http_request *r, enum web_use use,
		    struct problem *p)
{
	const char *origin = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Origin");
	const char *host = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Host");
	const char *site =
		MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
	const char *own = origin ? strstr(origin, "://") : NULL;
	bool ours = !origin || (own && host && !strcasecmp(own + 3, host));
	*at = (struct web_place){.use = use, .folder = -1};
	/* Conversations can be read here, so pages of other origins get nothing, even if -o cors=
	 * allows them to use the APIs. Sec-Fetch-Site is present in requests without Origin, such
	 * as for an image. */
	if (!ours ||
	    (site && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0))
		return problem_set(
			p, PROBLEM_FORBIDDEN, NULL,
			"The tree's files are for this server's own page, not for others");
	if (!web_split(at, r->rest))
		return problem_set(p, PROBLEM_INVALID, NULL, "\"%.200s\" is not a path in the tree",
				   r->rest);
	if (tree_is_gone(r->gateway->options->tree, r->gateway->device))
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	if (web_check(at, r, p))
		return -1;
	at->folder = open(r->gateway->options->tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i + 1 < at->count && at->folder >= 0; i++) {
		int next = openat(at->folder, at->part[i],
				  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int code = errno;
		close(at->folder);
		at->folder = next;
		errno = code;
	}
	return at->folder < 0 ? web_refused(at, r, -errno, p) : 0;
}

static void web_close(struct web_place *at)
{
	if (at->folder >= 0)
		close(at->folder);
	at->folder = -1;
}

static enum MHD_Result web_refuse(struct http_request *r, struct web_place *at,
				  const struct problem *p)
{
	web_close(at);
	return reply_problem(r, p);
}

/* Answers after using a place: with `status`, or with the reason of the failure. code: 0 or
 * -errno. */
static enum MHD_Result web_done(struct http_request *r, struct web_place *at, int code,
				unsigned status)
{
	struct problem p = {0};
	if (code) {
		web_refused(at, r, code, &p);
		return web_refuse(r, at, &p);
	}
	web_close(at);
	return reply_text(r, status, web_plain, "", 0);
}

/* ---- folders ---- */

/* JSON cannot express every file name. If bytes of a name are not characters, `path` has the name
 * in the form of a request's path. */
static void web_add_path(json_object *o, const char *name)
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
		json_put_n(o, "path", path.data, path.length);
	text_free(&shown);
	text_free(&path);
}

/* fd: the folder, which this closes. */
static enum MHD_Result web_list(struct http_request *r, struct web_place *at, int fd)
{
	DIR *folder = fdopendir(fd);
	if (!folder) {
		int code = -errno;
		close(fd);
		return web_done(r, at, code, 0);
	}
	json_object *all = json_object_new_array();
	char prefix[32] = "";
	if (at->sessions)
		web_prefix(r, prefix);
	size_t n = strlen(prefix);
	for (const struct dirent *d; (d = readdir(folder));) {
		const char *name = d->d_name + n; /* for a session, the client's name */
		struct stat st;
		if (strncmp(d->d_name, prefix, n) != 0 || !*name || !strcmp(d->d_name, ".") ||
		    !strcmp(d->d_name, "..") ||
		    fstatat(dirfd(folder), d->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		json_object *o = json_new("name=%s", name);
		web_add_path(o, name);
		json_object_object_add(o, "folder", json_object_new_boolean(S_ISDIR(st.st_mode)));
		json_object_object_add(o, "size", json_object_new_int64(st.st_size));
		json_object_object_add(o, "changed", json_object_new_int64(st.st_mtime));
		json_object_array_add(all, o);
	}
	closedir(folder);
	web_close(at);
	return reply_json(r, MHD_HTTP_OK, all);
}

/* ---- files ---- */

enum { WEB_PIECE = 64 << 10, WEB_WAIT_MS = 1000, WEB_PART_MS = 1000, NS_PER_MS = 1000000 };

struct web_reading {
	int fd, client;
	uint64_t until; /* client_clock at the end of this part of the file; 0: no end */
};

/* Reads a piece. 1: end of file; -EAGAIN: more will come; -errno. */
static int web_read_some(int fd, struct text *out)
{
	char piece[WEB_PIECE];
	ssize_t n;
	do
		n = read(fd, piece, sizeof piece);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	text_add(out, piece, (size_t)n);
	return out->failed ? -ENOMEM : n == 0;
}

static int web_read_next(void *ctx, struct text *out)
{
	struct web_reading *f = ctx;
	struct pollfd file = {.fd = f->fd, .events = POLLIN};
	int64_t left = f->until ? ((int64_t)f->until - (int64_t)client_clock()) / NS_PER_MS : WEB_WAIT_MS;
	int code = left <= 0 ? 1 : web_read_some(f->fd, out);
	if (code == -EAGAIN)
		return client_wait(f->client, &file, 1, (int)left) < 0 ? -1 : 0;
	return code < 0 ? -1 : code;
}

static void web_read_end(void *ctx)
{
	struct web_reading *f = ctx;
	close(f->fd);
	free(f);
}

/* Sends a file that ends at once with its length. For any other file, or if reading more fails, the
 * end of the connection marks the end. Without polling each read may wait, so the result of one
 * read is sent before the next. */
static enum MHD_Result web_send(struct http_request *r, struct web_place *at, int fd, bool part)
{
	struct text text = {0};
	int code = 0;
	enum MHD_Result result = MHD_NO;
	while (!code && text.length < WEB_PIECE && (r->gateway->polls || !text.length))
		code = web_read_some(fd, &text);
	if (code == 1)
		result = reply_text(r, MHD_HTTP_OK, web_plain, text.data ? text.data : "",
				    text.length);
	else if (code && code != -EAGAIN && !text.length)
		result = web_done(r, at, code, 0);
	else {
		struct web_reading *f = malloc(sizeof *f);
		if (f) {
			*f = (struct web_reading){fd, r->client,
						 part ? client_clock() + WEB_PART_MS * NS_PER_MS : 0};
			fd = -1;
			result = reply_growing(r, part ? MHD_HTTP_ACCEPTED : MHD_HTTP_OK, web_plain,
					       &text, web_read_next, web_read_end, f);
		}
	}
	text_free(&text);
	if (fd >= 0)
		close(fd);
	web_close(at);
	return result;
}

/* Reads the query's byte offset. */
static int web_from(const char *from, off_t *byte, struct problem *p)
{
	enum { DIGITS = 15 };
	*byte = 0;
	if (from && (!*from || strlen(from) > DIGITS || strspn(from, "0123456789") != strlen(from)))
		return problem_set(p, PROBLEM_INVALID, "from", "from: must be a number of bytes");
	if (from)
		*byte = (off_t)strtoll(from, NULL, 10);
	return 0;
}

enum MHD_Result web_read(struct http_request *r)
{
	struct web_place at;
	struct problem p = {0};
	struct stat st;
	off_t byte;
	const char *from = reply_query(r, "from");
	if (web_open(&at, r, WEB_READ, &p) || web_from(from, &byte, &p))
		return web_refuse(r, &at, &p);
	int fd = openat(at.folder, at.name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || (byte && lseek(fd, byte, SEEK_SET) < 0)) {
		int code = -errno;
		if (fd >= 0)
			close(fd);
		return web_done(r, &at, code, 0);
	}
	return S_ISDIR(st.st_mode) ? web_list(r, &at, fd) : web_send(r, &at, fd, from);
}

static bool web_is_blank(char c)
{
	return c == ' ' || c == '\n';
}

/* Changes `fork NAME` for a session's ctl to the tree's name, so that the copy is the client's,
 * too. As in the tree, NAME begins after one blank or newline and ends before blanks at the end. */
static int web_name_fork(const struct http_request *r, struct text *verb)
{
	static const char FORK[] = "fork ";
	char known[NAME_MAX + 1], name[NAME_MAX + 1];
	const struct text *body = &r->body;
	size_t at = sizeof FORK - 1, end = body->length;
	while (end > at && web_is_blank(body->data[end - 1]))
		end--;
	if (end <= at || end - at > NAME_MAX || memchr(body->data + at, 0, end - at))
		return -EINVAL;
	memcpy(known, body->data + at, end - at);
	known[end - at] = 0;
	if (strchr(known, '/') || !strcmp(known, ".") || !strcmp(known, ".."))
		return -EINVAL;
	if (!web_tree_name(r, known, name))
		return -ENAMETOOLONG;
	text_format(verb, "%s%s\n", FORK, name);
	return verb->failed ? -ENOMEM : 0;
}

/* Whether a write sets params/share_with. With keys only the gateway may set it: see web_make. */
static bool web_sets_share(const struct http_request *r, const struct web_place *at)
{
	static const char name[] = "share_with";
	return r->gateway->keys &&
	       (!strcmp(at->name, name) ||
		(!strcmp(at->name, "ctl") &&
		 memmem(r->body.data, r->body.length, name, sizeof name - 1)));
}

enum MHD_Result web_write(struct http_request *r)
{
	struct web_place at;
	struct problem p = {0};
	struct text verb = {0};
	const struct text *body = &r->body;
	if (web_open(&at, r, WEB_WRITE, &p))
		return web_refuse(r, &at, &p);
	if (web_sets_share(r, &at))
		return web_done(r, &at, -EPERM, 0);
	bool forks = !strcmp(at.name, "ctl") && body->length > 4 &&
		     !memcmp(body->data, "fork", 4) && web_is_blank(body->data[4]);
	int code = forks ? web_name_fork(r, &verb) : 0;
	if (!code) {
		int fd = openat(at.folder, at.name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
		if (forks)
			body = &verb;
		code = tree_write_open(fd < 0 ? -errno : fd, !r->gateway->polls, body->data,
				       body->length);
	}
	text_free(&verb);
	return web_done(r, &at, code, MHD_HTTP_OK);
}

/* Makes a session that shares its computed context only within the key. Until that is set, the
 * session has another name, so that no client can use it yet. */
static int web_make_shared(struct http_request *r, const struct web_place *at)
{
	char name[SESSION_NAME], mark[KEY_MARK];
	access_keys_mark(r->gateway->keys, r->key, mark);
	session_new_name(r->gateway, name);
	if (mkdirat(at->folder, name, 0700))
		return -errno;
	int code = tree_write(r->gateway->options->tree, false, mark, strlen(mark),
			      "%s/sessions/%s/params/share_with", at->model, name);
	if (!code && renameat(at->folder, name, at->folder, at->name))
		code = -errno;
	if (code)
		(void)unlinkat(at->folder, name, AT_REMOVEDIR);
	return code;
}

enum MHD_Result web_make(struct http_request *r)
{
	struct web_place at;
	struct problem p = {0};
	if (web_open(&at, r, WEB_FOLDER, &p))
		return web_refuse(r, &at, &p);
	int code = r->gateway->keys			   ? web_make_shared(r, &at)
		   : mkdirat(at.folder, at.name, 0700) ? -errno
						       : 0;
	return web_done(r, &at, code, MHD_HTTP_CREATED);
}

enum MHD_Result web_remove(struct http_request *r)
{
	struct web_place at;
	struct problem p = {0};
	if (web_open(&at, r, WEB_FOLDER, &p))
		return web_refuse(r, &at, &p);
	return web_done(r, &at, unlinkat(at.folder, at.name, AT_REMOVEDIR) ? -errno : 0,
			MHD_HTTP_OK);
}

/* Makes the tree's name of the session named in the body. */
static int web_new_name(const struct http_request *r, char name[NAME_MAX + 1])
{
	const struct text *body = &r->body;
	char known[NAME_MAX + 1];
	if (!body->length || body->length > NAME_MAX || memchr(body->data, 0, body->length))
		return body->length > NAME_MAX ? -ENAMETOOLONG : -EINVAL;
	memcpy(known, body->data, body->length);
	known[body->length] = 0;
	if (strchr(known, '/') || !strcmp(known, ".") || !strcmp(known, ".."))
		return -EINVAL;
	return web_tree_name(r, known, name) ? 0 : -ENAMETOOLONG;
}

enum MHD_Result web_move(struct http_request *r)
{
	struct web_place at;
	struct problem p = {0};
	char name[NAME_MAX + 1];
	if (web_open(&at, r, WEB_FOLDER, &p))
		return web_refuse(r, &at, &p);
	int code = web_new_name(r, name);
	if (!code && renameat(at.folder, at.name, at.folder, name))
		code = -errno;
	return web_done(r, &at, code, MHD_HTTP_OK);
}
