/* Reading vocab.json and merges.txt (GPT-2's layout). */
#ifndef MOEFS_ENGINE_TOKENIZER_TOKENIZER_GPT2_H
#define MOEFS_ENGINE_TOKENIZER_TOKENIZER_GPT2_H

#include "engine/tokenizer/tokenizer_build.h"

/* vocab.json and merges.txt in a directory, into a zeroed tokenizer. */
int tokenizer_read_gpt2(struct tokenizer *t, const char *directory, struct err *e);

#endif
