/* What a path that a user gives as a model leads to: a checkpoint's folder, or a GGUF file; a
 * folder that holds one GGUF file and no folders; a model in the cache of a hub's client
 * (models--ORG--NAME/snapshots/HASH), where refs/main names the newest snapshot.
 */
#ifndef MOEFS_ENGINE_SOURCE_MODEL_PLACE_H
#define MOEFS_ENGINE_SOURCE_MODEL_PLACE_H

#include "cache/err.h"

#include <stdbool.h>

struct model_place { /* owned */
	char *path;  /* absolute: a folder with a config.json and safetensors, or a GGUF file */
	char *name;  /* by which it is shown */
	/* Whose folder it is in, if it is another program's, which wants nothing else in there:
	 * "a hub's cache". Static. NULL: the user's own folder. */
	const char *keeper;
};
void place_free(struct model_place *p);

/* -ENOENT: there is nothing that was meant to be a model by itself. -EINVAL: there is, but it is
 * not whole, or there is more than one. Both in words that say what is there. Looks at names, and
 * at the first bytes of files. */
int place_find(struct model_place *out, const char *given, struct err *e);

/* For looking into folders. Whether a file's name is that of a model: a GGUF file, or the first
 * part of one. Files with mmproj in their names are the part of a model that sees or hears. */
bool place_is_gguf_model(const char *name);
/* Of a hub's models--ORG--NAME: the snapshot that refs/main names, or the only one, malloc'ed;
 * NULL: there is none, or no memory. */
char *place_hub_snapshot(const char *folder);

#endif
