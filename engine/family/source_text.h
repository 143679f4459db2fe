/* The tokenizer and the chat template of a source: of a folder, by the files in it, or of a GGUF
 * file or its first part. */
#ifndef MOEFS_ENGINE_FAMILY_SOURCE_TEXT_H
#define MOEFS_ENGINE_FAMILY_SOURCE_TEXT_H

#include "cache/err.h"
#include "engine/template/chat_template.h"

struct gguf;
struct tokenizer;

/* Errors as tokenizer_open and tokenizer_open_gguf. */
int source_tokenizer_open(struct tokenizer **out, const char *path, struct err *e);
/* The same of an open GGUF file; the tokenizer outlives g. -ENOENT: the file has no vocabulary. */
int source_tokenizer_open_gguf(struct tokenizer **out, const struct gguf *g, const char *name,
			       struct err *e);

/* A GGUF file has it in tokenizer.chat_template and tokenizer.chat_template.tool_use. Errors as
 * chat_template_open. */
int source_template_open(struct chat_template **out, const char *path, const struct tokenizer *t,
			 struct err *e);

#endif
