/* Lists of other programs' models: filled, named, freed (engine/model.h). */
#include "engine/library/library_list.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static char *library_copy(struct library_list *l, const char *text)
{
	char *copy = text ? strdup(text) : NULL;
	l->failed |= text && !copy;
	return copy;
}

void library_add(const struct library_walk *w, const char *name, const char *path, const char *why)
{
	struct library_list *l = w->list;
	struct library_model *grown = l->count < LIBRARY_MOST
					      ? reallocarray(l->models, l->count + 1, sizeof *grown)
					      : NULL;
	l->failed |= !grown;
	if (!grown)
		return;
	l->models = grown;
	struct library_model *m = &l->models[l->count++];
	*m = (struct library_model){
		.keeper = w->place->keeper,
		.path = library_copy(l, path),
		.publisher = library_copy(l, w->publisher),
		.why = library_copy(l, why),
	};
	if (name && asprintf(&m->name, "%s%s", name, w->suffix) < 0) {
		m->name = NULL;
		l->failed = true;
	}
}

void library_note_folder(struct library_list *l, const char *folder)
{
	char **grown = reallocarray(l->folders, l->folder_count + 1, sizeof *grown);
	char *copy = library_copy(l, folder);
	if (grown)
		l->folders = grown;
	l->failed |= !grown;
	if (grown && copy)
		l->folders[l->folder_count++] = copy;
	else
		free(copy);
}

static int library_is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int library_each(const char *folder, library_entry *each, void *ctx)
{
	struct dirent **entries;
	char path[PATH_MAX];
	int n = scandir(folder, &entries, library_is_visible, alphasort);
	if (n < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		if (snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) <
		    (int)sizeof path)
			each(ctx, path, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}

void library_each_known(const struct library_walk *w, const char *folder, library_entry *each,
			void *ctx)
{
	struct err why;
	int failed = library_each(folder, each, ctx);
	if (!failed)
		return;
	err_sys(&why, -failed, "the folder %s cannot be read", folder);
	library_add(w, NULL, folder, why.text);
}

/* ---- names ---- */

/* Whether another model is called so, among the first `count`. */
static bool library_is_taken(const struct library_list *l, const char *name, size_t count,
			     size_t except)
{
	for (size_t i = 0; i < count; i++)
		if (i != except && l->models[i].name && !strcmp(l->models[i].name, name))
			return true;
	return false;
}

/* malloc'ed; NULL: out of memory. */
static char *library_full_name(const struct library_model *m)
{
	char *name = NULL;
	if (!m->publisher)
		return strdup(m->name);
	return asprintf(&name, "%s-%s", m->publisher, m->name) < 0 ? NULL : name;
}

/* Those that have an equal are compared before any is changed. */
static void library_name_by_publisher(struct library_list *l)
{
	char **full = calloc(l->count + 1, sizeof *full);
	l->failed |= !full;
	for (size_t i = 0; full && i < l->count; i++) {
		const struct library_model *m = &l->models[i];
		if (m->name && library_is_taken(l, m->name, l->count, i))
			l->failed |= !(full[i] = library_full_name(m));
	}
	for (size_t i = 0; full && i < l->count; i++) {
		if (!full[i])
			continue;
		free(l->models[i].name);
		l->models[i].name = full[i];
	}
	free(full);
}

/* NAME-2, NAME-3 … for model i, if one before it is called NAME. */
static void library_number(struct library_list *l, size_t i)
{
	struct library_model *m = &l->models[i];
	char *base = m->name, *name = base;
	for (unsigned n = 2; name && library_is_taken(l, name, i, i); n++) {
		if (name != base)
			free(name);
		if (asprintf(&name, "%s-%u", base, n) < 0)
			name = NULL;
	}
	l->failed |= base && !name;
	if (name && name != base) {
		free(base);
		m->name = name;
	}
}

int library_name(struct library_list *l, struct err *e)
{
	library_name_by_publisher(l);
	for (size_t i = 0; i < l->count && !l->failed; i++)
		library_number(l, i);
	return l->failed ? err_set(e, ENOMEM, "out of memory for the names of models") : 0;
}

void library_free(struct library_list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->models[i].name);
		free(l->models[i].publisher);
		free(l->models[i].path);
		free(l->models[i].why);
	}
	for (size_t i = 0; i < l->folder_count; i++)
		free(l->folders[i]);
	free(l->models);
	free(l->folders);
	*l = (struct library_list){0};
}
