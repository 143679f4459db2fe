/* Choosing the next token from logits.
 *
 * What was asked of single tokens comes first (sampler_bias), then what was said already
 * (repetition.h); then, in the order of Hugging Face's warpers: temperature, top-k, top-p (nucleus,
 * Holtzman et al. 2020), min-p (Nguyen et al. 2024), then one draw. Temperature 0 takes the largest
 * logit; ties go to the lowest id. The draw depends on the seed and the position alone, so a turn
 * taken back and asked again with the same seed gives the same text. The vocabulary is never
 * sorted: of 152 thousand tokens a few dozen matter.
 */
#ifndef MOEFS_ENGINE_COMPUTE_SAMPLER_H
#define MOEFS_ENGINE_COMPUTE_SAMPLER_H

#include "kernels/kernels.h"

struct sampling {
	float temperature;  /* >= 0; 0 is greedy */
	uint32_t top_k;	    /* 0: all */
	float top_p, min_p; /* 1 and 0: off */
	uint64_t seed;
};

/* What is added to a token's logit; -INFINITY: it is never drawn. */
struct token_bias {
	uint32_t id;
	double bias;
};

struct candidate {
	float p; /* probability; of sampler_likeliest the logit */
	uint32_t id;
};
struct sampler { /* scratch for one vocabulary; owned by one thread */
	const struct kernels *kernels;
	uint32_t vocabulary;
	float *p;		     /* [vocabulary] */
	struct candidate *candidate; /* [vocabulary] */
};

/* -ENOMEM without words: the caller knows for what. */
int sampler_init(struct sampler *s, const struct kernels *k, uint32_t vocabulary);
void sampler_free(struct sampler *s);

uint32_t sampler_greedy(const float *logits, uint32_t n);
uint32_t sampler_draw(struct sampler *s, const float *logits, const struct sampling *how,
		      uint64_t position);
/* Changes logits[vocabulary], of which it has every id. */
void sampler_bias(const struct token_bias *bias, size_t n, float *logits);

/* ---- looking at a distribution ---- */

/* The natural logarithm of Σ exp(logit), by the same softmax as a draw's: less this, a logit is a
 * log-probability. NaN where a logit is. */
double sampler_log_sum(struct sampler *s, const float *logits);
/* The n largest logits in descending order, ties to the lowest id; how many there are: n or the
 * vocabulary. In the sampler's own memory, until its next use. */
const struct candidate *sampler_likeliest(struct sampler *s, const float *logits, uint32_t *n);

#endif
