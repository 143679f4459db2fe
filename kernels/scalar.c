/* The scalar table: the reference that every fast kernel is held to, bit for bit.
 *
 * Written to be read, not to be fast; nothing here knows of vectors except in the order of sums
 * (kernels.h). This file has the functions on vectors of floats and the delta net; products are in
 * scalar_multiply.c, attention in scalar_attention.c.
 */
#include "kernels/scalar.h"
#include "kernels/block_layout.h"
#include "kernels/prefetch.h"
#include "kernels/tc.h"
#include "kernels/watch.h"

#include <math.h>

static void scalar_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	float lane[SCALAR_DOT_LANES] = {0};

	for (uint32_t i = 0; i < n; i++)
		lane[i % SCALAR_DOT_LANES] = fmaf(x[i], x[i], lane[i % SCALAR_DOT_LANES]);
	const float mean = scalar_sum_lanes(lane) / (float)n;
	const float scale = 1 / sqrtf(mean + eps);
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * scale * w[i];
}

static void scalar_rope(float *x, const float *cos, const float *sin, uint32_t half)
{
	for (uint32_t i = 0; i < half; i++) {
		const float a = x[i], b = x[i + half];
		x[i] = fmaf(a, cos[i], -(b * sin[i]));
		x[i + half] = fmaf(b, cos[i], a * sin[i]);
	}
}

static void scalar_silu_mul(float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gate[i] = gate[i] / (1 + scalar_exp(-gate[i])) * up[i];
}

static void scalar_softmax(float *x, size_t n)
{
	float lane[SCALAR_DOT_LANES] = {0}, max = -INFINITY;

	for (size_t i = 0; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (size_t i = 0; i < n; i++) {
		x[i] = scalar_exp(x[i] - max);
		lane[i % SCALAR_DOT_LANES] += x[i];
	}
	const float sum = scalar_sum_lanes(lane);
	for (size_t i = 0; i < n; i++)
		x[i] /= sum;
}

static void scalar_add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

UNWATCHED static void scalar_add_scaled(float *y, float a, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
}

UNWATCHED static void scalar_add_products(float *y, size_t ldy, const struct add_products *p)
{
	for (size_t r = 0; r < p->rows; r++)
		for (size_t t = 0; t < p->n; t++)
			scalar_add_scaled(y + r * ldy, p->a[r * p->a_row + t * p->a_step],
					  p->b + t * p->ldb, p->cols);
}

/* ---- activations: comparisons are such that NaN stays NaN ---- */

static void scalar_gelu_mul(float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const float x = gate[i], u = x * fmaf(GELU_CUBE, x * x, GELU_LINE);
		gate[i] = x / (1 + scalar_exp(u)) * up[i];
	}
}

static void scalar_swiglu_clamped(float *gate, const float *up, size_t n, float alpha, float limit)
{
	for (size_t i = 0; i < n; i++) {
		const float g = gate[i] > limit ? limit : gate[i];
		float u = up[i] > limit ? limit : up[i];
		u = u < -limit ? -limit : u;
		gate[i] = (u + 1) * (g / (1 + scalar_exp(g * -alpha)));
	}
}

static void scalar_softcap(float *x, size_t n, float cap)
{
	const float twice = 2 / cap;
	for (size_t i = 0; i < n; i++)
		x[i] = cap * (1 - 2 / (1 + scalar_exp(x[i] * twice)));
}

static void scalar_relu_squared(float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const float positive = 0 > x[i] ? 0 : x[i];
		x[i] = positive * positive;
	}
}

static void scalar_sigmoid_mul(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] *= 1 / (1 + scalar_exp(-x[i]));
}

static void scalar_conv(float *y, const float *w, const float *bias, const float *const *taps,
			uint32_t width, uint32_t channels, uint32_t c0, uint32_t c1)
{
	for (size_t c = c0; c < c1; c++) {
		y[c] = bias ? bias[c] : 0;
		for (size_t i = 0; i < width; i++)
			y[c] = fmaf(w[i * channels + c], taps[i][c], y[c]);
	}
}

static void scalar_conv_silu(float *y, const float *w, const float *bias, const float *const *taps,
			     uint32_t width, uint32_t channels, uint32_t c0, uint32_t c1)
{
	scalar_conv(y, w, bias, taps, width, channels, c0, c1);
	for (size_t c = c0; c < c1; c++)
		y[c] = y[c] / (1 + scalar_exp(-y[c]));
}

static void scalar_delta_decay(float *y, const float *x, const float *bias, float factor, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const float sum = x[i] + bias[i], low = -sum < sum ? -sum : sum;
		const float e = scalar_exp(low), s = e / (2 + e), square = s * s;
		float series = SOFTPLUS_LAST;
		for (int k = SOFTPLUS_TERMS; k >= 1; k -= 2)
			series = fmaf(series, square, 1.F / (float)k);
		const float step = (0 > sum ? 0 : sum) + (s + s) * series;
		y[i] = scalar_exp(step * -factor);
	}
}

static void scalar_l2norm(float *y, const float *x, uint32_t n, float eps, float scale)
{
	float lane[SCALAR_DOT_LANES] = {0};

	for (uint32_t i = 0; i < n; i++)
		lane[i % SCALAR_DOT_LANES] = fmaf(x[i], x[i], lane[i % SCALAR_DOT_LANES]);
	const float factor = scalar_l2norm_factor(scalar_sum_lanes(lane), eps, scale);
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * factor;
}

/* ---- delta nets and their like: one column of the state after the other ---- */

