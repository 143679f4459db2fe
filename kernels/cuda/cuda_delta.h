/* Gated delta nets, as one thread computes its part: where the parts of a state are, the convolution, the
 * gates. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_DELTA_H
#define MOEFS_KERNELS_CUDA_CUDA_DELTA_H

#include "kernels/cuda/cuda_launch.h"
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

/* The convolution's inputs `back` tokens before row t of the context's rows of the step. */
CUDA_THREAD const float *cuda_delta_input(const struct cuda_delta *p, const struct cuda_states *c,
					  const struct cuda_delta_state *s, uint32_t t, uint32_t back)
{
	const size_t channels = cuda_delta_channels(p);

	if (back <= t)
		return p->in + (c->first + t - back) * channels;
	back -= t;
	if (back <= c->behind)
		return s->kept + (c->behind - back) * cuda_delta_row(p);
	back -= c->behind;
	return s->before + (p->width - 1 - back) * channels;
}

enum { CUDA_DELTA_EACH = 4 }; /* channels of a thread at once */

/* silu of the convolution of row t in channels c + 32 e, of those before `end`: all is loaded before any is
 * added. */
CUDA_THREAD void cuda_delta_convolve(float x[CUDA_DELTA_EACH], const struct cuda_delta *p,
				     const float *const taps[CUDA_CONV_WIDTH], uint32_t c, uint32_t end)
{
	const uint32_t channels = cuda_delta_channels(p);
	float w[CUDA_CONV_WIDTH][CUDA_DELTA_EACH], tap[CUDA_CONV_WIDTH][CUDA_DELTA_EACH];

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_CONV_WIDTH; i++) {
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_DELTA_EACH; e++) {
			const bool there = i < p->width && c + e * CUDA_WARP < end;
			w[i][e] = there ? p->conv[(size_t)i * channels + c + e * CUDA_WARP] : 0;
			tap[i][e] = there ? taps[i][c + e * CUDA_WARP] : 0;
		}
	}
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_DELTA_EACH; e++) {
		float y = 0;
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_CONV_WIDTH; i++)
			y = i < p->width ? cuda_fma(w[i][e], tap[i][e], y) : y;
		x[e] = cuda_silu(y);
	}
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

CUDA_THREAD float cuda_delta_decay(float a, float a_log, float dt_bias)
{
	const double step = cuda_delta_softplus((double)a + dt_bias);
	return cuda_from_double(cuda_delta_exp(-cuda_delta_exp((double)a_log) * step));
}

CUDA_THREAD float cuda_delta_beta(float b)
{
	return cuda_from_double(cuda_divide_double(1, 1 + cuda_delta_exp(-(double)b)));
}

#endif
