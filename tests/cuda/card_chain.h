/* Launches that follow each other, captured once and launched as one: what a kernel takes without what
 * the driver takes for each launch. */
#ifndef MOEFS_TESTS_CUDA_CARD_CHAIN_H
#define MOEFS_TESTS_CUDA_CARD_CHAIN_H

#include "engine/gpu/card.h"

#include <stdbool.h>

struct card_chain {
	struct card *card;
	bool early; /* a kernel may begin before the one ahead of it has ended */
	/* Of every `period` launches the one of number left_out is left out; none if period is 0. */
	uint32_t period, left_out, added;
	int result; /* of the driver, the first that is not 0 */
};

void card_chain_begin(struct card_chain *c, struct card *card, bool early);
void card_chain_add(struct card_chain *c, enum cuda_kernel k, struct cuda_grid g, const void *operands);
/* Launches all of it some times; returns the microseconds of the fastest, or below 0 after a failure, which
 * is printed. */
double card_chain_end(struct card_chain *c);

#endif
