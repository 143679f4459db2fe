/* Folders of GGUF files and checkpoints, as LM Studio, llama.cpp and hubs keep them. */
#include "engine/library/library_list.h"

#include "engine/source/source_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
