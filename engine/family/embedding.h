/* How a model computes the embedding of a text: pooling, normalisation, and a prompt before the
 * text.
 *
 * Checkpoints for embeddings have files of sentence-transformers: modules.json lists the modules
 * (Transformer, Pooling and Normalize are supported), 1_Pooling/config.json the pooling, and
 * config_sentence_transformers.json may have a prompt to put before each text. A GGUF file has
 * pooling_type; its vectors are normalised, as llama.cpp does. Other models use the mean of the
 * last hidden states. The tokenizer knows the token that ends a text (tokenizer_end).
 *
 * Unsupported settings are an error when an embedding is asked for, not when the model is opened:
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
	const char *from;	       /* static: the file or key with these settings; NULL: none */
	char prompt[EMBEDDING_PROMPT]; /* before each text */
	struct err refused;
	/* The checkpoint has no output head, and its config does not say that it is tied: the model
	 * can only compute embeddings. */
	bool headless;
};

/* Reads the files in a checkpoint's folder. Errors: -ENOMEM, and files that cannot be read. */
int embedding_read(struct embedding *x, const char *directory, struct err *e);
/* Sets x from a GGUF file's pooling_type. */
void embedding_take_gguf(struct embedding *x, unsigned type);
/* "last token, normalised (modules.json)" */
void embedding_print(const struct embedding *x, char *text, size_t size);

#endif
