/* What a session may give up for speed: off unless its params ask for it, and named in its stats
 * when on.
 *
 * A step (a chunk of a prompt, or one token of an answer) is what both rules speak of.
 *
 * Fewer experts: each token passes through the first few of its router's choice, weighed as if the
 * model were made for so many. The text depends on nothing else.
 *
 * Dropped experts: a step does without an expert that is not in memory when its layer begins and to
 * which each of the step's tokens gives a weight below the threshold. A token's heaviest expert is
 * never dropped. The weights of those that remain are scaled up to the same sum. The text then
 * depends on what the cache holds, and so on its size and on all that was computed before.
 */
#ifndef MOEFS_ENGINE_COMPUTE_LOSSES_H
#define MOEFS_ENGINE_COMPUTE_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

struct losses {
	uint32_t experts_per_token; /* less than the model's own; 0: as many as that */
	float drop_missing;	    /* the threshold; 0: none is dropped */
};

static inline bool losses_equal(const struct losses *a, const struct losses *b)
{
	return a->experts_per_token == b->experts_per_token && a->drop_missing == b->drop_missing;
}

#endif
