/* The scalar table's gated delta net: gates on vectors, convolution, and the recurrence, one column
 * of the state after the other. */
#include "kernels/delta_norm.h"
#include "kernels/exp.h"
#include "kernels/scalar.h"

#include <math.h>

void scalar_sigmoid_mul(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] *= 1 / (1 + exp_f32(-x[i]));
}

void scalar_conv_silu(float *y, const float *w, const float *const *taps, uint32_t width,
		      uint32_t channels, uint32_t c0, uint32_t c1)
{
	for (size_t c = c0; c < c1; c++) {
		float sum = 0;
		for (size_t i = 0; i < width; i++)
			sum = fmaf(w[i * channels + c], taps[i][c], sum);
		y[c] = sum / (1 + exp_f32(-sum));
	}
}

void scalar_l2norm(float *y, const float *x, uint32_t n, float eps, float scale)
{
	float lane[DOT_LANES] = {0};

	for (uint32_t i = 0; i < n; i++)
		lane[i % DOT_LANES] = fmaf(x[i], x[i], lane[i % DOT_LANES]);
	const float factor = l2norm_factor(sum_lanes(lane), eps, scale);
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * factor;
}

/* Token t in column j, s[key_dim]. */
static void step(float *s, const struct delta *d, size_t t, size_t j)
{
	const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
	const float decay = d->decay[t * d->gate_stride], beta = d->beta[t * d->gate_stride];
	float found = 0, out = 0;

	for (size_t i = 0; i < d->key_dim; i++) {
		s[i] *= decay;
		found = fmaf(s[i], k[i], found);
	}
	const float change = (d->v[t * d->value_stride + j] - found) * beta;
	for (size_t i = 0; i < d->key_dim; i++) {
		s[i] = fmaf(k[i], change, s[i]);
		out = fmaf(s[i], q[i], out);
	}
	d->out[t * d->out_stride + j] = out;
}

void scalar_delta_steps(const struct delta *d, uint32_t col0, uint32_t col1)
{
	for (size_t j = col0; j < col1; j++) {
		float s[DELTA_KEY_DIM];
		for (size_t i = 0; i < d->key_dim; i++)
			s[i] = d->state[i * d->value_dim + j];
		for (size_t t = 0; t < d->n; t++) {
			step(s, d, t, j);
			for (size_t i = 0; t + 1 == d->commit && i < d->key_dim; i++)
				d->state[i * d->value_dim + j] = s[i];
		}
	}
}
