/* What writes a config.json of the keys of a GGUF file: gguf_config.c, key by key, and
 * gguf_derived.c, what follows from several, and gguf_rope.c, rotations. Within engine/family only. */
#ifndef MOEFS_ENGINE_FAMILY_GGUF_WRITER_H
#define MOEFS_ENGINE_FAMILY_GGUF_WRITER_H

#include "engine/family/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>

struct gguf_writer {
	const struct gguf *g;
	const struct package *package;
	const struct family *family;
	const char *architecture, *name; /* of the file, for messages */
	FILE *out;
	struct err *e;
};

enum { GGUF_KEY_BYTES = 256 };

/* ARCHITECTURE.suffix; no architecture of ours makes it longer. */
void gguf_full_key(const struct gguf_writer *w, const char *suffix, char key[GGUF_KEY_BYTES]);
bool gguf_writer_has(const struct gguf_writer *w, const char *suffix);
int gguf_writer_uint(const struct gguf_writer *w, const char *suffix, uint64_t *out);
int gguf_writer_uint_or(const struct gguf_writer *w, const char *suffix, uint64_t fallback,
			uint64_t *out);

/* A member more of the config. */
void gguf_put_uint(const struct gguf_writer *w, const char *name, uint64_t value);
void gguf_put_bool(const struct gguf_writer *w, const char *name, bool value);
void gguf_put_real(const struct gguf_writer *w, const char *name, double value);

/* rope_scaling, of keys and of the tensor that some files have it in. */
int gguf_put_rope(const struct gguf_writer *w);
/* All members that follow from more than one key, or from tensors. */
int gguf_put_derived(const struct gguf_writer *w);

#endif
