/* A list of other programs' models while it is made (engine/model.h, library_look). Within
 * engine/library only. */
#ifndef MOEFS_ENGINE_LIBRARY_LIBRARY_LIST_H
#define MOEFS_ENGINE_LIBRARY_LIBRARY_LIST_H

#include "engine/library/library.h"
#include "engine/model.h"

enum { LIBRARY_MOST = 4096 }; /* models of a list */

/* What is known of the models below a folder. */
struct library_walk {
	struct library_list *list;
	const struct library_place *place; /* its kind */
	const char *publisher;		   /* NULL: not known yet */
	const char *suffix;		   /* of names; "": none */
	unsigned depth;			   /* how many folders deep models are looked for */
};

/* Adds a model. `name` without the suffix; NULL: the path is a folder that cannot be looked into.
 * why: the reason why it is no model that can be opened; NULL: none is known. */
void library_add(const struct library_walk *w, const char *name, const char *path, const char *why);
/* Notes a folder that was looked into. */
void library_note_folder(struct library_list *l, const char *folder);

typedef void library_entry(void *ctx, const char *path, const char *name);
/* Calls each() for each name in a folder, sorted, without hidden ones. A negative errno: it cannot
 * be read; that there is none is not an error. */
int library_each(const char *folder, library_entry *each, void *ctx);
/* The same; a folder that cannot be read is added with the reason. */
void library_each_known(const struct library_walk *w, const char *folder, library_entry *each,
			void *ctx);

/* library_walk.c: what is in a folder, w->depth folders deep; and the folder itself, which may be a
 * model. */
void library_walk_inside(const struct library_walk *w, const char *folder);
void library_walk_folder(const struct library_walk *w, const char *folder);
/* library_revision.c: "@" and the name of a branch or tag that has the hash, or the beginning of
 * the hash. folder: a hub's models--ORG--NAME. */
enum { LIBRARY_REVISION = 65 };
void library_revision(const char *folder, const char *hash, char suffix[LIBRARY_REVISION]);
/* library_manifests.c */
void library_walk_manifests(const struct library_walk *w, const char *root);

#endif
