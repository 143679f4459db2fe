/* The NEON tables (AArch64, without and with the dot product instructions of ARMv8.2), and their
 * functions on vectors of floats.
 *
 * Tails go through the same instructions as bodies, with loads and stores of single elements, so
 * that there is one arithmetic for any length. Products are in neon_multiply.c, neon_tq.c and
 * neondot_tq.c, the TQ rotation in neon_rotate.c, attention in neon_attention.c.
 */
#if defined(__aarch64__)

#include "kernels/neon.h"
#include "kernels/watch.h"

static void rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	float32x4_t sum[DOT_REGISTERS] = {{0}};

	for (size_t i = 0; i < n; i += NEON_LANES) {
		/* A zero's square leaves a sum of squares as it is, so lanes past the end do no
		 * harm. */
		const float32x4_t v = load_up_to_4(x + i, n - i);
		float32x4_t *lanes = &sum[i / NEON_LANES % DOT_REGISTERS];
		*lanes = vfmaq_f32(*lanes, v, v);
	}
	const float mean = sum_dot_lanes(sum) / (float)n;
	const float32x4_t scale = vdupq_n_f32(1 / sqrtf(mean + eps));
	for (size_t i = 0; i < n; i += NEON_LANES) {
		const float32x4_t v = vmulq_f32(load_up_to_4(x + i, n - i), scale);
		store_up_to_4(y + i, n - i, vmulq_f32(v, load_up_to_4(w + i, n - i)));
	}
}

static void rope(float *x, const float *cos, const float *sin, uint32_t half)
{
	float *second = x + half;

	for (size_t i = 0; i < half; i += NEON_LANES) {
		const size_t left = half - i;
		const float32x4_t a = load_up_to_4(x + i, left), b = load_up_to_4(second + i, left);
		const float32x4_t c = load_up_to_4(cos + i, left), s = load_up_to_4(sin + i, left);
		store_up_to_4(x + i, left, vfmaq_f32(vnegq_f32(vmulq_f32(b, s)), a, c));
		store_up_to_4(second + i, left, vfmaq_f32(vmulq_f32(a, s), b, c));
	}
}

static void silu_mul(float *gate, const float *up, size_t n)
{
	const float32x4_t one = vdupq_n_f32(1);

	for (size_t i = 0; i < n; i += NEON_LANES) {
		const float32x4_t g = load_up_to_4(gate + i, n - i);
		const float32x4_t silu = vdivq_f32(g, vaddq_f32(one, exp4(vnegq_f32(g))));
		store_up_to_4(gate + i, n - i, vmulq_f32(silu, load_up_to_4(up + i, n - i)));
	}
}

static float max_of(const float *x, size_t n)
{
	float32x4_t max = vdupq_n_f32(-INFINITY);

	for (size_t i = 0; i < n; i += NEON_LANES)
		max = raise_max(max, load_up_to_4(x + i, n - i), first_lanes(n - i));
	return vmaxvq_f32(max);
}

static void softmax(float *x, size_t n)
{
	const float32x4_t max = vdupq_n_f32(max_of(x, n));
	float32x4_t lanes[DOT_REGISTERS] = {{0}};

	for (size_t i = 0; i < n; i += NEON_LANES) {
		const float32x4_t e = exp4(vsubq_f32(load_up_to_4(x + i, n - i), max));
		float32x4_t *lane = &lanes[i / NEON_LANES % DOT_REGISTERS];
		store_up_to_4(x + i, n - i, e);
		*lane = vaddq_f32(*lane, keep_lanes(e, first_lanes(n - i)));
	}
	const float32x4_t sum = vdupq_n_f32(sum_dot_lanes(lanes));
	for (size_t i = 0; i < n; i += NEON_LANES)
		store_up_to_4(x + i, n - i, vdivq_f32(load_up_to_4(x + i, n - i), sum));
}

