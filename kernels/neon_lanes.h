/* The vectors of NEON for the kernels that are written once for all instruction sets (*_lanes.h): a
 * register is 4 floats. Also the prototypes of the NEON tables.
 *
 * Include only from kernels/neon*.c, on AArch64, where NEON always has fused multiply-add and
 * conversions of 16-bit floats. lanes.h says what each definition means. A sum in dot order has
 * four registers: lanes 0 … 3, 4 … 7, 8 … 11 and 12 … 15.
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
/* If either operand is NaN, the result is NaN. */
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

/* A NaN in v leaves max unchanged; no NEON maximum instruction does that for every NaN. */
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

/* Rounds to nearest even. */
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

/* ---- integers of 32 bits, for lanes_exp ---- */

#define lanes_ints_of_bits(v) vreinterpretq_s32_f32(v)
#define lanes_ints_all(n) vdupq_n_s32(n)
#define lanes_ints_sub(a, b) vsubq_s32(a, b)
#define lanes_ints_half(n) vshrq_n_s32(n, 1)

ALWAYS_INLINE lanes lanes_power_of_two(lanes_ints n)
{
	return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* ---- integers of 32 bits, for block_lanes.h ---- */

typedef uint32x4_t lanes_words;
enum { BLOCK_JOINT = 2 };

/* Four bytes, extended to 16 bits in the lower half. */
ALWAYS_INLINE uint8x8_t neon_four_bytes(const uint8_t *p)
{
	uint32_t four;
	memcpy(&four, p, sizeof four);
	return vreinterpret_u8_u32(vdup_n_u32(four));
}

ALWAYS_INLINE uint32x4_t neon_words_bytes(const uint8_t *p)
{
	return vmovl_u16(vget_low_u16(vmovl_u8(neon_four_bytes(p))));
}

ALWAYS_INLINE uint32x4_t neon_words_signed_bytes(const uint8_t *p)
{
	const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(neon_four_bytes(p)));
	return vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(wide)));
}

ALWAYS_INLINE uint16x4_t neon_four_halves(const uint8_t *p)
{
	return vreinterpret_u16_u8(vld1_u8(p));
}

/* A table's 16 bytes. */
ALWAYS_INLINE uint32x4_t neon_words_table(const int8_t *p)
{
	return vreinterpretq_u32_s8(vld1q_s8(p));
}

ALWAYS_INLINE uint32x4_t neon_words_look_up(uint32x4_t table, uint32x4_t v)
{
	return vreinterpretq_u32_u8(
		vqtbl1q_u8(vreinterpretq_u8_u32(table), vreinterpretq_u8_u32(v)));
}

#define words_bytes(p) neon_words_bytes(p)
#define words_signed_bytes(p) neon_words_signed_bytes(p)
#define words_table(p) neon_words_table(p)
#define words_look_up(t, v) neon_words_look_up(t, v)
#define words_load(p) vreinterpretq_u32_u8(vld1q_u8(p))
#define words_all(u) vdupq_n_u32(u)
#define words_halves(p) vmovl_u16(neon_four_halves(p))
#define words_and(a, b) vandq_u32(a, b)
#define words_or(a, b) vorrq_u32(a, b)
#define words_xor(a, b) veorq_u32(a, b)
#define words_add(a, b) vaddq_u32(a, b)
#define words_left(v, n) vshlq_u32(v, vdupq_n_s32((int32_t)(n)))
#define words_right(v, n) vshlq_u32(v, vdupq_n_s32(-(int32_t)(n)))
#define lanes_of_words(v) vcvtq_f32_s32(vreinterpretq_s32_u32(v))
#define lanes_of_bits(v) vreinterpretq_f32_u32(v)

/* ---- integers of 16 bits, for trellis_lanes.h ---- */

typedef int16x8_t shorts;
enum { SHORTS = 8 };

#define shorts_load(p) vld1q_s16(p)
#define shorts_store(p, v) vst1q_s16((int16_t *)(p), v)
#define shorts_all(i) vdupq_n_s16(i)
#define shorts_add(a, b) vaddq_s16(a, b)
#define shorts_sub(a, b) vsubq_s16(a, b)
#define shorts_add_sat(a, b) vqaddq_s16(a, b)
#define shorts_sub_sat(a, b) vqsubq_s16(a, b)
#define shorts_min(a, b) vminq_s16(a, b)
#define shorts_and(a, b) vandq_s16(a, b)
#define shorts_or(a, b) vorrq_s16(a, b)
#define shorts_left(v, n) vshlq_s16(v, vdupq_n_s16((int16_t)(n)))
#define shorts_zip_low(a, b) vzip1q_s16(a, b)
#define shorts_zip_high(a, b) vzip2q_s16(a, b)
#define shorts_units(p, stride) vld1q_s16(p)
#define shorts_store_units(p, stride, v) vst1q_s16(p, v)
#define shorts_low(a, b) vmulq_s16(a, b)
#define shorts_fraction(a, b) vqrdmulhq_s16(a, b)
#define shorts_min_sum(best, v, w) ((best) = vminq_s16(best, vaddq_s16(v, w)))

