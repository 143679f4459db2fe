/* Reading tokenizer.json (Hugging Face tokenizers). */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_JSON_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_JSON_H

#include "engine/tokenizer/tokenizer_build.h"

/* A tokenizer.json in memory, into a zeroed tokenizer. */
int tokenizer_read_json(struct tokenizer *t, const char *text, size_t n, const char *name,
			struct err *e);

#endif
