/* Which folders other programs have here, of which kind one is, and what is in it (engine/model.h).
 */
#include "engine/library/library_list.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 3 }; /* PUBLISHER/MODEL/PARTS */

static bool library_is_same(const char *path, const char *real, const struct library_place *p)
{
	char folder[PATH_MAX], own[PATH_MAX];
	return library_place_path(p, folder) &&
	       (!strcmp(folder, path) || (realpath(folder, own) && !strcmp(own, real)));
}

/* The kind of a folder: of those that the environment has, or by what is in it; NULL: another. */
static const struct library_place *library_place_of(const char *path)
{
	const struct library_place *p = NULL;
	char real[PATH_MAX], own[PATH_MAX];
	if (!realpath(path, real))
		*real = 0;
	for (unsigned i = 0; (p = library_place(i)); i++)
		if (library_is_same(path, real, p))
			return p;
	bool is = snprintf(own, sizeof own, "%s/manifests", path) < (int)sizeof own &&
		  !access(own, F_OK) &&
		  snprintf(own, sizeof own, "%s/blobs", path) < (int)sizeof own &&
		  !access(own, F_OK);
	for (unsigned i = 0; is && (p = library_place(i)) && !p->manifests; i++)
		;
	return p;
}

int library_look(struct library_list *l, const char *folder, struct err *e)
{
	struct library_walk w = {
		.list = l, .place = library_place_of(folder), .suffix = "", .depth = DEPTH};
	if (!w.place)
		return -ENOENT;
	if (w.place->manifests)
		library_walk_manifests(&w, folder);
	else
		library_walk_inside(&w, folder);
	if (l->failed)
		return err_set(e, l->count == LIBRARY_MOST ? E2BIG : ENOMEM,
			       "%s: too many models, or out of memory for their list", folder);
	return 0;
}

/* Whether there is such a folder, perhaps one that cannot be looked into. */
static bool library_is_there(const char *path)
{
	struct stat st;
	return stat(path, &st) ? errno == EACCES : S_ISDIR(st.st_mode);
}

static bool library_has_folder(const struct library_list *l, const char *path)
{
	char real[PATH_MAX], other[PATH_MAX];
	for (size_t i = 0; i < l->folder_count; i++)
		if (!strcmp(l->folders[i], path) ||
		    (realpath(path, real) && realpath(l->folders[i], other) &&
		     !strcmp(real, other)))
			return true;
	return false;
}

int library_folders(struct library_list *l, struct err *e)
{
	const struct library_place *p;
	const char *decided = NULL; /* the keeper whose variable says where its models are */
	char path[PATH_MAX];
	for (unsigned i = 0; (p = library_place(i)); i++) {
		if (p->keeper == decided || !library_place_path(p, path))
			continue;
		if (p->instead)
			decided = p->keeper;
		if (library_is_there(path) && !library_has_folder(l, path))
			library_note_folder(l, path);
	}
	return l->failed ? err_set(e, ENOMEM, "out of memory for the names of folders") : 0;
}
