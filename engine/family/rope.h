/* Rotary position embeddings (Su et al. 2021) in a config. */
#ifndef MOEFS_ENGINE_FAMILY_ROPE_H
#define MOEFS_ENGINE_FAMILY_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* How frequencies are derived from theta^(-2i / dim). */
enum rope_scaling {
	ROPE_DEFAULT,
	ROPE_LINEAR,	   /* all are divided by the factor */
	ROPE_LLAMA3,	   /* low frequencies are divided by the factor, high ones kept, others
			      interpolated */
	ROPE_YARN,	   /* Peng et al. 2023; also scales the rotated numbers */
	ROPE_PROPORTIONAL, /* only the first pairs of a head are rotated */
	ROPE_FACTORS, /* each frequency has its own divisor; used for some models in GGUF files */
	ROPE_LONG,    /* two sets of ROPE_FACTORS, one for short and one for long texts */
	ROPE_SCALINGS,
};
enum { ROPE_FACTORS_MOST = 512 };

struct rope {
	enum rope_scaling scaling;
	uint32_t dim;	  /* the first dim elements of a head are rotated, i with i + dim / 2 */
	uint32_t turning; /* proportional: rotated pairs */
	double theta, factor;
	double original; /* positions in the original training */
	double low,
		high;  /* llama3: low_freq_factor and high_freq_factor; yarn: beta_slow and _fast */
	bool truncate; /* yarn: round the bounds to whole dimensions */
	float amplitude;   /* factor of cosines and sines */
	float score_scale; /* factor of attention scores, for families that scale them, too */
	float factors[ROPE_FACTORS_MOST]; /* factors: [dim / 2] */
};

struct reader;
struct json;
/* Reads the list of factors under a key of r->json. */
void rope_read_factors(struct reader *r, const char *key, struct rope *to);
/* Reads a rotation for heads of head_dim: base frequency and rotated part from `base`, the scaling
 * and its values from `scaling`, which may be the same object or NULL. For a scaling that the
 * family does not support, the error names the key. */
void rope_read(struct reader *r, const struct json *base, const struct json *scaling,
	       uint32_t head_dim, struct rope *to);
/* For most configs: from rope_parameters (newer), or from rope_theta, partial_rotary_factor and
 * rope_scaling (older). */
void rope_read_config(struct reader *r, uint32_t head_dim, struct rope *to);
/* For layers of one type: from the member `type` of rope_parameters. */
void rope_read_typed(struct reader *r, const struct json *ropes, const char *type,
		     uint32_t head_dim, struct rope *to);
/* Takes the base frequency from the key, or `fallback`; scaling may be NULL. */
void rope_read_based(struct reader *r, const char *key, double fallback,
		     const struct json *scaling, uint32_t head_dim, struct rope *to);

#endif
