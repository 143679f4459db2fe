/* A model in a hub's cache: models--ORG--NAME/snapshots/HASH, one folder for each revision;
 * refs/NAME says which HASH a branch or tag has. What refs/main names has the model's name, other
 * revisions are NAME@REVISION. */
#include "engine/library/library_list.h"

#include "engine/json/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { REVISION = 64, HASH_MOST = 128, SHORT_HASH = 8, DEPTH = 2 };

/* ---- the names of revisions ---- */

struct library_ref {
	const char *hash;
	const char *above;   /* of a name such as refs/pr/1: "pr-"; else "" */
	char name[REVISION]; /* the result; empty: no name has this hash */
};

static bool library_ref_is(const char *path, const char *hash)
{
	char *text;
	size_t n;
	struct err none;
	if (json_read_file(&text, &n, path, HASH_MOST, &none))
		return false;
	bool is = strcspn(text, "\r\n") == strlen(hash) && !strncmp(text, hash, strlen(hash));
	free(text);
	return is;
}

static void library_ref_entry(void *ctx, const char *path, const char *name)
{
	struct library_ref *r = ctx, inside = *r;
	struct stat st;
	char above[REVISION];
	if (*r->name || stat(path, &st))
		return;
	if (S_ISDIR(st.st_mode) && !*r->above) {
		(void)snprintf(above, sizeof above, "%.*s-", REVISION - 2, name);
		inside.above = above;
		(void)library_each(path, library_ref_entry, &inside);
		memcpy(r->name, inside.name, REVISION);
	} else if (library_ref_is(path, r->hash)) {
		(void)snprintf(r->name, REVISION, "%s%s", r->above, name);
	}
}

/* "@" and a branch's or tag's name, or the beginning of the hash. */
static void library_revision(const char *folder, const char *hash, char suffix[REVISION + 1])
{
	struct library_ref r = {.hash = hash, .above = ""};
	char refs[PATH_MAX];
	if (snprintf(refs, sizeof refs, "%s/refs", folder) < (int)sizeof refs)
		(void)library_each(refs, library_ref_entry, &r);
	(void)snprintf(suffix, REVISION + 1, "@%.*s", *r.name ? REVISION - 1 : SHORT_HASH,
		       *r.name ? r.name : hash);
}

/* ---- snapshots ---- */

struct library_hub {
	struct library_walk walk;
	const char *folder, *main; /* main: the path of its snapshot; NULL: none */
};

static void library_hub_snapshot(void *ctx, const char *path, const char *name)
{
	const struct library_hub *h = ctx;
	struct library_walk own = h->walk;
	char suffix[REVISION + 1];
	if (h->main && !strcmp(strrchr(h->main, '/') + 1, name))
		return;
	library_revision(h->folder, name, suffix);
	own.suffix = suffix;
	library_walk_folder(&own, path);
}

/* The model's folder is its path where that leads to the model, so that a later download counts. */
static void library_hub_main(const struct library_hub *h, const char *name)
{
	struct model_place place;
	struct err why;
	size_t before = h->walk.list->count;
	int failed = place_find(&place, h->folder, &why);
	if (!failed) { /* a download adds its files one by one */
		library_note_folder(h->walk.list, h->main);
		library_add(&h->walk, place.name, h->folder, NULL);
		place_free(&place);
		return;
	}
	library_walk_inside(&h->walk, h->main);
	if (h->walk.list->count == before)
		library_add(&h->walk, name, h->folder, why.text);
}

void library_walk_hub(const struct library_walk *w, const char *folder, const char *name)
{
	char path[PATH_MAX], *org = strdup(name + strlen("models--"));
	char *main = place_hub_snapshot(folder);
	struct library_hub h = {.walk = *w, .folder = folder, .main = main};
	h.walk.depth = DEPTH;
	char *last = org;
	for (char *next; last && (next = strstr(last, "--"));)
		last = next + 2;
	if (last && last > org) {
		last[-2] = 0;
		h.walk.publisher = org;
	}
	w->list->failed |= !org;
	library_note_folder(w->list, folder);
	size_t before = w->list->count;
	if (main && last)
		library_hub_main(&h, last);
	if (last && snprintf(path, sizeof path, "%s/snapshots", folder) < (int)sizeof path) {
		library_note_folder(w->list, path);
		library_each_known(&h.walk, path, library_hub_snapshot, &h);
	}
	if (last && w->list->count == before)
		library_add(&h.walk, last, folder, "it has no snapshot: is the download complete?");
	free(main);
	free(org);
}
