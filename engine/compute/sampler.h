/* Choosing the next token from logits.
 *
 * First the biases of single tokens (sampler_bias), then the penalties on tokens that the text
 * already has (struct repetition); then, in the order of Hugging Face's warpers: temperature,
 * top-k, top-p (nucleus, Holtzman et al. 2020), min-p (Nguyen et al. 2024), then one draw.
 * Temperature 0 takes the largest logit; ties go to the lowest id. The draw depends only on the
 * seed and the position, so a turn taken back and asked again with the same seed gives the same
 * text. The vocabulary is never sorted: of 152 thousand tokens a few dozen matter.
 *
 * Not here: grammars, which mask logits before this (engine/grammar), and stops.
 */
#ifndef MOEFS_ENGINE_COMPUTE_SAMPLER_H
#define MOEFS_ENGINE_COMPUTE_SAMPLER_H

#include "kernels/kernels.h"

#include <stdbool.h>

struct sampling {
	float temperature;  /* >= 0; 0 is greedy */
	uint32_t top_k;	    /* 0: all */
	float top_p, min_p; /* 1 and 0: off */
	uint64_t seed;
};

/* bias is added to the token's logit; -INFINITY: the token is never drawn. */
struct token_bias {
	uint32_t id;
	double bias;
};

struct candidate {
	float p; /* a probability; of sampler_likeliest and of a step a logit */
	uint32_t id;
};
struct sampler { /* scratch for one vocabulary; owned by one thread */
	const struct kernels *kernels;
	uint32_t vocabulary;
	float *p;		     /* [vocabulary] */
	struct candidate *candidate; /* [vocabulary] */
};

/* -ENOMEM without words: the caller knows what for. */
int sampler_init(struct sampler *s, const struct kernels *k, uint32_t vocabulary);
void sampler_free(struct sampler *s);
static inline uint64_t sampler_bytes(uint32_t vocabulary)
{
	return vocabulary * (sizeof(float) + sizeof(struct candidate));
}

/* The index of the largest of logits[n], ties to the lowest. */
uint32_t sampler_greedy(const float *logits, uint32_t n);
/* Draws the token at a position of the text from logits[vocabulary]. */
uint32_t sampler_draw(struct sampler *s, const float *logits, const struct sampling *how,
		      uint64_t position);
/* The number in [0, 1) that the draw at a position is made with. */
double sampler_uniform(uint64_t seed, uint64_t position);
/* Adds the biases, whose ids are less than the vocabulary, to logits[vocabulary]. */
void sampler_bias(const struct token_bias *bias, size_t n, float *logits);

/* ---- penalties on repetition ----
 *
 * The repetition penalty (Keskar et al. 2019, CTRL; as transformers'
 * RepetitionPenaltyLogitsProcessor): the logit of every token that the context has, in the prompt
 * or in the answer, is divided by the penalty if it is positive and multiplied by it otherwise,
 * once however often the token is there.
 *
 * Then the frequency and the presence penalty of the OpenAI interface, on the answer's own tokens
 * alone: the first is subtracted from a token's logit once for each time that the answer has the
 * token, the second once. Negative penalties make repetition likelier.
 *
 * A bit, and with the last two penalties a count, is kept for each token of the vocabulary, and
 * lists of the tokens that are there: a step takes time only for the different tokens of the
 * context. */

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
	uint64_t *seen;	       /* a bit for each token; NULL: there is no repetition penalty */
	uint32_t *said;	       /* how often the answer has each; NULL: no other penalty */
	struct id_list stand;  /* tokens whose bit is set */
	struct id_list answer; /* tokens that the answer has */
};

/* -ENOMEM without words: the caller knows what for. */
int sampler_repetition_init(struct repetition *r, struct penalties by, uint32_t vocabulary);
void sampler_repetition_free(struct repetition *r);
/* Adds tokens of the context before the answer; each id is less than the vocabulary. -ENOMEM. */
int sampler_repetition_add_prompt(struct repetition *r, const uint32_t *ids, size_t n);
/* Adds the answer's next token. -ENOMEM. */
int sampler_repetition_add_answer(struct repetition *r, uint32_t id);
/* Whether there is a penalty. */
static inline bool sampler_repetition_changes(const struct repetition *r)
{
	return r->seen || r->said;
}
/* Applies the penalties to logits[vocabulary]. */
void sampler_repetition_apply(const struct repetition *r, float *logits);

/* ---- looking at a distribution ---- */

/* The natural logarithm of Σ exp(logit), by the same softmax as a draw's: a logit minus this is a
 * log-probability. NaN if a logit is. */
double sampler_log_sum(struct sampler *s, const float *logits);
/* The *n largest logits in descending order, ties to the lowest id; *n becomes the vocabulary if
 * that is less. In the sampler's own memory, until its next use. */
const struct candidate *sampler_likeliest(struct sampler *s, const float *logits, uint32_t *n);

#endif
