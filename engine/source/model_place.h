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
	bool hub;    /* in a hub's cache, whose client wants nothing else in there */
};
void place_free(struct model_place *p);

/* -ENOENT: there is nothing that was meant to be a model by itself. -EINVAL: there is, but it is
 * not whole, or there is more than one. Both in words that say what is there. Looks at names, and
 * at the first bytes of files. */
int place_find(struct model_place *out, const char *given, struct err *e);

#endif
