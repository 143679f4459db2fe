/* The NEON tables' attention: the shape of a tile, for attention_lanes.h, and the operations on
 * codes, for attention_codes_lanes.h. Included by neon_attention.c and, with NEON_DOT, by
 * neondot_attention.c. */
#ifndef MOEFS_KERNELS_NEON_ATTENTION_H
#define MOEFS_KERNELS_NEON_ATTENTION_H

#include "kernels/kv_codes.h"
#include "kernels/neon_lanes.h"

enum { ATTENTION_TILE = 4, ATTENTION_REGISTERS = 4, ATTENTION_SIDE_BY_SIDE = 0 };
#define attention_registers(queries) ATTENTION_REGISTERS
#define attention_ask(p) (void)(p) /* no prefetch was measured to help */
#define ATTENTION_CASES(CASE) CASES_TO_4(CASE)

/* ---- codes ---- */

enum { CODES_OFFSET = 0, CODES_KEYS = 4, CODES_VALUES = 2 };
typedef int8_t codes_query;
struct attention_keys {
	int8x16_t all;
};
#define codes_place(i) (i)
#define codes_ask(p) (void)(p) /* not measured */
#define codes_all(i) vdupq_n_s32(i)
#define codes_floats(sum) vcvtq_f32_s32(sum)
#define codes_join(high, low) vaddq_s32(vshlq_n_s32(high, 7), low)
#define codes_load_values(p) vreinterpretq_s32_s8(vld1q_s8((const int8_t *)(p)))

ALWAYS_INLINE struct attention_keys attention_load_keys(const uint8_t *p)
{
	return (struct attention_keys){
		vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(KV_CODES_OFFSET)))};
}

/* Loads four bytes into all lanes. */
ALWAYS_INLINE int8x16_t attention_load_four(const void *p)
{
	int32_t four;
	memcpy(&four, p, sizeof four);
	return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

ALWAYS_INLINE int32x4_t attention_dot(int32x4_t sum, int8x16_t a, int8x16_t b)
{
#ifdef NEON_DOT
	return vdotq_s32(sum, a, b);
#else
	const int16x8_t first = vmull_s8(vget_low_s8(a), vget_low_s8(b)),
			second = vmull_high_s8(a, b);
	return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(first), vpaddlq_s16(second)));
#endif
}

ALWAYS_INLINE int32x4_t attention_dot_keys(int32x4_t sum, struct attention_keys k,
					   const codes_query *q)
{
	return attention_dot(sum, k.all, attention_load_four(q));
}

ALWAYS_INLINE int32x4_t attention_dot_values(int32x4_t sum, int32x4_t v, const uint8_t *w)
{
	return attention_dot(sum, vreinterpretq_s8_s32(v), attention_load_four(w));
}

#include "kernels/attention_lanes.h"

#endif
