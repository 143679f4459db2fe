/* What a vector is to the kernels that are written once for all instruction sets (*_lanes.h): here
 * a register of NEON, 4 floats. Also the prototypes of the NEON tables.
 *
 * Include only from kernels/neon*.c, on AArch64, where NEON with fused multiply-add and conversions
 * of 16-bit floats is always there. lanes.h says what each definition means. A
 * sum in dot order has four registers: lanes 0 … 3, 4 … 7, 8 … 11 and 12 … 15.
 */
#ifndef MOEFS_KERNELS_NEON_LANES_H
#define MOEFS_KERNELS_NEON_LANES_H

#include "kernels/block_layout.h"
#include "kernels/scalar.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"

#include <arm_neon.h>
#include <string.h>

#ifndef TABLE
#define TABLE(function) neon_##function
#endif

typedef float32x4_t lanes;
typedef int32x4_t lanes_ints;
typedef uint32x4_t lanes_mask; /* all ones or all zeros in each lane */
enum { LANES = 4, DOT_REGISTERS = 16 / LANES };

#define lanes_all(f) vdupq_n_f32(f)
#define lanes_negative(v) vnegq_f32(v)
#define lanes_add(a, b) vaddq_f32(a, b)
#define lanes_sub(a, b) vsubq_f32(a, b)
#define lanes_mul(a, b) vmulq_f32(a, b)
#define lanes_div(a, b) vdivq_f32(a, b)
#define lanes_fma(a, b, c) vfmaq_f32(c, a, b) /* the sum comes first */
#define lanes_fms(a, b, c) vfmaq_f32(vnegq_f32(c), a, b)
/* Of a NaN and a number these are the NaN. */
#define lanes_at_most(v, limit) vminq_f32(v, limit)
#define lanes_at_least(v, limit) vmaxq_f32(v, limit)

/* ---- some of the lanes ---- */

ALWAYS_INLINE lanes_mask lanes_first(size_t n)
{
	static const uint32_t lane[LANES] = {0, 1, 2, 3};
	return vcgtq_u32(vdupq_n_u32(n < LANES ? (uint32_t)n : LANES), vld1q_u32(lane));
}

#define lanes_mask_without(mask, other) vbicq_u32(mask, other)

ALWAYS_INLINE lanes lanes_keep(lanes v, lanes_mask mask)
{
	return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), mask));
}

#define lanes_add_some(sum, v, mask) vaddq_f32(sum, lanes_keep(v, mask))
#define lanes_fma_some(a, b, c, mask) vbslq_f32(mask, vfmaq_f32(c, a, b), c)

/* A NaN in v leaves max as it is, which no instruction for maxima does for every NaN. */
ALWAYS_INLINE lanes lanes_raise(lanes max, lanes v, lanes_mask mask)
{
	return vbslq_f32(vandq_u32(vcgtq_f32(v, max), mask), v, max);
}

ALWAYS_INLINE lanes lanes_load(const float *p, size_t left)
{
	float some[LANES] = {0};

	if (left >= LANES)
		return vld1q_f32(p);
	for (size_t i = 0; i < left; i++)
		some[i] = p[i];
	return vld1q_f32(some);
}

ALWAYS_INLINE void lanes_store(float *p, size_t left, lanes v)
{
	float some[LANES];

	if (left >= LANES) {
		vst1q_f32(p, v);
		return;
	}
	vst1q_f32(some, v);
	for (size_t i = 0; i < left; i++)
		p[i] = some[i];
}

ALWAYS_INLINE lanes lanes_load_f16(const uint16_t *p, size_t left)
{
	uint16_t some[LANES] = {0};

	if (left < LANES)
		p = memcpy(some, p, left * sizeof *p);
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

/* To nearest even. */
ALWAYS_INLINE void lanes_store_f16(uint16_t *p, size_t left, lanes v)
{
	const uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(v));

	if (left >= LANES)
		vst1_u16(p, half);
	else
		memcpy(p, &half, left * sizeof *p);
}

ALWAYS_INLINE lanes lanes_load_bf16(const uint16_t *p, size_t left)
{
	uint16_t some[LANES] = {0};

	if (left < LANES)
		p = memcpy(some, p, left * sizeof *p);
	return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

/* ---- across lanes ---- */

ALWAYS_INLINE float lanes_dot(const lanes sum[DOT_REGISTERS])
{
	const float32x4_t s4 = vaddq_f32(vaddq_f32(sum[0], sum[2]), vaddq_f32(sum[1], sum[3]));
	const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
	return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

#define lanes_largest(v) vmaxvq_f32(v)

/* ---- whole numbers of 32 bits, for lanes_exp ---- */

#define lanes_ints_of_bits(v) vreinterpretq_s32_f32(v)
#define lanes_ints_all(n) vdupq_n_s32(n)
#define lanes_ints_sub(a, b) vsubq_s32(a, b)
#define lanes_ints_half(n) vshrq_n_s32(n, 1)

ALWAYS_INLINE lanes lanes_power_of_two(lanes_ints n)
{
	return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

#include "kernels/lanes.h"

/* ---- the tables ---- */

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

#endif
