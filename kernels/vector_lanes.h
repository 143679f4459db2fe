/* Functions on vectors of floats, for every instruction set that has them; within kernels/ only.
 *
 * Each lane performs the operations of the scalar table (scalar.c) in the same order, so the bits
 * do not depend on the number of lanes. Tails use the same instructions as bodies. Included once by
 * each table's file, after the lanes of its instruction set (lanes.h). */
#ifndef MOEFS_KERNELS_VECTOR_LANES_H
#define MOEFS_KERNELS_VECTOR_LANES_H

#include "kernels/scalar.h"
#include "kernels/index_lanes.h"
#include "kernels/watch.h"

/* ---- norms and positions ---- */

/* The sum of squares in dot order. A zero's square leaves a sum of squares unchanged, so lanes past
 * the end do no harm. */
ALWAYS_INLINE float vector_squares(const float *x, size_t n)
{
	lanes sum[DOT_REGISTERS];

	for (size_t r = 0; r < DOT_REGISTERS; r++)
		sum[r] = lanes_all(0);
	for (size_t i = 0; i < n;)
		for (size_t r = 0; r < DOT_REGISTERS && i < n; r++, i += LANES) {
			const lanes v = lanes_load(x + i, n - i);
			sum[r] = lanes_fma(v, v, sum[r]);
		}
	return lanes_dot(sum);
}

static void vector_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	const float mean = vector_squares(x, n) / (float)n;
	const lanes scale = lanes_all(1 / sqrtf(mean + eps));

	for (size_t i = 0; i < n; i += LANES) {
		const lanes v = lanes_mul(lanes_load(x + i, n - i), scale);
		lanes_store(y + i, n - i, lanes_mul(v, lanes_load(w + i, n - i)));
	}
}

static void vector_l2norm(float *y, const float *x, uint32_t n, float eps, float scale)
{
	const lanes factor = lanes_all(scalar_l2norm_factor(vector_squares(x, n), eps, scale));

	for (size_t i = 0; i < n; i += LANES)
		lanes_store(y + i, n - i, lanes_mul(lanes_load(x + i, n - i), factor));
}

static void vector_rope(float *x, const float *cos, const float *sin, uint32_t half)
{
	float *second = x + half;

	for (size_t i = 0; i < half; i += LANES) {
		const size_t left = half - i;
		const lanes a = lanes_load(x + i, left), b = lanes_load(second + i, left);
		const lanes c = lanes_load(cos + i, left), s = lanes_load(sin + i, left);
		lanes_store(x + i, left, lanes_fms(a, c, lanes_mul(b, s)));
		lanes_store(second + i, left, lanes_fma(b, c, lanes_mul(a, s)));
	}
}

/* ---- activations ---- */

/* x / (1 + exp(y)): sigmoid and silu with y = -x. */
ALWAYS_INLINE lanes vector_over_exp(lanes x, lanes y)
{
	return lanes_div(x, lanes_add(lanes_all(1), lanes_exp(y)));
}

static void vector_silu_mul(float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i += LANES) {
		const lanes g = lanes_load(gate + i, n - i);
		const lanes silu = vector_over_exp(g, lanes_negative(g));
		lanes_store(gate + i, n - i, lanes_mul(silu, lanes_load(up + i, n - i)));
	}
}

static void vector_sigmoid_mul(float *y, const float *x, size_t n)
{
	const lanes one = lanes_all(1);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes gate = vector_over_exp(one, lanes_negative(lanes_load(x + i, n - i)));
		lanes_store(y + i, n - i, lanes_mul(lanes_load(y + i, n - i), gate));
	}
}

static void vector_gelu_mul(float *gate, const float *up, size_t n)
{
	const lanes cube = lanes_all(GELU_CUBE), line = lanes_all(GELU_LINE);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes x = lanes_load(gate + i, n - i);
		const lanes u = lanes_mul(x, lanes_fma(cube, lanes_mul(x, x), line));
		lanes_store(gate + i, n - i,
			    lanes_mul(vector_over_exp(x, u), lanes_load(up + i, n - i)));
	}
}

static void vector_swiglu_clamped(float *gate, const float *up, size_t n, float alpha, float limit)
{
	const lanes most = lanes_all(limit), least = lanes_all(-limit), one = lanes_all(1);
	const lanes factor = lanes_all(-alpha);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes g = lanes_at_most(lanes_load(gate + i, n - i), most);
		const lanes u =
			lanes_at_least(lanes_at_most(lanes_load(up + i, n - i), most), least);
		lanes_store(gate + i, n - i,
			    lanes_mul(lanes_add(u, one), vector_over_exp(g, lanes_mul(g, factor))));
	}
}

static void vector_softcap(float *x, size_t n, float cap)
{
	const lanes all = lanes_all(cap), twice = lanes_all(2 / cap), one = lanes_all(1);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes y = lanes_mul(lanes_load(x + i, n - i), twice);
		lanes_store(x + i, n - i,
			    lanes_mul(all, lanes_sub(one, vector_over_exp(lanes_all(2), y))));
	}
}

static void vector_relu_squared(float *x, size_t n)
{
	for (size_t i = 0; i < n; i += LANES) {
		const lanes v = lanes_at_least(lanes_load(x + i, n - i), lanes_all(0));
		lanes_store(x + i, n - i, lanes_mul(v, v));
	}
}

