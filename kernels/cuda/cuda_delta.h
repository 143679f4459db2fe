/* Gated delta nets, as one thread computes its part: where the parts of a state are, the convolution, the
 * gates. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_DELTA_H
#define MOEFS_KERNELS_CUDA_CUDA_DELTA_H

#include "kernels/cuda/cuda_rounding.h"
#include "kernels/cuda/cuda_vectors.h"

/* ---- sizes ---- */

CUDA_THREAD uint32_t cuda_delta_keys(const struct cuda_delta *p)
{
	return p->key_heads * p->key_dim;
}
CUDA_THREAD uint32_t cuda_delta_channels(const struct cuda_delta *p)
{
	return 2 * cuda_delta_keys(p) + p->value_heads * p->value_dim;
}
/* Floats of a row that is kept. */
CUDA_THREAD size_t cuda_delta_row(const struct cuda_delta *p)
{
	return 2 * (size_t)cuda_delta_channels(p) + 2 * p->value_heads;
}

/* A layer's floats of a context's state. */
struct cuda_delta_state {
	float *matrices, *before, *kept;
};
CUDA_THREAD struct cuda_delta_state cuda_delta_state_of(const struct cuda_delta *p,
							const struct cuda_states *c)
{
	const size_t head = (size_t)p->key_dim * p->value_dim;
	struct cuda_delta_state s;

	s.matrices = c->state + p->at;
	s.before = s.matrices + p->value_heads * head;
	s.kept = s.before + (size_t)(p->width - 1) * cuda_delta_channels(p);
	return s;
}

/* ---- the convolution ---- */

/* Inputs of the convolution follow each other: the width - 1 before the state's own, those of the rows that it
 * is behind, those of the context's rows of the step. Row t of these has the taps behind + t + 0, + 1 … */
CUDA_THREAD const float *cuda_delta_input(const struct cuda_delta *p, const struct cuda_states *c,
					  const struct cuda_delta_state *s, uint32_t i)
{
	const uint32_t before = p->width - 1, own = before + c->behind;
	const size_t channels = cuda_delta_channels(p);

	if (i >= own)
		return p->in + (c->first + i - own) * channels;
	return i < before ? s->before + i * channels : s->kept + (i - before) * cuda_delta_row(p);
}
/* Where the state keeps input i of those after it. */
CUDA_THREAD float *cuda_delta_kept_input(const struct cuda_delta *p, const struct cuda_delta_state *s, uint32_t i)
{
	const uint32_t before = p->width - 1;

	return i < before ? s->before + (size_t)i * cuda_delta_channels(p)
			  : s->kept + (i - before) * cuda_delta_row(p);
}

/* Of a channel. */
struct cuda_delta_taps {
	float w[CUDA_CONV_WIDTH], x[CUDA_CONV_WIDTH];
	const float *from[CUDA_CONV_WIDTH]; /* of those that are loaded later; else NULL */
};

/* Of a row's channel. What kernels of this step write is not loaded yet. */
CUDA_THREAD void cuda_delta_find_taps(struct cuda_delta_taps *taps, const struct cuda_delta *p, uint32_t row,
				      uint32_t channel)
{
	const struct cuda_states c = p->contexts[p->rows[row].context];
	const struct cuda_delta_state s = cuda_delta_state_of(p, &c);
	const uint32_t t = row - c.first;

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_CONV_WIDTH; i++) {
		if (i >= p->width)
			break;
		const float *from = cuda_delta_input(p, &c, &s, c.behind + t + i) + channel;
		const bool own = t + i >= p->width - 1;
		taps->w[i] = p->conv[(size_t)i * cuda_delta_channels(p) + channel];
		taps->x[i] = own ? 0 : *from;
		taps->from[i] = own ? from : NULL;
	}
}

/* silu of the convolution: all is loaded before any is added. */
CUDA_THREAD float cuda_delta_convolve(struct cuda_delta_taps *taps, const struct cuda_delta *p)
{
	float y = 0;

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_CONV_WIDTH; i++)
		if (i < p->width && taps->from[i])
			taps->x[i] = *taps->from[i];
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_CONV_WIDTH; i++)
		y = i < p->width ? cuda_fma(taps->w[i], taps->x[i], y) : y;
	return cuda_silu(y);
}

/* The sum of the squares of n numbers in shared memory in dot order, by each warp. */
CUDA_THREAD float cuda_delta_squares(const float *x, uint32_t n)
{
	enum { EACH = CUDA_HEAD / CUDA_LANES };
	float some[EACH], sum = 0;

	if (n != CUDA_HEAD)
		return cuda_squares(x, n);
	CUDA_UNROLL
	for (uint32_t e = 0; e < EACH; e++)
		some[e] = x[e * CUDA_LANES + cuda_thread() % CUDA_LANES];
	CUDA_UNROLL
	for (uint32_t e = 0; e < EACH; e++)
		sum = cuda_fma(some[e], some[e], sum);
	return cuda_sum_lanes(sum);
}

/* cuda_norm_scale of a head of 128 numbers, of which the inverse is exact. */
CUDA_THREAD float cuda_delta_scale(const float *x, float eps)
{
	return cuda_inverse(cuda_root(cuda_delta_squares(x, CUDA_HEAD) * (1.0F / CUDA_HEAD) + eps));
}

/* ---- gates: delta.h, operation by operation ---- */

CUDA_THREAD double cuda_delta_power_of_two(int64_t n)
{
	return cuda_double(((uint64_t)n + 1023) << 52);
}

CUDA_THREAD double cuda_delta_exp(double x)
{
	const double factor[] = {DELTA_EXP_FACTORS};

	x = DELTA_EXP_LOW > x ? DELTA_EXP_LOW : x;
	x = DELTA_EXP_HIGH < x ? DELTA_EXP_HIGH : x;

	const double shifted = x * DELTA_LOG2E + DELTA_ROUND, rounded = shifted - DELTA_ROUND;
	const int64_t n = (int64_t)(cuda_double_bits(shifted) - DELTA_ROUND_BITS), half = n >> 1;
	const double r = (x - rounded * DELTA_LN2_HIGH) - rounded * DELTA_LN2_LOW;
	double p = factor[0];
	CUDA_UNROLL
	for (uint32_t i = 1; i < sizeof factor / sizeof *factor; i++)
		p = p * r + factor[i];
	return p * cuda_delta_power_of_two(half) * cuda_delta_power_of_two(n - half);
}

CUDA_THREAD double cuda_delta_log_1_plus(double y)
{
	const double s = cuda_divide_double(y, 2 + y), square = s * s;
	double sum = 1. / 33;

	CUDA_UNROLL
	for (int32_t k = 31; k >= 1; k -= 2)
		sum = sum * square + 1. / k;
	return 2 * s * sum;
}

CUDA_THREAD double cuda_delta_softplus(double x)
{
	return (x > 0 ? x : 0) + cuda_delta_log_1_plus(cuda_delta_exp(x > 0 ? -x : x));
}

/* rate: exp(a_log) */
CUDA_THREAD float cuda_delta_decay(float a, double rate, float dt_bias)
{
	const double step = cuda_delta_softplus((double)a + dt_bias);
	return cuda_from_double(cuda_delta_exp(-rate * step));
}

CUDA_THREAD float cuda_delta_beta(float b)
{
	return cuda_from_double(cuda_divide_double(1, 1 + cuda_delta_exp(-(double)b)));
}

#endif
