/* The NEON tables' encoder of TC: what a vector is; the rest is in trellis_lanes.h. */
#if defined(__aarch64__)

#include "kernels/neon.h"

#define TABLE(function) neon_##function

typedef int32x4_t ints;
enum { LANES = NEON_LANES };

#define ints_load(p) vld1q_s32(p)
#define ints_store(p, v) vst1q_s32(p, v)
#define ints_all(i) vdupq_n_s32(i)
#define ints_add(a, b) vaddq_s32(a, b)
#define ints_sub(a, b) vsubq_s32(a, b)
#define ints_min(a, b) vminq_s32(a, b)
#define ints_and(a, b) vandq_s32(a, b)
#define ints_or(a, b) vorrq_s32(a, b)
#define ints_xor(a, b) veorq_s32(a, b)
#define ints_left(v, n) vshlq_s32(v, vdupq_n_s32((int32_t)(n)))
#define ints_right(v, n) ints_right_each(v, vdupq_n_s32((int32_t)(n)))

ALWAYS_INLINE ints ints_right_each(ints v, ints counts)
{
	return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), vnegq_s32(counts)));
}

ALWAYS_INLINE ints ints_if_negative(ints v, ints a, ints b)
{
	return vbslq_s32(vcltzq_s32(v), a, b);
}

typedef int32x4_t factor;
#define make_factor(i) vdupq_n_s32(i)
#define ints_times(v, f) vmulq_s32(v, f)
#define ints_product(a, b) vmulq_s32(a, b)

typedef int32x4_t constant;
#define make_constant(i) vdupq_n_s32(i)
#define ints_of(c) (c)
#define ints_min_sum(best, v, c) ((best) = ints_min(best, ints_add(v, c)))

typedef uint8x16_t bytes16;
#define make_bytes(p) vld1q_u8(p)
/* The other bytes of a lane name none. */
ALWAYS_INLINE ints ints_look_up(bytes16 table, ints i)
{
	const ints other = vdupq_n_s32((int32_t)0xffffff00);
	return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(vorrq_s32(i, other))));
}

#define tq_normalise neon_tq_normalise

#include "kernels/trellis_lanes.h"

#endif