/* Token t in column j, s[key_dim]. */
static void scalar_delta_step(float *s, const struct delta *d, size_t t, size_t j)
{
	const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
	const float *decay = d->decay + t * d->decay_stride, beta = d->beta[t * d->beta_stride];
	float value = d->v[t * d->value_stride + j], found = 0, out = 0;

	for (size_t i = 0; i < d->key_dim; i++) {
		s[i] *= decay[d->rule == DELTA_REPLACES_BY_ROW ? i : 0];
		found = fmaf(s[i], k[i], found);
	}
	value = d->rule == DELTA_ADDS ? value : value - found;
	const float change = value * beta;
	for (size_t i = 0; i < d->key_dim; i++) {
		s[i] = fmaf(k[i], change, s[i]);
		out = fmaf(s[i], q[i], out);
	}
	d->out[t * d->out_stride + j] = out;
}

static void scalar_delta_steps(const struct delta *d, uint32_t col0, uint32_t col1)
{
	for (size_t j = col0; j < col1; j++) {
		float s[DELTA_KEY_DIM];
		for (size_t i = 0; i < d->key_dim; i++)
			s[i] = d->state[i * d->value_dim + j];
		for (size_t t = 0; t < d->n; t++) {
			scalar_delta_step(s, d, t, j);
			for (size_t i = 0; t + 1 == d->commit && i < d->key_dim; i++)
				d->state[i * d->value_dim + j] = s[i];
		}
	}
}

/* ---- index keys ---- */

static float scalar_index_key(const struct index_keys *k, size_t at)
{
	return k->type == KV_F32 ? ((const float *)k->keys)[at]
				 : f16_to_f32(((const uint16_t *)k->keys)[at]);
}

static float scalar_index_find(const struct index_keys *k, const struct index_queries *q, size_t h,
			       size_t j)
{
	float p = 0;

	for (size_t d = 0; d < k->dim; d++)
		p = fmaf(q->q[h * k->dim + d], scalar_index_key(k, d * k->count + j), p);
	return k->positive && p < 0 ? 0 : p;
}

static void scalar_index_scores(float *scores, size_t stride, const struct index_keys *k,
				const struct index_queries *q)
{
	const size_t each = q->heads / q->groups;

	for (size_t g = 0; g < q->groups; g++)
		for (size_t j = 0; j < k->count; j++) {
			float s = 0;
			for (size_t h = g * each; h < (g + 1) * each; h++)
				s = fmaf(q->weight[h], scalar_index_find(k, q, h, j), s);
			scores[g * stride + j] = s;
		}
}

/* ---- blocks into memory: four rows at a time, in the vectors of plain C ---- */

enum { LANES = 4 };
typedef uint32_t arrange_words __attribute__((vector_size(16)));

ALWAYS_INLINE void arrange_load_words(arrange_words *to, const uint8_t *at, size_t stride,
				      size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint32_t word[LANES];
		for (size_t r = 0; r < LANES; r++)
			memcpy(&word[r], at + r * stride + 4 * i, sizeof word[r]);
		memcpy(&to[i], word, sizeof to[i]);
	}
}

ALWAYS_INLINE void arrange_load_four(arrange_words to[4], const uint8_t *at, size_t stride)
{
	arrange_load_words(to, at, stride, 4);
}

ALWAYS_INLINE void arrange_load_two(arrange_words to[2], const uint8_t *at, size_t stride)
{
	arrange_load_words(to, at, stride, 2);
}

/* Bytes 2k, 2k + 8, 2k + 1, 2k + 9. */
ALWAYS_INLINE void arrange_load_mixed(arrange_words to[4], const uint8_t *at, size_t stride)
{
	arrange_words in[4];

	arrange_load_four(in, at, stride);
	for (uint32_t k = 0; k < 4; k++) {
		const arrange_words c = in[k / 2] >> k % 2 * 16, d = in[k / 2 + 2] >> k % 2 * 16;
		to[k] = (c & 0xff) | (c & 0xff00) << 8 | (d & 0xff) << 8 | (d & 0xff00) << 16;
	}
}

ALWAYS_INLINE void arrange_put_halves(uint8_t *to, arrange_words v)
{
	for (size_t r = 0; r < LANES; r++) {
		const uint16_t half = (uint16_t)v[r];
		memcpy(to + r * sizeof half, &half, sizeof half);
	}
}

ALWAYS_INLINE void arrange_put_bytes(uint8_t *to, size_t step, arrange_words v)
{
	for (size_t r = 0; r < LANES; r++)
		for (size_t j = 0; j < 4; j++)
			to[j * step + r] = (uint8_t)(v[r] >> 8 * j);
}

#include "kernels/arrange_lanes.h"

/* ---- the table ---- */

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
	.tc_choose = tc_choose,
	.tc_improve = tc_improve,
	.rmsnorm = scalar_rmsnorm,
	.rope = scalar_rope,
	.silu_mul = scalar_silu_mul,
	.softmax = scalar_softmax,
	.add = scalar_add,
	.add_scaled = scalar_add_scaled,
	.add_products = scalar_add_products,
	.kv_put = scalar_kv_put,
	.attend = scalar_attend,
	.attend_tokens = scalar_attend_tokens,
	.attend_spans = scalar_attend_spans,
	.attend_join = scalar_attend_join,
	.gelu_mul = scalar_gelu_mul,
	.swiglu_clamped = scalar_swiglu_clamped,
	.softcap = scalar_softcap,
	.sigmoid_mul = scalar_sigmoid_mul,
	.conv = scalar_conv,
	.conv_silu = scalar_conv_silu,
	.delta_decay = scalar_delta_decay,
	.relu_squared = scalar_relu_squared,
	.l2norm = scalar_l2norm,
	.delta_steps = scalar_delta_steps,
	.index_scores = scalar_index_scores,
	.arrange = &arrange_blocks,
};
