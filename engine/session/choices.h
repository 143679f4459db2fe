/* The candidates of params/format=choices: the answer is exactly one of these texts.
 *
 * They are written one per line, or as a JSON list of strings. engine/turn/choose.h computes their
 * probabilities. */
#ifndef MOEFS_ENGINE_SESSION_CHOICES_H
#define MOEFS_ENGINE_SESSION_CHOICES_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	CHOICES_BYTES = 4 << 20, /* most bytes of the text */
	CHOICES_MOST = 10000,
	CHOICES_TOKENS = 64, /* most tokens per candidate */
};

struct choice {
	const char *text; /* [n], in `bytes`; any UTF-8 except NUL */
	size_t n;
};

struct choices {    /* zero-initialise; freed by choices_free */
	char *text; /* as it was written; NULL: no candidates */
	size_t n;
	/* The parsed text; NULL in a copy that is not parsed yet. */
	struct choice *list;
	size_t count;
	char *bytes;
};

/* Checks and sets the text; a blank text removes the candidates. -EINVAL: a candidate is empty or
 * occurs twice, the text is not UTF-8, or a list has items other than strings; -EFBIG; -ENOMEM.
 * After an error nothing has changed. */
int choices_set(struct choices *c, const char *text, size_t n, struct err *e);
/* Copies only the text, since the caller holds a lock; choices_parse makes the list later. -ENOMEM.
 */
int choices_copy(struct choices *to, const struct choices *from, struct err *e);
int choices_parse(struct choices *copy, struct err *e);
void choices_free(struct choices *c);

#endif
