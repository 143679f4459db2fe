/* The session of a turn: made, gone on with, kept or removed; and what other gateways have left. */
#include "fs/gateway/identity.h"
#include "fs/gateway/turn/turn_inside.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *session_path(const struct turn *t, char path[TREE_PATH])
{
	return tree_path(path, turn_tree(t), "%s/sessions/%s", t->session.model, t->session.name);
}

static void name_session(struct turn *t, const char *kind)
{
	(void)snprintf(t->session.name, sizeof t->session.name, "http-%s%s-%" PRIu64, kind,
		       t->gateway->id, atomic_fetch_add(&t->gateway->next_session, 1) + 1);
}

static int make_session(struct turn *t, struct problem *p)
{
	char path[TREE_PATH];
	name_session(t, "");
	if (!session_path(t, path))
		return problem_set(p, PROBLEM_FAILED, NULL, "the tree's path is too long");
	if (!mkdir(path, 0700)) {
		t->made = true;
		return 0;
	}
	int code = errno;
	if (code == ENOENT && tree_is_gone(turn_tree(t), t->gateway->device))
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	if (code == ENOENT)
		return problem_set(p, PROBLEM_MODEL, "model", "The model '%.100s' has gone",
				   t->session.model);
	return problem_set(p, code == ENOSPC ? PROBLEM_BUSY : PROBLEM_NOT_NOW, NULL,
			   "cannot make a session in the tree: %s", strerror(code));
}

/* Under another name; where that cannot be it stays what it is. */
static bool rename_session(struct turn *t, const char *kind)
{
	char from[TREE_PATH], to[TREE_PATH], old[KEPT_NAME];
	memcpy(old, t->session.name, sizeof old);
	bool fits = session_path(t, from);
	name_session(t, kind);
	if (fits && session_path(t, to) && !rename(from, to))
		return true;
	memcpy(t->session.name, old, sizeof old);
	return false;
}

/* Whether it has the name of its kind, or one at all: across another file system it stays what it
 * is called, for the reason that is in removal.h. */
static bool take_name(struct turn *t, const char *kind)
{
	char path[TREE_PATH];
	if (t->gateway->polls)
		return rename_session(t, kind);
	return session_path(t, path) && !access(path, F_OK);
}

/* The session that was kept of the same conversation. False: it is gone, somebody has removed it.
 */
static bool go_on(struct turn *t, const struct kept_session *kept)
{
	memcpy(t->session.name, kept->name, sizeof t->session.name);
	t->made = t->used = take_name(t, "");
	return t->made;
}

/* A new session that begins as the one that was kept. Where that fails it is merely new. */
static int fork_session(struct turn *t, struct kept_session *kept, struct problem *p)
{
	char folder[TREE_PATH], from[KEPT_NAME + 8], to[KEPT_NAME + 8];
	if (make_session(t, p))
		return -1;
	(void)snprintf(folder, sizeof folder, "%s/sessions", t->session.model);
	(void)snprintf(from, sizeof from, "%s/state", kept->name);
	(void)snprintf(to, sizeof to, "%s/state", t->session.name);
	t->used = !tree_copy(turn_tree(t), folder, from, to);
	if (t->used)
		memcpy(t->session.params, kept->params, sizeof t->session.params);
	kept_put(t->gateway->kept, kept);
	return 0;
}

int session_find(struct turn *t, const struct wish *w, struct problem *p)
{
	struct kept_session kept = {0};
	enum kept_found found = KEPT_NONE;
	bool known = w->messages && !w->beside && !w->counts && t->gateway->options->keep &&
		     kept_hash(&t->session, w->tools, w->messages);
	t->keeps = known;
	if (known)
		found = kept_take(t->gateway->kept, &t->session, &kept);
	if (found == KEPT_BEGINNING)
		return fork_session(t, &kept, p);
	if (found == KEPT_WHOLE) {
		memcpy(t->session.params, kept.params, sizeof t->session.params);
		bool there = go_on(t, &kept);
		free(kept.messages);
		if (there)
			return 0;
		*t->session.params = 0;
	}
	return make_session(t, p);
}

/* What is kept takes at most half of what contexts may, so that it is in nobody's way. */
static void keep_session(struct turn *t)
{
	kept_put(t->gateway->kept, &t->session);
	for (;;) {
		struct text stats = {0};
		(void)tree_read(turn_tree(t), &stats, "cache/stats");
		text_add(&stats, "", 1);
		bool full = !stats.failed && stats_number(stats.data, "context_used") >
						     stats_number(stats.data, "context_budget") / 2;
		text_free(&stats);
		if (!full || !kept_drop(t->gateway->kept))
			return;
	}
}

void session_leave(struct turn *t, bool keep)
{
	if (keep && t->keeps && !atomic_load(&t->gateway->stopping) && take_name(t, "kept-")) {
		keep_session(t);
		return;
	}
	if (t->made)
		removal_put(&t->gateway->removal, t->session.model, t->session.name);
	free(t->session.messages);
}

static int clear_model(void *ctx, const char *name)
{
	const struct gateway *g = ctx;
	char path[TREE_PATH];
	struct dirent **names;
	int count = tree_path(path, g->options->tree, "%s/sessions", name)
			    ? scandir(path, &names, NULL, NULL)
			    : -1;
	for (int i = 0; i < count; i++) {
		const char *is = names[i]->d_name;
		bool kept = !strncmp(is, "http-kept-", 10);
		bool ours = !strncmp(is, "http-", 5) && identity_is_over(is + (kept ? 10 : 5));
		if (ours && tree_path(path, g->options->tree, "%s/sessions/%s", name, is))
			(void)rmdir(path);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
	return 0;
}

void turns_clear(const struct gateway *g)
{
	(void)tree_models(g->options->tree, clear_model, (void *)(uintptr_t)g);
}
