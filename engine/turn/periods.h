/* Answers that repeat themselves without an end.
 *
 * An answer repeats itself once its last max(PERIODS_LEAST, PERIODS_TIMES p) tokens have a period p
 * of at most PERIODS_MOST: each of them equals the token p places before it, as far as that one is
 * among them. By the ids alone, so drafts and other sessions change nothing. Not here: whether the
 * answer ends for that (turn.c). */
#ifndef MOEFS_ENGINE_TURN_PERIODS_H
#define MOEFS_ENGINE_TURN_PERIODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PERIODS_MOST = 64,   /* tokens of the longest period */
	PERIODS_LEAST = 256, /* tokens that repeat, however short the period is */
	PERIODS_TIMES = 8,   /* the same in periods */
};

struct periods {
	size_t first; /* index of the first token that counts */
	/* [p]: how many of the last tokens equal the one p places before. [0] is not used. */
	uint32_t run[PERIODS_MOST + 1];
	bool repeats; /* the answer repeats itself */
};

/* Nothing before ids[first] counts, from now on. */
void periods_begin(struct periods *p, size_t first);
/* Takes the last of ids[count]: each token from `first` on is taken once, in their order. Compares
 * PERIODS_MOST tokens at most. */
void periods_take(struct periods *p, const uint32_t *ids, size_t count);

#endif
