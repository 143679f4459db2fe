/* The chat template of a source, which may be what a GGUF file holds. */
#ifndef MOEFS_ENGINE_FAMILY_GGUF_TEMPLATE_H
#define MOEFS_ENGINE_FAMILY_GGUF_TEMPLATE_H

#include "engine/template/chat_template.h"

/* Of a folder, by the files in it (chat_template_open), or of a GGUF file or its first part: keys
 * tokenizer.chat_template and tokenizer.chat_template.tool_use. Errors as chat_template_open. */
int source_template_open(struct chat_template **out, const char *path, const struct tokenizer *t,
			 struct err *e);

#endif
