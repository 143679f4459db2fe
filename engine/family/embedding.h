/* How a model makes one vector of a text: pooling, normalisation, and what stands before a text.
 *
 * A checkpoint for embeddings says it in files of sentence-transformers: modules.json lists its
 * modules, of which Transformer, Pooling and Normalize are known, with 1_Pooling/config.json; and
 * config_sentence_transformers.json may name a prompt that stands before each text. A GGUF file has
 * pooling_type, and llama.cpp normalises what it pools. A model that says nothing has the mean of
 * its last hidden states. The token that ends a text is the tokenizer's (tokenizer_end).
 *
 * What is not known is refused when an embedding is asked for, not when the model is opened:
 * `refused` says why. */
#ifndef MOEFS_ENGINE_FAMILY_EMBEDDING_H
#define MOEFS_ENGINE_FAMILY_EMBEDDING_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { EMBEDDING_PROMPT = 1024 };

struct embedding {
	enum pooling { POOL_MEAN, POOL_FIRST, POOL_LAST } pooling;
	bool normalised; /* to a length of 1 */
	const char *from; /* static: the file or key that says so; NULL: nothing does */
	char prompt[EMBEDDING_PROMPT]; /* before each text */
	struct err refused;
	/* The checkpoint has no output head, and its config no word of a tied one: the model only
	 * makes embeddings. */
	bool headless;
};

/* Reads the files in a checkpoint's directory. -ENOMEM and what cannot be read are errors. */
int embedding_read(struct embedding *x, const char *directory, struct err *e);
/* By a GGUF file's pooling_type. */
void embedding_take_gguf(struct embedding *x, unsigned type);
/* "last token, normalised (modules.json)" */
void embedding_print(const struct embedding *x, char *text, size_t size);

#endif
