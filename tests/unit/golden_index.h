/* What attention that chooses gave scores to and took, recorded while a text is computed, and
 * compared with golden numbers (extra.index_scores, extra.select). */
#ifndef MOEFS_TESTS_UNIT_GOLDEN_INDEX_H
#define MOEFS_TESTS_UNIT_GOLDEN_INDEX_H

#include "engine/cpu/layers.h"
#include "golden.h"

struct golden_index { /* of a model without an index: empty */
	const struct config *config;
	uint32_t tokens;
	float *scores;	/* [layers · groups][tokens][tokens] */
	bool *chosen;	/* likewise: entries */
	uint32_t *rows; /* [layers · groups]: how many rows were seen */
};

void golden_index_open(struct golden_index *x, const struct config *c, uint32_t tokens);
void golden_index_close(struct golden_index *x);
/* What the taps of step.h show. */
void golden_index_record(struct golden_index *x, enum tap_point point, uint32_t layer,
			 uint32_t position, uint32_t width, const float *row);
/* Fails the test if the golden numbers differ. */
void golden_index_compare(const struct golden_index *x, const struct golden *g);
/* The same of the last four rows of a long text. */
void golden_index_compare_last(const struct golden_index *x, const struct golden *g);

#endif
