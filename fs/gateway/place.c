/* Paths of requests, checked and walked. See place.h. */
#include "fs/gateway/place.h"
#include "fs/gateway/failure.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PARTS = 8 };

enum { PREFIX = 32 };

static void prefix_of(const struct request *r, char prefix[PREFIX])
{
	char mark[KEY_MARK];
	*prefix = 0;
	if (!r->gateway->keys || !r->key)
		return;
	keys_mark(r->gateway->keys, r->key, mark);
	(void)snprintf(prefix, PREFIX, "key-%s-", mark);
}

const char *place_known_as(const struct request *r, const char *session)
{
	char prefix[PREFIX];
	prefix_of(r, prefix);
	size_t n = strlen(prefix);
	return strncmp(session, prefix, n) != 0 || !session[n] ? NULL : session + n;
}

bool place_tree_name(const struct request *r, const char *session, char name[NAME_MAX + 1])
{
	char prefix[PREFIX];
	prefix_of(r, prefix);
	return snprintf(name, NAME_MAX + 1, "%s%s", prefix, session) <= NAME_MAX;
}

/* The session that is meant by a name. False: no name of the tree is as long. */
static bool own_session(struct place *at, const struct request *r, const char **part)
{
	bool fits = place_tree_name(r, *part, at->own);
	at->session = *part = at->own;
	return fits;
}

/* Cuts the path into its parts. -1: there are too many, or one is no name. */
static int split(struct place *at, const char *path, const char *parts[PARTS])
{
	int count = 0;
	size_t n = strlen(path);
	if (n >= sizeof at->path)
		return -1;
	memcpy(at->path, path, n + 1);
	memcpy(at->parts, path, n + 1);
	for (char *part = at->parts; n && part;) {
		char *slash = strchr(part, '/');
		if (slash)
			*slash++ = 0;
		if (!*part || !strcmp(part, ".") || !strcmp(part, "..") || count == PARTS)
			return -1;
		parts[count++] = part;
		part = slash;
	}
	return count;
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names;
}

/* Of the whole mount, and of a model beside its sessions. With keys nobody is shown what others
 * said: neither in the files of sessions/default, which are in the model's folder as well, nor in
 * failures and traces, which have the names of sessions. */
static bool may_look(const struct place *at, const char *const *parts, int count, bool keys)
{
	static const char *const mount[] = {"README", "version", "cache", NULL};
	static const char *const model[] = {"info", "config.json", NULL};
	static const char *const experts[] = {"map", "stats", "stats.json", NULL};
	if (!count || (count == 1 && at->model))
		return true;
	if (!at->model)
		return is_one_of(parts[0], mount) || (!keys && !strcmp(parts[0], "error"));
	if (!keys || is_one_of(parts[1], model) || at->sessions)
		return true;
	return count == 3 && !strcmp(parts[1], "experts") && is_one_of(parts[2], experts);
}

static int check(struct place *at, const struct request *r, enum place_use use, const char **parts,
		 int count, struct problem *p)
{
	const struct options *o = r->gateway->options;
	bool below = count > 1 && !strcmp(parts[1], "sessions");
	if (count && tree_model(o->tree, parts[0]))
		at->model = parts[0];
	bool named = !at->model || !below || count < 3 || own_session(at, r, &parts[2]);
	at->sessions = at->model && below && count == 2;
	at->name = count ? parts[count - 1] : ".";
	bool allowed = use == PLACE_WRITE    ? at->session && count > 3
		       : use == PLACE_FOLDER ? at->session && count == 3
		       : at->session	     ? true
					     : may_look(at, parts, count, o->key_file);
	if (allowed && named)
		return 0;
	if (use == PLACE_READ)
		return problem_set(p, PROBLEM_NOT_FOUND, NULL, "There is no %.200s to be read here",
				   at->path);
	return problem_set(p, PROBLEM_FORBIDDEN, NULL,
			   "%.200s cannot be changed from here: only sessions can, MODEL/sessions/"
			   "NAME, and the files in them",
			   at->path);
}

int place_open(struct place *at, const struct request *r, enum place_use use, struct problem *p)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	const char *parts[PARTS];
	int count = split(at, r->rest, parts);
	at->folder = -1;
	at->use = use;
	if (count < 0)
		return problem_set(p, PROBLEM_INVALID, NULL, "'%.200s' is no path in the tree",
				   r->rest);
	if (tree_is_gone(r->gateway->options->tree, r->gateway->device))
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	if (check(at, r, use, parts, count, p))
		return -1;
	at->folder = open(r->gateway->options->tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i + 1 < count && at->folder >= 0; i++) {
		int next = openat(at->folder, parts[i], flags);
		int code = errno;
		close(at->folder);
		at->folder = next;
		errno = code;
	}
	return at->folder < 0 ? place_refused(at, r, -errno, p) : 0;
}

void place_close(struct place *at)
{
	if (at->folder >= 0)
		close(at->folder);
	at->folder = -1;
}

/* By the errno alone, where the tree says nothing: the kernel refused, or what is missing. */
static enum problem_kind place_kind(int code)
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
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (-code == rows[i].code)
			return rows[i].kind;
	return PROBLEM_INVALID;
}

int place_refused(const struct place *at, const struct request *r, int code, struct problem *p)
{
	struct failure f = {0};
	enum problem_kind kind = place_kind(code);
	const char *member = code == -EPERM || at->use == PLACE_FOLDER ? "denied"
			     : at->use == PLACE_WRITE		       ? "refused"
								       : NULL;
	/* EACCES is the kernel's answer, of which error.json knows nothing. */
	if (at->session && kind != PROBLEM_NOT_FOUND && code != -EACCES)
		(void)failure_read(&f, member, r->gateway->options->tree, "%s/sessions/%s",
				   at->model, at->session);
	if (failure_kind(&f))
		return problem_set(p, failure_kind(&f), NULL, "%s", f.message);
	return problem_set(p, kind, NULL, "%.200s: %s", at->path, strerror(-code));
}
