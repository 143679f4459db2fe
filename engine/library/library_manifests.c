/* ollama's folder: a manifest for each name and tag, manifests/HOST/NAMESPACE/MODEL/TAG. */
#include "engine/library/library_list.h"

#include "engine/library/ollama.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct library_manifests {
	struct library_walk walk;
	enum { HOST, NAMESPACE, MODEL, TAG } above; /* what the names of a folder are */
};

/* What a manifest that cannot be used is called: MODEL:TAG. */
static void library_add_refused(const struct library_walk *w, const char *path, const char *why)
{
	const char *tag = strrchr(path, '/'), *model = tag;
	char name[2 * NAME_MAX];
	while (model > path && model[-1] != '/')
		model--;
	(void)snprintf(name, sizeof name, "%.*s:%s", (int)(tag - model), model, tag + 1);
	library_add(w, name, path, why);
}

static void library_add_manifest(const struct library_walk *w, const char *path)
{
	struct ollama_model *m;
	struct err why;
	if (ollama_open(&m, path, &why)) {
		library_add_refused(w, path, why.text);
		return;
	}
	library_add(w, m->name, path, NULL);
	ollama_close(m);
}

static void library_manifests_entry(void *ctx, const char *path, const char *name)
{
	const struct library_manifests *m = ctx;
	struct library_manifests inside = *m;
	if (m->above == TAG) {
		library_add_manifest(&m->walk, path);
		return;
	}
	if (m->above == NAMESPACE)
		inside.walk.publisher = strcmp(name, "library") ? name : "ollama";
	inside.above++;
	library_note_folder(m->walk.list, path);
	library_each_known(&inside.walk, path, library_manifests_entry, &inside);
}

void library_walk_manifests(const struct library_walk *w, const char *root)
{
	struct library_manifests m = {*w, HOST};
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/manifests", root) >= (int)sizeof path)
		return;
	library_note_folder(w->list, path);
	library_each_known(w, path, library_manifests_entry, &m);
}
