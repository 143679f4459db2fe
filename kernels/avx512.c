/* The AVX-512 tables, and their functions on vectors of floats.
 *
 * Two tables, which differ in the products of TQ matrices: avx512_tq.c does with F, BW, VL and DQ,
 * avx512vnni_tq.c needs VNNI and VBMI. Float products are in avx512_multiply.c, attention in
 * avx512_attention.c; the TQ rotation is AVX2's.
 */
#if defined(__x86_64__)

#include "kernels/avx512.h"
#include "kernels/watch.h"

static void rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	__m512 sum = _mm512_setzero_ps();

	for (size_t i = 0; i < n; i += AVX512_LANES) {
		/* A zero's square leaves a sum of squares as it is, so lanes past the end do no
		 * harm. */
		const __m512 v = load_up_to_16(x + i, n - i);
		sum = _mm512_fmadd_ps(v, v, sum);
	}
	const float mean = sum_dot_lanes(sum) / (float)n;
	const __m512 scale = _mm512_set1_ps(1 / sqrtf(mean + eps));
	for (size_t i = 0; i < n; i += AVX512_LANES) {
		const __m512 v = _mm512_mul_ps(load_up_to_16(x + i, n - i), scale);
		store_up_to_16(y + i, n - i, _mm512_mul_ps(v, load_up_to_16(w + i, n - i)));
	}
}

static void rope(float *x, const float *cos, const float *sin, uint32_t half)
{
	float *second = x + half;

	for (size_t i = 0; i < half; i += AVX512_LANES) {
		const size_t left = half - i;
		const __m512 a = load_up_to_16(x + i, left), b = load_up_to_16(second + i, left);
		const __m512 c = load_up_to_16(cos + i, left), s = load_up_to_16(sin + i, left);
		store_up_to_16(x + i, left, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
		store_up_to_16(second + i, left, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
	}
}

static void silu_mul(float *gate, const float *up, size_t n)
{
	const __m512 sign = _mm512_set1_ps(-0.0F), one = _mm512_set1_ps(1);

	for (size_t i = 0; i < n; i += AVX512_LANES) {
		const __m512 g = load_up_to_16(gate + i, n - i);
		const __m512 e = exp16(_mm512_xor_ps(g, sign));
		const __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, e));
		store_up_to_16(gate + i, n - i, _mm512_mul_ps(silu, load_up_to_16(up + i, n - i)));
	}
}

static float max_of(const float *x, size_t n)
{
	__m512 max = _mm512_set1_ps(-INFINITY);

	for (size_t i = 0; i < n; i += AVX512_LANES) { /* of a NaN and max: max */
		const __m512 v = load_up_to_16(x + i, n - i);
		max = _mm512_mask_max_ps(max, first_lanes(n - i), v, max);
	}
	return max_lane(max);
}

static void softmax(float *x, size_t n)
{
	__m512 lanes = _mm512_setzero_ps();
	const __m512 max = _mm512_set1_ps(max_of(x, n));

	for (size_t i = 0; i < n; i += AVX512_LANES) {
		const __m512 e = exp16(_mm512_sub_ps(load_up_to_16(x + i, n - i), max));
		store_up_to_16(x + i, n - i, e);
		lanes = _mm512_mask_add_ps(lanes, first_lanes(n - i), lanes, e);
	}
	const __m512 sum = _mm512_set1_ps(sum_dot_lanes(lanes));
	for (size_t i = 0; i < n; i += AVX512_LANES)
		store_up_to_16(x + i, n - i, _mm512_div_ps(load_up_to_16(x + i, n - i), sum));
}

static void add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += AVX512_LANES) {
		const __m512 v = load_up_to_16(x + i, n - i);
		store_up_to_16(y + i, n - i, _mm512_add_ps(load_up_to_16(y + i, n - i), v));
	}
}

UNWATCHED static void add_scaled(float *y, float a, const float *x, size_t n)
{
	const __m512 factor = _mm512_set1_ps(a);

	for (size_t i = 0; i < n; i += AVX512_LANES) {
		const __m512 v = load_up_to_16(x + i, n - i), old = load_up_to_16(y + i, n - i);
		store_up_to_16(y + i, n - i, _mm512_fmadd_ps(factor, v, old));
	}
}

#define SHARED_FUNCTIONS                                                                       \
	.block_prepare = avx2_block_prepare, .tq_prepare = avx2_tq_prepare,                    \
	.tq_quantise_row = avx512_tq_quantise_row, .tc_quantise_row = avx512_tc_quantise_row,  \
	.tc_encode = avx512_tc_encode, .rmsnorm = rmsnorm, .rope = rope, .silu_mul = silu_mul, \
	.softmax = softmax, .add = add, .add_scaled = add_scaled, .kv_put = avx512_kv_put,     \
	.attend = avx512_attend, .attend_tokens = avx512_attend_tokens,                        \
	.gelu_mul = avx512_gelu_mul, .swiglu_clamped = avx512_swiglu_clamped,                  \
	.softcap = avx512_softcap, .sigmoid_mul = avx512_sigmoid_mul,                          \
	.conv_silu = avx512_conv_silu, .l2norm = avx512_l2norm, .delta_steps = avx512_delta_steps

const struct kernels kernels_avx512 = {
	.name = "avx512",
	.multiply = {[FORMAT_F32] = avx512_multiply_f32,
		     [FORMAT_F16] = avx512_multiply_f16,
		     [FORMAT_BF16] = avx512_multiply_bf16,
		     [FORMAT_TQ2] = avx512_multiply_tq2,
		     [FORMAT_TQ3] = avx512_multiply_tq3,
		     [FORMAT_TQ4] = avx512_multiply_tq4,
		     [FORMAT_TC2] = avx512_multiply_tc2,
		     [FORMAT_TC3] = avx512_multiply_tc3,
		     [FORMAT_TC4] = avx512_multiply_tc4,
#define ENTRY(name, format) [format] = avx512_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
};

const struct kernels kernels_avx512vnni = {
	.name = "avx512vnni",
	.multiply = {[FORMAT_F32] = avx512_multiply_f32,
		     [FORMAT_F16] = avx512_multiply_f16,
		     [FORMAT_BF16] = avx512_multiply_bf16,
		     [FORMAT_TQ2] = avx512vnni_multiply_tq2,
		     [FORMAT_TQ3] = avx512vnni_multiply_tq3,
		     [FORMAT_TQ4] = avx512vnni_multiply_tq4,
		     [FORMAT_TC2] = avx512vnni_multiply_tc2,
		     [FORMAT_TC3] = avx512vnni_multiply_tc3,
		     [FORMAT_TC4] = avx512vnni_multiply_tc4,
#define ENTRY(name, format) [format] = avx512vnni_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
};

#endif
