/* Folders of GGUF files and checkpoints, as LM Studio, llama.cpp and hubs keep them.
 *
 * A hub's model is a folder models--ORG--NAME with a folder snapshots/HASH for each revision. What
 * refs/main names has the model's name, other revisions are NAME@REVISION. */
#include "engine/library/library_list.h"

#include "engine/source/source_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HUB_DEPTH = 2 }; /* of folders in a snapshot */

static void library_walk_hub(const struct library_walk *w, const char *folder, const char *name);

/* Folders of a hub's cache that are not models; a store that moefs once made beside one. */
static bool library_is_passed_over(const char *name)
{
	return !strncmp(name, "datasets--", 10) || !strncmp(name, "spaces--", 8) ||
	       source_stem(name, ".moefs");
}

static void library_walk_file(const struct library_walk *w, const char *path, const char *name)
{
	struct library_walk own = *w;
	struct model_place place;
	struct err why;
	char *publisher = NULL;
	if (w->place->flat && !w->publisher && strchr(name, '_'))
		publisher = strndup(name, strcspn(name, "_"));
	if (publisher)
		own.publisher = publisher;
	int failed = place_find(&place, path, &why);
	library_add(&own, failed ? name : place.name, path, failed ? why.text : NULL);
	if (!failed)
		place_free(&place);
	free(publisher);
}

static void library_walk_entry(void *ctx, const char *path, const char *name)
{
	const struct library_walk *w = ctx;
	struct library_walk own = *w;
	struct stat st;
	if (library_is_passed_over(name))
		return;
	bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
	if (folder && !strncmp(name, "models--", 8)) {
		library_walk_hub(w, path, name);
	} else if (folder && w->depth) {
		own.publisher = w->publisher ? w->publisher : name;
		own.depth--;
		library_walk_folder(&own, path);
	} else if (!folder && place_is_gguf_model(name)) {
		library_walk_file(w, path, name);
	}
}

void library_walk_inside(const struct library_walk *w, const char *folder)
{
	struct library_walk own = *w;
	library_note_folder(w->list, folder);
	library_each_known(w, folder, library_walk_entry, &own);
}

void library_walk_folder(const struct library_walk *w, const char *folder)
{
	struct library_list *l = w->list;
	struct model_place place;
	struct err why;
	size_t before = l->count;
	int failed = place_find(&place, folder, &why);
	if (!failed) {
		library_note_folder(l, folder);
		library_add(w, place.name, folder, NULL);
		place_free(&place);
		return;
	}
	library_walk_inside(w, folder);
	if (failed != -ENOENT && l->count == before)
		library_add(w, strrchr(folder, '/') + 1, folder, why.text);
}

/* ---- a hub's model ---- */

struct library_hub {
	struct library_walk walk;
	const char *folder, *main; /* main: the path of its snapshot; NULL: none */
};

static void library_hub_snapshot(void *ctx, const char *path, const char *name)
{
	const struct library_hub *h = ctx;
	struct library_walk own = h->walk;
	char suffix[LIBRARY_REVISION];
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

static void library_walk_hub(const struct library_walk *w, const char *folder, const char *name)
{
	char path[PATH_MAX], *org = strdup(name + strlen("models--"));
	char *main = place_hub_snapshot(folder);
	struct library_hub h = {.walk = *w, .folder = folder, .main = main};
	h.walk.depth = HUB_DEPTH;
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
