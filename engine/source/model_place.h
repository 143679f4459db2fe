/* Finds the model at a path given by the user: a checkpoint's folder; a GGUF file; a folder with
 * one GGUF file and no subfolders; or a model in a Hugging Face cache
 * (models--ORG--NAME/snapshots/HASH), where refs/main names the newest snapshot.
 */
#ifndef MOEFS_ENGINE_SOURCE_MODEL_PLACE_H
#define MOEFS_ENGINE_SOURCE_MODEL_PLACE_H

#include "cache/err.h"

#include <stdbool.h>

struct model_place { /* owned */
	char *path;  /* absolute: a folder with a config.json and safetensors, or a GGUF file */
	char *name;  /* shown to users */
	/* If the model is in the folder of another program, where moefs must not write: the name of
	 * that folder, "a hub's cache". Static. NULL: the user's own folder. */
	const char *keeper;
};
void place_free(struct model_place *p);

/* -ENOENT: there is no model at the path. -EINVAL: the model is incomplete, or there are several.
 * The sentence says what is there. Looks only at names and at the first bytes of files. */
int place_find(struct model_place *out, const char *given, struct err *e);

/* Whether a file name is that of a model: a GGUF file, or the first part of one. Not files with
 * mmproj in their names, which contain only the vision or audio part of a model. */
bool place_is_gguf_model(const char *name);
/* The snapshot of a folder models--ORG--NAME: the one that refs/main names, or the only one.
 * malloc'ed; NULL: there is none, or out of memory. */
char *place_hub_snapshot(const char *folder);

#endif
