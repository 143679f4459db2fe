/* What was said already weighs on what is said next, before all else that a sampler does but a
 * bias:
 *
 * The repetition penalty (Keskar et al. 2019, CTRL): the logit of every token that stands in the
 * context, in the prompt or in the answer, is divided by the penalty if it is positive and
 * multiplied by it otherwise, once however often the token is there. As transformers'
 * RepetitionPenaltyLogitsProcessor.
 *
 * Then the frequency and the presence penalty, as the OpenAI interface has them, of the answer's
 * own tokens alone: each takes from the logit of a token that the answer has, the first as many
 * times as it is there, the second once. Less than 0 makes it likelier.
 *
 * What is kept is a bit, and where these two are on a count, for each token of the vocabulary, and
 * lists of those that are there, so a step takes time for the different tokens of the context, and
 * for nothing else. */
#ifndef MOEFS_ENGINE_COMPUTE_REPETITION_H
#define MOEFS_ENGINE_COMPUTE_REPETITION_H

#include <stddef.h>
#include <stdint.h>

struct penalties {
	float repetition;	   /* 1: none */
	float frequency, presence; /* 0: none */
};

struct id_list {
	uint32_t *ids;
	size_t count, room;
};

struct repetition { /* zero-initialised memory is one that does nothing */
	struct penalties by;
	uint64_t *seen;	       /* a bit for each token; NULL: the repetition penalty is none */
	uint32_t *said;	       /* how often the answer has it; NULL: the other two are none */
	struct id_list stand;  /* those whose bit is set, */
	struct id_list answer; /* and those that were said */
};

/* -ENOMEM without words: the caller knows for what. */
int repetition_init(struct repetition *r, struct penalties by, uint32_t vocabulary);
void repetition_free(struct repetition *r);
/* Tokens that now stand in the context before the answer; each id is less than the vocabulary.
 * -ENOMEM. */
int repetition_add(struct repetition *r, const uint32_t *ids, size_t n);
/* The answer goes on with this one. -ENOMEM. */
int repetition_say(struct repetition *r, uint32_t id);
/* Changes logits[vocabulary]. */
void repetition_apply(const struct repetition *r, float *logits);

#endif
