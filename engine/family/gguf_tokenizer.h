/* The tokenizer of a source, which may be what a GGUF file holds. */
#ifndef MOEFS_ENGINE_FAMILY_GGUF_TOKENIZER_H
#define MOEFS_ENGINE_FAMILY_GGUF_TOKENIZER_H

#include "cache/err.h"

struct gguf;
struct tokenizer;

/* Errors as tokenizer_open_gguf; -ENOENT: the file has no vocabulary. The tokenizer outlives g. */
int gguf_tokenizer_open(struct tokenizer **out, const struct gguf *g, const char *name,
			struct err *e);
/* Of a folder, by the files in it (tokenizer_open), or of a GGUF file or its first part. */
int source_tokenizer_open(struct tokenizer **out, const char *path, struct err *e);

#endif