ALWAYS_INLINE shorts neon_shorts_right(shorts v, uint32_t n)
{
	const int16x8_t left = vdupq_n_s16((int16_t) - (int32_t)n);
	return vreinterpretq_s16_u16(vshlq_u16(vreinterpretq_u16_s16(v), left));
}
#define shorts_right neon_shorts_right
typedef uint16x8_t shorts_mask;
#define mask_bit(v, n) vtstq_s16(v, vdupq_n_s16((int16_t)(1 << (n))))
#define mask_less(a, b) vcltq_s16(a, b)
#define mask_equal(a, b) vceqq_s16(a, b)
#define shorts_pick(mask, a, b) vbslq_s16(mask, a, b)

typedef uint8x16_t bytes16;
#define make_bytes(p) vld1q_u8(p)
/* The upper byte of a lane selects nothing. */
ALWAYS_INLINE shorts neon_shorts_look_up(bytes16 table, shorts i)
{
	const shorts named = vorrq_s16(i, vdupq_n_s16((int16_t)0xff00));
	return vreinterpretq_s16_u8(vqtbl1q_u8(table, vreinterpretq_u8_s16(named)));
}
#define shorts_look_up neon_shorts_look_up
typedef int32x4_t ints;
#define ints_none() vdupq_n_s32(0)
#define ints_store(p, v) vst1q_s32(p, v)
ALWAYS_INLINE void neon_ints_add_products(ints sum[2], const shorts a[2], const shorts b[2])
{
	for (size_t i = 0; i < 2; i++) {
		sum[0] = vmlal_s16(sum[0], vget_low_s16(a[i]), vget_low_s16(b[i]));
		sum[1] = vmlal_high_s16(sum[1], a[i], b[i]);
	}
}
#define ints_add_products neon_ints_add_products

/* ---- states of a trellis, for tc_errors_lanes.h ---- */

#define lanes_less(a, b) vcltq_f32(a, b)
#define lanes_pick(mask, a, b) vbslq_f32(mask, a, b)
#define lanes_ints_load(p) vld1q_s32(p)
#define lanes_ints_store(p, v) vst1q_s32(p, v)
#define lanes_ints_pick(mask, a, b) vbslq_s32(mask, a, b)
#define lanes_ints_xor(a, b) veorq_s32(a, b)
#define lanes_mask_is(v, n) vceqq_s32(v, vdupq_n_s32(n))

ALWAYS_INLINE lanes lanes_look_up(const lanes table[DOT_REGISTERS], lanes_ints i)
{
	const uint8x16x4_t bytes = {{vreinterpretq_u8_f32(table[0]), vreinterpretq_u8_f32(table[1]),
				     vreinterpretq_u8_f32(table[2]),
				     vreinterpretq_u8_f32(table[3])}};
	/* Four bytes of each: 4 i, 4 i + 1 … */
	const uint32x4_t first = vmulq_n_u32(vreinterpretq_u32_s32(i), 0x04040404);
	const uint32x4_t each = vaddq_u32(first, vdupq_n_u32(0x03020100));
	return vreinterpretq_f32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(each)));
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
bool neon_tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits);
void neon_tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);
void neon_tc_choose(uint8_t symbol[TQ_GROUP], const struct tc_group *g,
		    const float weight[TQ_GROUP], const float aimed[TQ_GROUP],
		    const float target[TQ_GROUP], float norm);
bool neon_tc_improve(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP], const struct tc_group *g,
		     float norm, float least);

void neon_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		 uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		 uint32_t latent_dim);
void neon_attend(float *out, const float *q, const struct attention *a);
void neon_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n);
void neon_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
		       uint32_t n, uint32_t span0, uint32_t span1);
void neon_attend_join(float *out, size_t stride, float *joined, const float *parts,
		      const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);
void neondot_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		    uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		    uint32_t latent_dim);
void neondot_attend(float *out, const float *q, const struct attention *a);
void neondot_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			   uint32_t n);
void neondot_attend_spans(float *parts, const float *q, size_t stride, const struct attention *a,
			  uint32_t n, uint32_t span0, uint32_t span1);
void neondot_attend_join(float *out, size_t stride, float *joined, const float *parts,
			 const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);

#endif
