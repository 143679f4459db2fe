/* What tokenizer_config.json says beside the tokenizer itself: which tokens begin and end a text.
 */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_CONFIG_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_CONFIG_H

#include "engine/tokenizer/tokenizer_build.h"

enum { CONFIG_FILE_MAX = 16 << 20 };

/* Takes "bos_token", "eos_token" and "add_bos_token" into a tokenizer that has its tokens. What the
 * last says counts before the template of a tokenizer.json. `name` is the file for errors. */
int tokenizer_config_take(struct tokenizer *t, const struct json *config, const char *name,
			  struct err *e);
/* The same from a directory's file, if there is one. */
int tokenizer_config_read(struct tokenizer *t, const char *directory, struct err *e);

#endif