static void vector_delta_decay(float *y, const float *x, const float *bias, float factor, size_t n)
{
	const lanes zero = lanes_all(0), two = lanes_all(2), fades = lanes_all(-factor);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes z = lanes_add(lanes_load(x + i, n - i), lanes_load(bias + i, n - i));
		const lanes e = lanes_exp(lanes_at_most(z, lanes_negative(z)));
		const lanes s = lanes_div(e, lanes_add(two, e)), square = lanes_mul(s, s);
		lanes series = lanes_all(SOFTPLUS_LAST);
#pragma GCC unroll 8
		for (int k = SOFTPLUS_TERMS; k >= 1; k -= 2)
			series = lanes_fma(series, square, lanes_all(1.F / (float)k));
		const lanes step =
			lanes_add(lanes_at_least(z, zero), lanes_mul(lanes_add(s, s), series));
		lanes_store(y + i, n - i, lanes_exp(lanes_mul(step, fades)));
	}
}

/* Inlining makes width, bias == NULL and `silu` constants. */
ALWAYS_INLINE void vector_convolve(float *y, const float *w, const float *bias,
				   const float *const *taps, uint32_t width, size_t channels,
				   size_t c0, size_t c1, bool silu)
{
	for (size_t c = c0; c < c1; c += LANES) {
		const size_t left = c1 - c;
		lanes sum = bias ? lanes_load(bias + c, left) : lanes_all(0);
		for (size_t i = 0; i < width; i++)
			sum = lanes_fma(lanes_load(w + i * channels + c, left),
					lanes_load(taps[i] + c, left), sum);
		lanes_store(y + c, left, silu ? vector_over_exp(sum, lanes_negative(sum)) : sum);
	}
}

/* Inlining makes `silu` a constant. */
ALWAYS_INLINE void vector_convolve_as(float *y, const float *w, const float *bias,
				      const float *const *taps, uint32_t width, size_t channels,
				      size_t c0, size_t c1, bool silu)
{
#define CASE(n)                                                                       \
	case n:                                                                       \
		if (bias)                                                             \
			vector_convolve(y, w, bias, taps, n, channels, c0, c1, silu); \
		else                                                                  \
			vector_convolve(y, w, NULL, taps, n, channels, c0, c1, silu); \
		break;
	switch (width) {
		CASES_TO_8(CASE)
	}
#undef CASE
}

static void vector_conv(float *y, const float *w, const float *bias, const float *const *taps,
			uint32_t width, uint32_t channels, uint32_t c0, uint32_t c1)
{
	vector_convolve_as(y, w, bias, taps, width, channels, c0, c1, false);
}

static void vector_conv_silu(float *y, const float *w, const float *bias, const float *const *taps,
			     uint32_t width, uint32_t channels, uint32_t c0, uint32_t c1)
{
	vector_convolve_as(y, w, bias, taps, width, channels, c0, c1, true);
}

/* ---- softmax and sums ---- */

static void vector_softmax(float *x, size_t n)
{
	lanes max = lanes_all(-INFINITY), sum[DOT_REGISTERS];

	for (size_t r = 0; r < DOT_REGISTERS; r++)
		sum[r] = lanes_all(0);
	for (size_t i = 0; i < n; i += LANES)
		max = lanes_raise(max, lanes_load(x + i, n - i), lanes_first(n - i));
	max = lanes_all(lanes_largest(max));
	for (size_t i = 0; i < n;)
		for (size_t r = 0; r < DOT_REGISTERS && i < n; r++, i += LANES) {
			const lanes e = lanes_exp(lanes_sub(lanes_load(x + i, n - i), max));
			lanes_store(x + i, n - i, e);
			sum[r] = lanes_add_some(sum[r], e, lanes_first(n - i));
		}
	const lanes all = lanes_all(lanes_dot(sum));
	for (size_t i = 0; i < n; i += LANES)
		lanes_store(x + i, n - i, lanes_div(lanes_load(x + i, n - i), all));
}

static void vector_add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += LANES) {
		const lanes v = lanes_load(x + i, n - i);
		lanes_store(y + i, n - i, lanes_add(lanes_load(y + i, n - i), v));
	}
}

UNWATCHED static void vector_add_scaled(float *y, float a, const float *x, size_t n)
{
	const lanes factor = lanes_all(a);

	for (size_t i = 0; i < n; i += LANES) {
		const lanes v = lanes_load(x + i, n - i), old = lanes_load(y + i, n - i);
		lanes_store(y + i, n - i, lanes_fma(factor, v, old));
	}
}

/* The functions of a table of kernels that are written once for all instruction sets. */
#define VECTOR_FUNCTIONS                                                                   \
	.rmsnorm = vector_rmsnorm, .rope = vector_rope, .silu_mul = vector_silu_mul,       \
	.softmax = vector_softmax, .add = vector_add, .add_scaled = vector_add_scaled,     \
	.gelu_mul = vector_gelu_mul, .swiglu_clamped = vector_swiglu_clamped,              \
	.softcap = vector_softcap, .sigmoid_mul = vector_sigmoid_mul, .conv = vector_conv, \
	.relu_squared = vector_relu_squared, .delta_decay = vector_delta_decay,            \
	.conv_silu = vector_conv_silu, .l2norm = vector_l2norm,                            \
	.index_scores = index_scores

/* The functions of *_attention.c; set: the first word of their names. */
#define ATTENTION_FUNCTIONS(set)                                                              \
	.kv_put = set##_kv_put, .attend = set##_attend, .attend_tokens = set##_attend_tokens, \
	.attend_spans = set##_attend_spans, .attend_join = set##_attend_join

#endif
