/* Gated delta rule (Gated Delta Networks, Yang, Kautz and Hatamizadeh 2024): what one call of
 * delta_steps is about, and a head's gates.
 *
 * A value head keeps a matrix S[key_dim][value_dim]. Each token lets it fade, takes out what the
 * token's key finds in it, puts in what the key shall find, and asks it with the query.
 */
#ifndef MOEFS_KERNELS_DELTA_H
#define MOEFS_KERNELS_DELTA_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DELTA_KEY_DIM = 256, /* the largest key_dim: a tile of a state has room on the stack */
	CONV_WIDTH = 8,	     /* the most taps of a convolution */
};

/* n tokens of one value head that follow each other. What belongs to token t lies t strides (in
 * floats) behind what belongs to token 0. */
struct delta {
	uint32_t key_dim, value_dim; /* 1 … DELTA_KEY_DIM, any */
	uint32_t n;		     /* >= 1 */
	uint32_t commit;    /* 0 … n: the state that is left is that after so many tokens */
	float *state;	    /* [key_dim][value_dim]; with commit 0 only read */
	const float *q, *k; /* [key_dim] each */
	size_t key_stride;  /* of both */
	const float *v;	    /* [value_dim] */
	size_t value_stride;
	const float *decay, *beta; /* one number each */
	size_t gate_stride;	   /* of both */
	float *out;		   /* [value_dim]; overlaps nothing else here */
	size_t out_stride;
};

/* softplus(x) = log(1 + exp(x)), which neither overflows nor loses small values. Where x is a NaN
 * fmax returns 0, and the other term is NaN. */
static inline double delta_softplus(double x)
{
	return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* One token's gates of all value heads, the same code for every table:
 *     decay[h] = exp(-exp(a_log[h]) · softplus(a[h] + dt_bias[h])), beta[h] = sigmoid(b[h]).
 * Both in double precision, rounded to f32 once at the end. A NaN stays one. */
static inline void delta_gates(float *decay, float *beta, const float *a, const float *b,
			       const float *a_log, const float *dt_bias, size_t heads)
{
	for (size_t h = 0; h < heads; h++) {
		const double step = delta_softplus((double)a[h] + dt_bias[h]);
		decay[h] = (float)exp(-exp((double)a_log[h]) * step);
		beta[h] = (float)(1 / (1 + exp(-(double)b[h])));
	}
}

#endif
