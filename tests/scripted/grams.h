/* A scripted model's knowledge: sequences of tokens, and the token after each.
 *
 * A gram is some tokens in a row, as many as its level has (grams_length). One of level 0 is a
 * token; any other is two of the level below, of which the second ends where it does, and the first
 * some places before (grams_distance). Of each place in a script where something is said, the
 * longest gram that ends there and does not reach beyond the beginning of `after` says what comes
 * next. Of several that end at one place the longest counts; one that says nothing itself says what
 * its second half does. */
#ifndef MOEFS_TESTS_SCRIPTED_GRAMS_H
#define MOEFS_TESTS_SCRIPTED_GRAMS_H

#include "tests/scripted/script.h"

enum { GRAMS_LEVELS = 26, GRAMS_MOST = 1 << 17 };

#define NEXT_UNKNOWN (-2)
#define NEXT_END (-1) /* the token that ends an answer */

struct gram {
	uint32_t level;
	uint32_t left, right; /* grams of the level below; of level 0: 0 and the token */
	int64_t next;	      /* a token, or one of the above */
};
struct grams { /* zero-initialise; freed by grams_free */
	struct gram *list;
	size_t count, room;
	uint32_t *places; /* of the list, by hash, from 1; 0: free */
	size_t place_count;
	uint32_t levels; /* the highest that there is */
};

/* How many tokens a gram of a level has: 256 of the highest. */
uint32_t grams_length(uint32_t level);
/* From the end of a gram's first half to its own, of a level above 0. */
uint32_t grams_distance(uint32_t level);

/* Of as few levels as tell apart what is said, and so that most of each `after` counts. -EINVAL in
 * words: two answers of which the 256 tokens before a difference are the same. */
int grams_make(struct grams *g, const struct script *s, struct err *e);
void grams_free(struct grams *g);

#endif
