/* The scalar table: the reference that every fast kernel is held to, bit for bit.
 *
 * Written to be read, not to be fast; nothing here knows of vectors except in the order of sums
 * (kernels.h). This file has the functions on vectors of floats; products are in scalar_multiply.c,
 * attention in scalar_attention.c.
 */
#include "kernels/scalar.h"
#include "kernels/block_formats.h"
#include "kernels/exp.h"
#include "kernels/tq.h"
#include "kernels/watch.h"

#include <math.h>

static void rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	float lane[DOT_LANES] = {0};

	for (uint32_t i = 0; i < n; i++)
		lane[i % DOT_LANES] = fmaf(x[i], x[i], lane[i % DOT_LANES]);
	const float mean = sum_lanes(lane) / (float)n;
	const float scale = 1 / sqrtf(mean + eps);
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * scale * w[i];
}

static void rope(float *x, const float *cos, const float *sin, uint32_t half)
{
	for (uint32_t i = 0; i < half; i++) {
		const float a = x[i], b = x[i + half];
		x[i] = fmaf(a, cos[i], -(b * sin[i]));
		x[i + half] = fmaf(b, cos[i], a * sin[i]);
	}
}

static void silu_mul(float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gate[i] = gate[i] / (1 + exp_f32(-gate[i])) * up[i];
}

static void softmax(float *x, size_t n)
{
	float lane[DOT_LANES] = {0}, max = -INFINITY;

	for (size_t i = 0; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (size_t i = 0; i < n; i++) {
		x[i] = exp_f32(x[i] - max);
		lane[i % DOT_LANES] += x[i];
	}
	const float sum = sum_lanes(lane);
	for (size_t i = 0; i < n; i++)
		x[i] /= sum;
}

static void add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

UNWATCHED static void add_scaled(float *y, float a, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
}

const struct kernels kernels_scalar = {
	.name = "scalar",
	.multiply = {[FORMAT_F32] = scalar_multiply_f32,
		     [FORMAT_F16] = scalar_multiply_f16,
		     [FORMAT_BF16] = scalar_multiply_bf16,
		     [FORMAT_TQ2] = scalar_multiply_tq,
		     [FORMAT_TQ3] = scalar_multiply_tq,
		     [FORMAT_TQ4] = scalar_multiply_tq,
		     [FORMAT_TC2] = scalar_multiply_tq,
		     [FORMAT_TC3] = scalar_multiply_tq,
		     [FORMAT_TC4] = scalar_multiply_tq,
#define ENTRY(name, format) [format] = scalar_multiply_blocks,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	.tq_prepare = scalar_tq_prepare,
	.block_prepare = scalar_block_prepare,
	.tq_quantise_row = tq_quantise_row,
	.tc_quantise_row = tc_quantise_row,
	.tc_encode = tc_encode,
	.rmsnorm = rmsnorm,
	.rope = rope,
	.silu_mul = silu_mul,
	.softmax = softmax,
	.add = add,
	.add_scaled = add_scaled,
	.kv_put = scalar_kv_put,
	.attend = scalar_attend,
	.attend_tokens = scalar_attend_tokens,
	.gelu_mul = scalar_gelu_mul,
	.swiglu_clamped = scalar_swiglu_clamped,
	.softcap = scalar_softcap,
	.sigmoid_mul = scalar_sigmoid_mul,
	.conv_silu = scalar_conv_silu,
	.l2norm = scalar_l2norm,
	.delta_steps = scalar_delta_steps,
};
