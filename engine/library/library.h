/* Folders in which other programs keep models: which there are, whose a path is, and what a path
 * that a user gives leads to. What is in such a folder is listed by engine/model.h's library_look.
 *
 * Nothing is ever written into these folders: ollama, for one, deletes files that it does not know.
 * So whatever moefs keeps of a model in one (its store, checksums, heat) goes to the cache folder.
 */
#ifndef MOEFS_ENGINE_LIBRARY_LIBRARY_H
#define MOEFS_ENGINE_LIBRARY_LIBRARY_H

#include "cache/err.h"
#include "engine/source/model_place.h"

#include <stdbool.h>

struct ollama_model;

/* Where one program keeps models. */
struct library_place {
	const char *keeper;   /* in words, as model_place's */
	const char *variable; /* of the environment, an absolute path; NULL: `below` is the path */
	const char *below;    /* the folder, from there on */
	bool instead;	      /* where the variable is set, the keeper's later rows do not count */
	bool manifests;	      /* models are named by manifests, as ollama does */
	bool flat;	      /* files are named PUBLISHER_…, not in a publisher's folder */
};
/* The rows; NULL after the last. */
const struct library_place *library_place(unsigned i);
/* The row's folder as the environment has it, whether or not there is one; path[PATH_MAX]. False:
 * the variable is not set. */
bool library_place_path(const struct library_place *p, char *path);

/* Which program keeps what is at a real path; NULL: none that is known. */
const char *library_keeper(const char *path);

/* place_find, and also a manifest of ollama's: then *said is what that says of the model, to be
 * freed with ollama_close; else NULL. */
int library_find(struct model_place *out, struct ollama_model **said, const char *given,
		 struct err *e);

#endif
