/* Codes: 128 signs that identify tokens and grams. The codes of a script's tokens and grams differ
 * enough that a neuron can tell them apart, whatever format the weights have. */
#ifndef MOEFS_TESTS_SCRIPTED_CODES_H
#define MOEFS_TESTS_SCRIPTED_CODES_H

#include "tests/scripted/grams.h"

enum { CODE_SIGNS = 128 };
/* The largest number by which agreeing signs of two codes may exceed differing ones. */
enum { CODES_ALIKE_MOST = 44 };

struct code {
	uint64_t signs[2];
};
struct codes {		      /* zero-initialise; freed by codes_free */
	struct code *grams;   /* of each gram; of level 0 its token's */
	struct code *tokens;  /* of each of the vocabulary */
	struct code constant; /* that every position has */
};
/* For a vocabulary that has all of the script's tokens. */
int codes_make(struct codes *c, const struct grams *g, uint32_t vocabulary, struct err *e);
void codes_free(struct codes *c);

void code_vector(const struct code *c, float to[CODE_SIGNS]);

#endif