static void add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += NEON_LANES) {
		const float32x4_t v = load_up_to_4(x + i, n - i);
		store_up_to_4(y + i, n - i, vaddq_f32(load_up_to_4(y + i, n - i), v));
	}
}

UNWATCHED static void add_scaled(float *y, float a, const float *x, size_t n)
{
	const float32x4_t factor = vdupq_n_f32(a);

	for (size_t i = 0; i < n; i += NEON_LANES) {
		const float32x4_t v = load_up_to_4(x + i, n - i), old = load_up_to_4(y + i, n - i);
		store_up_to_4(y + i, n - i, vfmaq_f32(old, factor, v));
	}
}

const struct kernels kernels_neon = {
	.name = "neon",
	.multiply = {[FORMAT_F32] = neon_multiply_f32,
		     [FORMAT_F16] = neon_multiply_f16,
		     [FORMAT_BF16] = neon_multiply_bf16,
		     [FORMAT_TQ2] = neon_multiply_tq2,
		     [FORMAT_TQ3] = neon_multiply_tq3,
		     [FORMAT_TQ4] = neon_multiply_tq4,
		     [FORMAT_TC2] = neon_multiply_tc2,
		     [FORMAT_TC3] = neon_multiply_tc3,
		     [FORMAT_TC4] = neon_multiply_tc4,
#define ENTRY(name, format) [format] = neon_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	.block_prepare = neon_block_prepare,
	.tq_prepare = neon_tq_prepare,
	.tq_quantise_row = neon_tq_quantise_row,
	.tc_quantise_row = neon_tc_quantise_row,
	.tc_encode = neon_tc_encode,
	.rmsnorm = rmsnorm,
	.rope = rope,
	.silu_mul = silu_mul,
	.softmax = softmax,
	.add = add,
	.add_scaled = add_scaled,
	.kv_put = neon_kv_put,
	.attend = neon_attend,
	.attend_tokens = neon_attend_tokens,
	.gelu_mul = neon_gelu_mul,
	.swiglu_clamped = neon_swiglu_clamped,
	.softcap = neon_softcap,
	.sigmoid_mul = neon_sigmoid_mul,
	.conv_silu = neon_conv_silu,
	.l2norm = neon_l2norm,
	.delta_steps = neon_delta_steps,
};

/* Differs in the products of TQ matrices alone. */
const struct kernels kernels_neondot = {
	.name = "neondot",
	.multiply = {[FORMAT_F32] = neon_multiply_f32,
		     [FORMAT_F16] = neon_multiply_f16,
		     [FORMAT_BF16] = neon_multiply_bf16,
		     [FORMAT_TQ2] = neondot_multiply_tq2,
		     [FORMAT_TQ3] = neondot_multiply_tq3,
		     [FORMAT_TQ4] = neondot_multiply_tq4,
		     [FORMAT_TC2] = neondot_multiply_tc2,
		     [FORMAT_TC3] = neondot_multiply_tc3,
		     [FORMAT_TC4] = neondot_multiply_tc4,
#define ENTRY(name, format) [format] = neondot_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	.block_prepare = neon_block_prepare,
	.tq_prepare = neon_tq_prepare,
	.tq_quantise_row = neon_tq_quantise_row,
	.tc_quantise_row = neon_tc_quantise_row,
	.tc_encode = neon_tc_encode,
	.rmsnorm = rmsnorm,
	.rope = rope,
	.silu_mul = silu_mul,
	.softmax = softmax,
	.add = add,
	.add_scaled = add_scaled,
	.kv_put = neon_kv_put,
	.attend = neon_attend,
	.attend_tokens = neon_attend_tokens,
	.gelu_mul = neon_gelu_mul,
	.swiglu_clamped = neon_swiglu_clamped,
	.softcap = neon_softcap,
	.sigmoid_mul = neon_sigmoid_mul,
	.conv_silu = neon_conv_silu,
	.l2norm = neon_l2norm,
	.delta_steps = neon_delta_steps,
};

#endif
