/* Between weights.c, which writes the tensors, and neurons.c, which fills those of a feed-forward.
 */
#ifndef MOEFS_TESTS_SCRIPTED_TENSORS_H
#define MOEFS_TESTS_SCRIPTED_TENSORS_H

#include "tests/scripted/weights.h"

/* The parts of the residual stream. */
enum {
	PART_KNOWN = 0,
	PART_FETCHED = CODE_SIGNS,
	PART_CONSTANT = 2 * CODE_SIGNS,
	PART_SAID = 3 * CODE_SIGNS,
};
/* Of what is said next: so small that it hardly matters to a norm whether there is any. */
#define SCRIPTED_SAID 0.25F

struct neurons {
	uint32_t count;
	float *gate, *up; /* [count][SCRIPTED_HIDDEN] */
	float *down;	  /* [SCRIPTED_HIDDEN][count] */
};
void neurons_fill(const struct neurons *n, const struct scripted *s, uint32_t layer);

#endif
