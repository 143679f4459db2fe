/* The candidates of params/format=choices: texts of which an answer is one, exactly.
 *
 * They are written one a line, or as a JSON list of strings. Not here: how likely they are
 * (engine/turn/choose.h). */
#ifndef MOEFS_ENGINE_SESSION_CHOICES_H
#define MOEFS_ENGINE_SESSION_CHOICES_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	CHOICES_BYTES = 4 << 20, /* of the text that was written */
	CHOICES_MOST = 10000,
	CHOICES_TOKENS = 64, /* most tokens of a candidate */
};

struct choice {
	const char *text; /* [n], in `bytes`; may contain any UTF-8 but NUL */
	size_t n;
};

struct choices {    /* zero-initialise; freed by choices_free */
	char *text; /* as it was written; NULL: there are none */
	size_t n;
	/* What it says; NULL in a copy that was not parsed yet. */
	struct choice *list;
	size_t count;
	char *bytes;
};

/* Checks the text and takes it, or forgets the candidates if it is blank. -EINVAL: an empty
 * candidate, one that is there twice, text that is not UTF-8, or a list of something else; -EFBIG;
 * -ENOMEM. After an error nothing has changed. */
int choices_set(struct choices *c, const char *text, size_t n, struct err *e);
/* Copies only the text, since a lock is held; choices_parse makes the list. -ENOMEM. */
int choices_copy(struct choices *to, const struct choices *from, struct err *e);
int choices_parse(struct choices *copy, struct err *e);
void choices_free(struct choices *c);

#endif
