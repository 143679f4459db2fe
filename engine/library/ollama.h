/* One model as ollama keeps it. A manifest, manifests/HOST/NAMESPACE/MODEL/TAG, lists layers by
 * their digests; each is a file blobs/sha256-HEX: the weights (a GGUF file), a template in Go's
 * language, a system message, params. Manifests and layers are other people's files: sizes are
 * bounded, and a digest is checked before it becomes a path. */
#ifndef MOEFS_ENGINE_LIBRARY_OLLAMA_H
#define MOEFS_ENGINE_LIBRARY_OLLAMA_H

#include "cache/err.h"
#include "engine/family/generation.h"

#include <stdbool.h>
#include <stddef.h>

enum { OLLAMA_DIGEST = sizeof "sha256-" + 64 }; /* bytes of a layer's file name, its end included */

/* The layers that are read; others change nothing, or are refused. */
enum ollama_layer { OLLAMA_WEIGHTS, OLLAMA_TEMPLATE, OLLAMA_SYSTEM, OLLAMA_PARAMS, OLLAMA_LAYERS };
struct ollama_manifest {
	char file[OLLAMA_LAYERS][OLLAMA_DIGEST]; /* in blobs/; empty: there is none */
	bool messages; /* a conversation to begin with, which is not taken */
};
/* Reads text[n]; `name` is the file's in errors. -EINVAL, -ENOTSUP, in words: it is no manifest, or
 * its model cannot be used (an adapter; weights that are elsewhere; an unknown layer). */
int ollama_manifest_read(struct ollama_manifest *m, const char *text, size_t n, const char *name,
			 struct err *e);

/* A way of writing conversations that is known by marks in a template. */
struct ollama_form {
	const char *name;
	const char *jinja; /* NULL: the model's own way, or ChatML (chat_template_open_text) */
};
/* NULL: the Go template is of no known form. */
const struct ollama_form *ollama_form_of(const char *go);

struct ollama_model {	     /* owned */
	char *name;	     /* MODEL:TAG, or MODEL where the tag is latest */
	char *weights;	     /* the GGUF file */
	char *system, *stop; /* as params/system and params/stop have them; NULL: none */
	struct json *params; /* NULL: none */
	/* Of a GGUF file that has no template of its own; NULL: the manifest has none either. */
	const struct ollama_form *form;
	bool messages;
};

/* Whether a path is that of a file in a manifests folder beside a blobs folder. */
bool ollama_is_manifest(const char *path);
/* Whether a path is that of a layer. */
bool ollama_is_blob(const char *path);
int ollama_open(struct ollama_model **out, const char *manifest, struct err *e);
void ollama_close(struct ollama_model *m); /* NULL is fine */

/* Puts params and the system message into a model's defaults, which refer to *m from then on.
 * Params that moefs does not have become lines of g->words. */
int ollama_take_defaults(const struct ollama_model *m, struct generation *g, struct err *e);
/* params["stop"] as lines of params/stop, malloc'ed; NULL: there are none. */
int ollama_stops(char **out, const struct json *params, const char *name, struct err *e);

#endif
