/* The AVX2 table (x86-64 with AVX2, FMA and F16C), and its functions on vectors of floats.
 *
 * Tails go through the same instructions as bodies, with masked loads and stores, so that there is
 * one arithmetic for any length. Products are in avx2_multiply.c and avx2_tq.c, the TQ rotation in
 * avx2_rotate.c, attention in avx2_attention.c.
 */
#if defined(__x86_64__)

#include "kernels/avx2.h"
#include "kernels/watch.h"

static void rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	__m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

	for (size_t i = 0; i < n; i += AVX2_LANES) {
		/* A zero's square leaves a sum of squares as it is, so lanes past the end do no
		 * harm. */
		const __m256 v = load_up_to_8(x + i, n - i);
		__m256 *lanes = &sum[i / AVX2_LANES % 2];
		*lanes = _mm256_fmadd_ps(v, v, *lanes);
	}
	const float mean = sum_dot_lanes(sum[0], sum[1]) / (float)n;
	const __m256 scale = _mm256_set1_ps(1 / sqrtf(mean + eps));
	for (size_t i = 0; i < n; i += AVX2_LANES) {
		const __m256 v = _mm256_mul_ps(load_up_to_8(x + i, n - i), scale);
		store_up_to_8(y + i, n - i, _mm256_mul_ps(v, load_up_to_8(w + i, n - i)));
	}
}

static void rope(float *x, const float *cos, const float *sin, uint32_t half)
{
	float *second = x + half;

	for (size_t i = 0; i < half; i += AVX2_LANES) {
		const size_t left = half - i;
		const __m256 a = load_up_to_8(x + i, left), b = load_up_to_8(second + i, left);
		const __m256 c = load_up_to_8(cos + i, left), s = load_up_to_8(sin + i, left);
		store_up_to_8(x + i, left, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
		store_up_to_8(second + i, left, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
	}
}

static void silu_mul(float *gate, const float *up, size_t n)
{
	const __m256 sign = _mm256_set1_ps(-0.0F), one = _mm256_set1_ps(1);

	for (size_t i = 0; i < n; i += AVX2_LANES) {
		const __m256 g = load_up_to_8(gate + i, n - i);
		const __m256 e = exp8(_mm256_xor_ps(g, sign));
		const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, e));
		store_up_to_8(gate + i, n - i, _mm256_mul_ps(silu, load_up_to_8(up + i, n - i)));
	}
}

static float max_of(const float *x, size_t n)
{
	const __m256 lowest = _mm256_set1_ps(-INFINITY);
	__m256 max = lowest;

	for (size_t i = 0; i < n; i += AVX2_LANES) {
		const __m256 in = _mm256_castsi256_ps(first_lanes(n - i < 8 ? n - i : 8));
		const __m256 v = _mm256_blendv_ps(lowest, load_up_to_8(x + i, n - i), in);
		max = _mm256_max_ps(v, max); /* of a NaN and max: max */
	}
	return max_lane(max);
}

static void softmax(float *x, size_t n)
{
	__m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
	const __m256 max = _mm256_set1_ps(max_of(x, n));

	for (size_t i = 0; i < n; i += AVX2_LANES) {
		const __m256 in = _mm256_castsi256_ps(first_lanes(n - i < 8 ? n - i : 8));
		const __m256 e = exp8(_mm256_sub_ps(load_up_to_8(x + i, n - i), max));
		__m256 *lane = &lanes[i / AVX2_LANES % 2];
		store_up_to_8(x + i, n - i, e);
		*lane = _mm256_add_ps(*lane, _mm256_and_ps(e, in));
	}
	const __m256 sum = _mm256_set1_ps(sum_dot_lanes(lanes[0], lanes[1]));
	for (size_t i = 0; i < n; i += AVX2_LANES)
		store_up_to_8(x + i, n - i, _mm256_div_ps(load_up_to_8(x + i, n - i), sum));
}

static void add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += AVX2_LANES) {
		const __m256 v = load_up_to_8(x + i, n - i);
		store_up_to_8(y + i, n - i, _mm256_add_ps(load_up_to_8(y + i, n - i), v));
	}
}

UNWATCHED static void add_scaled(float *y, float a, const float *x, size_t n)
{
	const __m256 factor = _mm256_set1_ps(a);

	for (size_t i = 0; i < n; i += AVX2_LANES) {
		const __m256 v = load_up_to_8(x + i, n - i), old = load_up_to_8(y + i, n - i);
		store_up_to_8(y + i, n - i, _mm256_fmadd_ps(factor, v, old));
	}
}

const struct kernels kernels_avx2 = {
	.name = "avx2",
	.multiply = {[FORMAT_F32] = avx2_multiply_f32,
		     [FORMAT_F16] = avx2_multiply_f16,
		     [FORMAT_BF16] = avx2_multiply_bf16,
		     [FORMAT_TQ2] = avx2_multiply_tq2,
		     [FORMAT_TQ3] = avx2_multiply_tq3,
		     [FORMAT_TQ4] = avx2_multiply_tq4,
		     [FORMAT_TC2] = avx2_multiply_tc2,
		     [FORMAT_TC3] = avx2_multiply_tc3,
		     [FORMAT_TC4] = avx2_multiply_tc4,
#define ENTRY(name, format) [format] = avx2_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	.block_prepare = avx2_block_prepare,
	.tq_prepare = avx2_tq_prepare,
	.tq_quantise_row = avx2_tq_quantise_row,
	.tc_quantise_row = avx2_tc_quantise_row,
	.tc_encode = avx2_tc_encode,
	.rmsnorm = rmsnorm,
	.rope = rope,
	.silu_mul = silu_mul,
	.softmax = softmax,
	.add = add,
	.add_scaled = add_scaled,
	.kv_put = avx2_kv_put,
	.attend = avx2_attend,
	.attend_tokens = avx2_attend_tokens,
	.gelu_mul = avx2_gelu_mul,
	.swiglu_clamped = avx2_swiglu_clamped,
	.softcap = avx2_softcap,
	.sigmoid_mul = avx2_sigmoid_mul,
	.conv_silu = avx2_conv_silu,
	.l2norm = avx2_l2norm,
	.delta_steps = avx2_delta_steps,
};

#endif
