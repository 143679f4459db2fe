/* Opens the tokenizer and the chat template of a source: from the files in a folder, or from a GGUF
 * file or its first part. */
#ifndef MOEFS_ENGINE_FAMILY_SOURCE_TEXT_H
#define MOEFS_ENGINE_FAMILY_SOURCE_TEXT_H

#include "cache/err.h"
#include "engine/template/chat_template.h"

struct gguf;
struct tokenizer;

/* Errors as tokenizer_open and tokenizer_open_gguf. */
int source_tokenizer_open(struct tokenizer **out, const char *path, struct err *e);
/* The same from an open GGUF file, which may be closed before the tokenizer. -ENOENT: the file has
 * no vocabulary. */
int source_tokenizer_open_gguf(struct tokenizer **out, const struct gguf *g, const char *name,
			       struct err *e);

/* A template for a GGUF file that has none. */
struct source_template {
	const char *text, *origin; /* as of chat_template_open_text */
};

/* A GGUF file's template is in tokenizer.chat_template and tokenizer.chat_template.tool_use. If it
 * has neither, `instead` is used, which may be NULL. Errors as chat_template_open. */
int source_template_open(struct chat_template **out, const char *path,
			 const struct source_template *instead, const struct tokenizer *t,
			 struct err *e);

#endif
