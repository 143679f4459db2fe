/* An expert that is in memory takes the place of one that is not (params/substitute), as in "Substitute
 * instead of wait": the router's ranks beyond those that a token has are experts that it found nearly
 * as good. */
#ifndef MOEFS_ENGINE_COMPUTE_SUBSTITUTE_H
#define MOEFS_ENGINE_COMPUTE_SUBSTITUTE_H

#include <stdbool.h>
#include <stdint.h>

struct substitute {
	uint32_t keep;	 /* the first ranks are never substituted */
	uint32_t window; /* substitutes are among the first ranks; 0: none are */
	/* Whether an expert need not be waited for. */
	bool (*present)(void *ctx, uint32_t expert);
	void *ctx;
};

/* chosen[count] are the first ranks of one token by values[experts], descending, ties to the lowest
 * index. Each one behind the first `keep` that is not present gives its place to the best rank behind
 * `count`, within `window`, that is present and has no place yet; one for which there is none stays.
 * Values of minus infinity have no rank. Returns how many places were given. */
uint32_t substitute_choose(const struct substitute *how, const float *values, uint32_t experts,
			   uint32_t *chosen, uint32_t count);

#endif
