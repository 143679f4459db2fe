/* The repetition penalty (Keskar et al. 2019, CTRL): the logit of every token that stands in the
 * context, in the prompt or in the answer, is divided by the penalty if it is positive and
 * multiplied by it otherwise, once however often the token is there, before all else that a sampler
 * does. As transformers' RepetitionPenaltyLogitsProcessor.
 *
 * What is kept is a bit for each token of the vocabulary and a list of those that are there, so a
 * step takes time for the different tokens of the context, and for nothing else. */
#ifndef MOEFS_ENGINE_COMPUTE_REPETITION_H
#define MOEFS_ENGINE_COMPUTE_REPETITION_H

#include <stddef.h>
#include <stdint.h>

struct repetition { /* zero-initialised memory is one that does nothing */
	float penalty;
	uint64_t *seen; /* a bit for each token; NULL: the penalty is 1, and nothing is kept */
	uint32_t *ids;	/* those that are set */
	size_t count, room;
};

/* -ENOMEM without words: the caller knows for what. */
int repetition_init(struct repetition *r, float penalty, uint32_t vocabulary);
void repetition_free(struct repetition *r);
/* Tokens that now stand in the context; each id is less than the vocabulary. -ENOMEM. */
int repetition_add(struct repetition *r, const uint32_t *ids, size_t n);
/* Changes logits[vocabulary]. */
void repetition_apply(const struct repetition *r, float *logits);

#endif
