/* The patterns by which a tokenizer splits text into words, compiled. */
#ifndef MOEFS_ENGINE_TOKENIZER_SPLIT_PATTERN_H
#define MOEFS_ENGINE_TOKENIZER_SPLIT_PATTERN_H

#include "cache/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SPLIT_STAGES_MAX = 16, /* pre-tokenizers in a sequence */
	PATTERN_BYTES_MAX = 16384,
};

struct split_stage {
	struct pcre2_real_code_8 *near; /* NULL: does not split */
	struct pcre2_real_code_8 *far;	/* the same pattern, made so that its work can be counted */
	bool prefix_space;		/* first puts a space before what does not begin with one */
};
struct splitter {
	struct split_stage stages[SPLIT_STAGES_MAX]; /* each splits what the one before it left */
	uint32_t count;
	char *name; /* of the file, for errors; owned */
};
/* `pattern` as Hugging Face reads it (Oniguruma's syntax), or NULL for none. Matches and the gaps
 * between them both become pieces. What PCRE2 would read differently is refused. */
int splitter_add(struct splitter *s, const char *pattern, bool prefix_space, const char *name,
		 struct err *e);
/* The same for a text that splits where it stands. */
int splitter_add_text(struct splitter *s, const char *text, const char *name, struct err *e);
void splitter_free(struct splitter *s);

#endif
