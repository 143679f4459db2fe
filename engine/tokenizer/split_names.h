/* How published tokenizers split text, by the names that GGUF files have for it. */
#ifndef MOEFS_ENGINE_TOKENIZER_SPLIT_NAMES_H
#define MOEFS_ENGINE_TOKENIZER_SPLIT_NAMES_H

#include <stdbool.h>

extern const char GPT2_PATTERN[], QWEN2_PATTERN[];

struct split_name {
	const char *name;
	const char *const *patterns; /* ends in a NULL; each splits what the one before it left */
	bool nfc;
	bool ignore_merges;
	bool add_bos; /* where the file does not say */
};
/* NULL: not known. */
const struct split_name *split_name_find(const char *name);

#endif
