/* SCRIPT.json: a scripted model's answers and the words before them. A list of
 *
 *     {"after": TEXT, "say": TEXT}
 *
 * `after` is the end of what the model reads before its answer: the last words of the user's
 * message, and then what the template writes up to where the model answers. `say` is the answer, up
 * to the token that ends it. Special tokens spelled in either become themselves.
 *
 * `after` is cut into tokens without what stands before it, so it begins where a word does, with
 * its space; its first token is left out for the same reason, unless it is a special one. Of the
 * others at least four fifths count, the last, of 256 at most. */
#ifndef MOEFS_TESTS_SCRIPTED_SCRIPT_H
#define MOEFS_TESTS_SCRIPTED_SCRIPT_H

#include "engine/tokenizer/tokenizer.h"

struct script_entry {
	struct token_list tokens; /* of both */
	size_t said_from;	  /* how many of them are the first's */
};
struct script { /* zero-initialise; freed by script_free */
	struct script_entry *entries;
	size_t count;
};

int script_read(struct script *s, const char *path, const struct tokenizer *t, struct err *e);
void script_free(struct script *s);

#endif
