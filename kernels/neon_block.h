/* What a vector is to the NEON products of matrices of blocks, with and without dot product
 * instructions. Whoever includes this defines dot, and then includes block_lanes.h. */
#ifndef MOEFS_KERNELS_NEON_BLOCK_H
#define MOEFS_KERNELS_NEON_BLOCK_H

#include "kernels/block_layout.h"
#include "kernels/neon_lanes.h"

#include <string.h>

typedef uint32x4_t words;
typedef float32x4_t floats;
enum { BLOCK_JOINT = 2, BLOCK_WIDE_OFFSET = 0 };

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
#define floats_load(p) vld1q_f32(p)
#define floats_store(p, v) vst1q_f32(p, v)
#define floats_all(f) vdupq_n_f32(f)
#define floats_of(v) vcvtq_f32_s32(vreinterpretq_s32_u32(v))
#define floats_of_bits(v) vreinterpretq_f32_u32(v)
#define floats_of_halves(p) vcvt_f32_f16(vreinterpret_f16_u16(neon_four_halves(p)))
#define floats_mul(a, b) vmulq_f32(a, b)
#define floats_fma(a, b, c) vfmaq_f32(c, a, b)

#endif
