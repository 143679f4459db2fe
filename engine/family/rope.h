/* Rotary positions (Su et al. 2021) as a config describes them. */
#ifndef MOEFS_ENGINE_FAMILY_ROPE_H
#define MOEFS_ENGINE_FAMILY_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* How frequencies differ from theta^(-2i / dim). */
enum rope_scaling {
	ROPE_DEFAULT,
	ROPE_LINEAR, /* all divided by the factor */
	ROPE_LLAMA3, /* long waves divided by the factor, short ones kept, between them both */
	ROPE_YARN,   /* Peng et al. 2023; also scales what is rotated */
	ROPE_PROPORTIONAL, /* only the first of a whole head's pairs turn */
	ROPE_FACTORS, /* each divided by a factor of its own: as GGUF files have some of these */
	ROPE_LONG,    /* the same, by other factors in a long text: two of ROPE_FACTORS */
	ROPE_SCALINGS,
};
enum { ROPE_FACTORS_MOST = 512 };

struct rope {
	enum rope_scaling scaling;
	uint32_t dim;	  /* the first dim elements of a head are rotated, i with i + dim / 2 */
	uint32_t turning; /* of proportional: pairs that turn */
	double theta, factor;
	double original; /* positions of the first training */
	double low,
		high;  /* llama3: low_freq_factor and high_freq_factor; yarn: beta_slow and _fast */
	bool truncate; /* yarn's bounds are whole dimensions */
	float amplitude;   /* of cosines and sines */
	float score_scale; /* of attention's scores, in families that scale them, too */
	float factors[ROPE_FACTORS_MOST]; /* of factors: [dim / 2] */
};

struct reader;
struct json;
/* The list of factors under a key of r->json. */
void rope_read_factors(struct reader *r, const char *key, struct rope *to);
/* Of heads of head_dim: the base and the part that is rotated in `base`, the scaling and what it
 * wants in `scaling`, which may be the same, or NULL. A scaling that the family does not compute is
 * named with its key. */
void rope_read(struct reader *r, const struct json *base, const struct json *scaling,
	       uint32_t head_dim, struct rope *to);
/* As most configs have it: rope_parameters (newer) holds all of it; rope_theta,
 * partial_rotary_factor and rope_scaling (older) are apart. */
void rope_read_config(struct reader *r, uint32_t head_dim, struct rope *to);
/* Of layers of one type: the member `type` of rope_parameters holds all of it. */
void rope_read_typed(struct reader *r, const struct json *ropes, const char *type,
		     uint32_t head_dim, struct rope *to);
/* Whose base is under a key of its own, or is `fallback`; scaling may be NULL. */
void rope_read_based(struct reader *r, const char *key, double fallback,
		     const struct json *scaling, uint32_t head_dim, struct rope *to);

#endif
