/* Pre-tokenizers: split a text into words by the patterns of a tokenizer file. */
#ifndef MOEFS_ENGINE_TOKENIZER_PRETOKENIZE_H
#define MOEFS_ENGINE_TOKENIZER_PRETOKENIZE_H

#include "cache/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The patterns by which a tokenizer splits text into words, compiled. */

enum {
	PRETOKENIZE_STAGES_MAX = 16, /* pre-tokenizers in a sequence */
	PATTERN_BYTES_MAX = 16384,
};

struct pretokenize_stage {
	struct pcre2_real_code_8 *near; /* NULL: does not split */
	struct pcre2_real_code_8 *far;	/* the same pattern, compiled so that its work is counted */
	bool prefix_space; /* first puts a space before a piece that does not begin with one */
};
struct pretokenizer {
	struct pretokenize_stage
		stages[PRETOKENIZE_STAGES_MAX]; /* each splits what the one before it left */
	uint32_t count;
	char *name; /* of the file, for errors; owned */
};
/* Adds a stage. `pattern` is in Oniguruma's syntax, as Hugging Face reads it; NULL: no split.
 * Matches and the gaps between them both become pieces. Anything that PCRE2 would read
 * differently is refused. */
int pretokenize_add(struct pretokenizer *s, const char *pattern, bool prefix_space,
		    const char *name, struct err *e);
/* Adds a stage that splits at a literal text. */
int pretokenize_add_literal(struct pretokenizer *s, const char *text, const char *name,
			    struct err *e);
void pretokenize_free(struct pretokenizer *s);

struct pretokenize_work; /* for one text of at most `bytes` bytes */
struct pretokenize_work *pretokenize_work_new(size_t bytes, const _Atomic bool *stop);
void pretokenize_work_free(struct pretokenize_work *w);
typedef int pretokenize_word(void *context, const char *word, size_t n, struct err *e);
/* Calls `each` for every word of text[n] (valid UTF-8) in order, until one returns nonzero. */
int pretokenize_words(const struct pretokenizer *s, struct pretokenize_work *w, const char *text,
		      size_t n, pretokenize_word *each, void *context, struct err *e);

/* How published tokenizers split text, by the names in GGUF files. */

extern const char GPT2_PATTERN[], QWEN2_PATTERN[], KIMI_PATTERN[];

struct pretokenize_name {
	const char *name;
	const char *const *patterns; /* ends in a NULL; each splits what the one before it left */
	bool nfc;
	bool ignore_merges;
	bool add_bos; /* if the file does not say */
};
/* Returns NULL for an unknown name. */
const struct pretokenize_name *pretokenize_find_name(const char *name);

#endif
