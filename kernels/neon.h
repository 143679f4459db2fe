/* What the files of the NEON tables share: prototypes, tails, sums in dot order, the exponential.
 *
 * Include only from kernels/neon*.c, on AArch64, where NEON with fused multiply-add and conversions
 * of 16-bit floats is always there. A sum in dot order lives in four registers: lanes 0 … 3,
 * 4 … 7, 8 … 11 and 12 … 15.
 */
#ifndef MOEFS_KERNELS_NEON_H
#define MOEFS_KERNELS_NEON_H

#include "kernels/block_formats.h"
#include "kernels/cases.h"
#include "kernels/exp.h"
#include "kernels/kernels.h"

#include <arm_neon.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { NEON_LANES = 4, DOT_REGISTERS = 4 };

/* All ones in the first n lanes (all four if n is larger), zeros in the others. */
ALWAYS_INLINE uint32x4_t first_lanes(size_t n)
{
	static const uint32_t lane[NEON_LANES] = {0, 1, 2, 3};
	return vcgtq_u32(vdupq_n_u32(n < NEON_LANES ? (uint32_t)n : NEON_LANES), vld1q_u32(lane));
}

/* Up to 4 of the n floats left at p; the other lanes are zero and their memory is not touched. */
ALWAYS_INLINE float32x4_t load_up_to_4(const float *p, size_t n)
{
	float some[NEON_LANES] = {0};

	if (n >= NEON_LANES)
		return vld1q_f32(p);
	for (size_t i = 0; i < n; i++)
		some[i] = p[i];
	return vld1q_f32(some);
}

ALWAYS_INLINE void store_up_to_4(float *p, size_t n, float32x4_t v)
{
	float some[NEON_LANES];

	if (n >= NEON_LANES) {
		vst1q_f32(p, v);
		return;
	}
	vst1q_f32(some, v);
	for (size_t i = 0; i < n; i++)
		p[i] = some[i];
}

/* The same of 16-bit elements. */
ALWAYS_INLINE uint16x4_t load_up_to_4_u16(const uint16_t *p, size_t n)
{
	uint16_t some[NEON_LANES] = {0};

	if (n >= NEON_LANES)
		return vld1_u16(p);
	for (size_t i = 0; i < n; i++)
		some[i] = p[i];
	return vld1_u16(some);
}

ALWAYS_INLINE float32x4_t f16_to_f32_4(uint16x4_t h)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

/* To nearest even. */
ALWAYS_INLINE uint16x4_t f32_to_f16_4(float32x4_t v)
{
	return vreinterpret_u16_f16(vcvt_f16_f32(v));
}

ALWAYS_INLINE float32x4_t keep_lanes(float32x4_t v, uint32x4_t lanes)
{
	return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), lanes));
}

/* The tree of kernels.h: lane l += lane l + 8, then + 4, + 2, + 1. */
ALWAYS_INLINE float sum_dot_lanes(const float32x4_t sum[DOT_REGISTERS])
{
	const float32x4_t s4 = vaddq_f32(vaddq_f32(sum[0], sum[2]), vaddq_f32(sum[1], sum[3]));
	const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
	return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

/* v > max ? v : max in each of some lanes: a NaN in v leaves max as it is, which no instruction for
 * maxima does for every NaN. */
ALWAYS_INLINE float32x4_t raise_max(float32x4_t max, float32x4_t v, uint32x4_t lanes)
{
	return vbslq_f32(vandq_u32(vcgtq_f32(v, max), lanes), v, max);
}

ALWAYS_INLINE float32x4_t exp_power_of_two4(int32x4_t n)
{
	return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* exp_f32 of exp.h, operation by operation; vfmaq_f32(c, a, b) is a · b + c. */
ALWAYS_INLINE float32x4_t exp4(float32x4_t x)
{
	const float32x4_t round = vdupq_n_f32(EXP_ROUND), one = vdupq_n_f32(1);

	x = vmaxq_f32(x, vdupq_n_f32(EXP_LOW)); /* of a NaN and a number: the NaN */
	x = vminq_f32(x, vdupq_n_f32(EXP_HIGH));

	const float32x4_t shifted = vfmaq_f32(round, x, vdupq_n_f32(EXP_LOG2E));
	const float32x4_t rounded = vsubq_f32(shifted, round);
	const int32x4_t n =
		vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32((int32_t)EXP_ROUND_BITS));

	float32x4_t r = vfmaq_f32(x, rounded, vdupq_n_f32(-EXP_LN2_HIGH));
	r = vfmaq_f32(r, rounded, vdupq_n_f32(-EXP_LN2_LOW));
	float32x4_t p = vdupq_n_f32(EXP_C6);
	p = vfmaq_f32(vdupq_n_f32(EXP_C5), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C2), p, r);
	p = vfmaq_f32(one, p, r);
	p = vfmaq_f32(one, p, r);

	const int32x4_t half = vshrq_n_s32(n, 1);
	p = vmulq_f32(p, exp_power_of_two4(half));
	return vmulq_f32(p, exp_power_of_two4(vsubq_s32(n, half)));
}

void neon_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n);
void neon_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n);
void neon_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n);
multiply_fn neon_multiply_tq2, neon_multiply_tq3, neon_multiply_tq4;
multiply_fn neon_multiply_tc2, neon_multiply_tc3, neon_multiply_tc4;
multiply_fn neondot_multiply_tq2, neondot_multiply_tq3, neondot_multiply_tq4;
multiply_fn neondot_multiply_tc2, neondot_multiply_tc3, neondot_multiply_tc4;

#define PROTOTYPE(name, format) multiply_fn neon_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE
#define PROTOTYPE(name, format) multiply_fn neondot_multiply_##name;
BLOCK_FORMATS(PROTOTYPE)
#undef PROTOTYPE

void neon_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k);
void neon_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k);
bool neon_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain);
/* y = the rotations of the next groups of a row, of which so many floats are left, each divided by
 * its norm. */
void neon_tq_normalise(float *y, float *norm, const float *x, size_t left, size_t groups);
bool neon_tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits);
void neon_tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);

void neon_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		 uint32_t slot, const float *key, const float *value, uint32_t head_dim);
void neon_attend(float *out, const float *q, const struct attention *a);
void neon_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n);

void neon_sigmoid_mul(float *y, const float *x, size_t n);
void neon_gelu_mul(float *gate, const float *up, size_t n);
void neon_swiglu_clamped(float *gate, const float *up, size_t n, float alpha, float limit);
void neon_softcap(float *x, size_t n, float cap);
void neon_conv_silu(float *y, const float *w, const float *const *taps, uint32_t width,
		    uint32_t channels, uint32_t c0, uint32_t c1);
void neon_l2norm(float *y, const float *x, uint32_t n, float eps, float scale);
void neon_delta_steps(const struct delta *d, uint32_t col0, uint32_t col1);

#endif
