/* The tokenizer that a GGUF file holds. */
#ifndef MOEFS_ENGINE_FAMILY_GGUF_TOKENIZER_H
#define MOEFS_ENGINE_FAMILY_GGUF_TOKENIZER_H

#include "cache/err.h"

struct gguf;
struct tokenizer;

/* Errors as tokenizer_open_parts; -ENOENT: the file has no vocabulary. The tokenizer outlives g. */
int gguf_tokenizer_open(struct tokenizer **out, const struct gguf *g, const char *name,
			struct err *e);

#endif
