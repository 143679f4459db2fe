/* Detects answers that repeat themselves endlessly.
 *
 * An answer repeats itself if its last max(PERIODS_LEAST, PERIODS_TIMES p) tokens have a period p
 * of at most PERIODS_MOST: each of these tokens equals the one p places before it, if that is also
 * one of these tokens. Only the ids count, so drafts and other sessions make no difference. turn.c
 * decides whether the answer ends. */
#ifndef MOEFS_ENGINE_TURN_PERIODS_H
#define MOEFS_ENGINE_TURN_PERIODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PERIODS_MOST = 64,   /* longest period in tokens */
	PERIODS_LEAST = 256, /* least tokens that must repeat, for any period */
	PERIODS_TIMES = 8,   /* least periods that must repeat */
};

struct periods {
	size_t first; /* index of the first token that counts */
	/* [p]: how many tokens at the end equal the token p places before them. [0] is not used. */
	uint32_t run[PERIODS_MOST + 1];
	bool repeats; /* the answer repeats itself now */
};

/* Starts again: tokens before ids[first] do not count. */
void periods_begin(struct periods *p, size_t first);
/* Takes the token ids[count - 1]. Call it once for each token from `first` on, in order. Compares
 * at most PERIODS_MOST tokens. */
void periods_take(struct periods *p, const uint32_t *ids, size_t count);

#endif
