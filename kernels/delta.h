/* Recurrences whose state is a matrix for each head: the arguments of delta_steps, and the heads'
 * gates.
 *
 * A value head keeps a matrix S[key_dim][value_dim]. For each token S decays, takes in the token's
 * value under its key, and is read with the query. Three rules differ in the details:
 *   - gated delta nets (Yang, Kautz and Hatamizadeh 2024): the value that the key finds is replaced
 *     by a mix with the new value;
 *   - Kimi's delta attention (Kimi Team 2025): the same, but each row of S has a decay of its own;
 *   - Mamba2 (Dao and Gu 2024): the new value is added to the value found. */
#ifndef MOEFS_KERNELS_DELTA_H
#define MOEFS_KERNELS_DELTA_H

#include "kernels/exponential.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	DELTA_KEY_DIM = 256, /* the largest key_dim, so that a tile of a state fits on the stack */
	CONV_WIDTH = 8,	     /* most taps of a convolution */
};

/* Added to the squared length of queries and keys of a gated delta net (l2norm). */
#define DELTA_LENGTH_EPS 1e-6F

enum delta_rule { DELTA_REPLACES, DELTA_REPLACES_BY_ROW, DELTA_ADDS, DELTA_RULES };

/* n successive tokens of one value head. The arrays of token t lie t strides (in floats) after
 * those of token 0. */
struct delta {
	enum delta_rule rule;
	uint32_t key_dim, value_dim; /* 1 … DELTA_KEY_DIM, any */
	uint32_t n;		     /* >= 1 */
	uint32_t commit;    /* 0 … n: the state afterwards is the one after `commit` tokens */
	float *state;	    /* [key_dim][value_dim]; only read if commit is 0 */
	const float *q, *k; /* [key_dim] each */
	size_t key_stride;  /* of both */
	const float *v;	    /* [value_dim] */
	size_t value_stride;
	const float *decay; /* one number, or [key_dim] for a decay by row */
	const float *beta;  /* one number: a factor of the value */
	size_t decay_stride, beta_stride;
	float *out;		   /* [value_dim]; overlaps nothing else here */
	size_t out_stride;
};

/* ---- gates ----
 *
 * In double precision, and only with additions, multiplications and divisions, in the order in
 * which they are written and never fused. No two C libraries agree on the last bit of exp and
 * log1p, and a gate is a factor of everything that follows in a text.
 */

/* 2^n for n in the range of normal numbers. For other n (from a NaN) the result is any double, but
 * never a trap. */
static inline double delta_power_of_two(int64_t n)
{
	const uint64_t bits = ((uint64_t)n + 1023) << 52;
	double f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* exp(x) = 2^n · exp(r), as in scalar_exp of scalar.h: n = x / ln 2 rounded to an integer, |r| <=
 * ln 2 / 2; exponential.h has the constants. */
static inline double delta_exp(double x)
{
	static const double factor[] = {DELTA_EXP_FACTORS};

	x = DELTA_EXP_LOW > x ? DELTA_EXP_LOW : x; /* comparisons with NaN are false and keep it */
	x = DELTA_EXP_HIGH < x ? DELTA_EXP_HIGH : x;

	const double shifted = x * DELTA_LOG2E + DELTA_ROUND, rounded = shifted - DELTA_ROUND;
	uint64_t bits;
	memcpy(&bits, &shifted, sizeof bits);
	const int64_t n = (int64_t)(bits - DELTA_ROUND_BITS), half = n >> 1;

	const double r = (x - rounded * DELTA_LN2_HIGH) - rounded * DELTA_LN2_LOW;
	double p = factor[0];
	for (size_t i = 1; i < sizeof factor / sizeof *factor; i++)
		p = p * r + factor[i];
	/* In two steps, since 2^n alone may be out of range. */
	return p * delta_power_of_two(half) * delta_power_of_two(n - half);
}

/* log(1 + y) for y in 0 … 1: twice the inverse hyperbolic tangent of s = y / (2 + y) <= 1/3, which
 * is 2 s (1 + s² / 3 + s⁴ / 5 + … + s³² / 33); the rest is below 1e-17. Exact for small y, too. */
static inline double delta_log_1_plus(double y)
{
	const double s = y / (2 + y), square = s * s;
	double sum = 1. / 33;

	for (int k = 31; k >= 1; k -= 2)
		sum = sum * square + 1. / k;
	return 2 * s * sum;
}

/* softplus(x) = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)). This form neither overflows nor
 * loses small values. If x is a NaN, the second term is a NaN, too. */
static inline double delta_softplus(double x)
{
	return (x > 0 ? x : 0) + delta_log_1_plus(delta_exp(x > 0 ? -x : x));
}

/* One token's gates of a delta net for all value heads; every table uses this code:
 *     decay[h] = exp(-exp(a_log[h]) · softplus(a[h] + dt_bias[h])), beta[h] = 1 / (1 + exp(-b[h])).
 * In double precision, rounded to f32 once at the end. A NaN stays a NaN. */
static inline void delta_gates(float *decay, float *beta, const float *a, const float *b,
			       const float *a_log, const float *dt_bias, size_t heads)
{
	for (size_t h = 0; h < heads; h++) {
		const double step = delta_softplus((double)a[h] + dt_bias[h]);
		decay[h] = (float)delta_exp(-delta_exp((double)a_log[h]) * step);
		beta[h] = (float)(1 / (1 + delta_exp(-(double)b[h])));
	}
}

/* Gates of Kimi's delta attention: beta[h] = 1 / (1 + exp(-b[h])), as in delta_gates, and the
 * factor of a head's decays (kernels.h, delta_decay), exp(a_log). */
static inline void delta_betas(float *beta, const float *b, size_t heads)
{
	for (size_t h = 0; h < heads; h++)
		beta[h] = (float)(1 / (1 + delta_exp(-(double)b[h])));
}
static inline float delta_decay_factor(float a_log)
{
	return (float)delta_exp((double)a_log);
}

/* Decays of one head of Kimi's delta attention with a bound (GLM 5):
 *     decay[i] = exp(lower / (1 + exp(-exp(a_log) · (f[i] + dt_bias[i])))),
 * in double precision, rounded to f32 once at the end. decay may be f. */
static inline void delta_bounded_decay(float *decay, const float *f, const float *dt_bias, float a_log,
				       float lower, size_t n)
{
	const double rate = delta_exp((double)a_log);

	for (size_t i = 0; i < n; i++) {
		const double open = 1 / (1 + delta_exp(-rate * ((double)f[i] + dt_bias[i])));
		decay[i] = (float)delta_exp(lower * open);
	}
}

/* Gates of Mamba2 for all heads: step[h] = softplus(dt[h] + dt_bias[h]), the factor of the value,
 * and
 *     decay[h] = exp(-exp(a_log[h]) · step[h]). */
static inline void delta_steps_of_time(float *decay, float *step, const float *dt,
				       const float *a_log, const float *dt_bias, size_t heads)
{
	for (size_t h = 0; h < heads; h++) {
		const double time = delta_softplus((double)dt[h] + dt_bias[h]);
		decay[h] = (float)delta_exp(-delta_exp((double)a_log[h]) * time);
		step[h] = (float)time;
	}
}

#endif
