/* The NEON tables' encoder of TC: what a vector is; the rest is in trellis_lanes.h and
 * trellis_groups.h. */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"

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

ALWAYS_INLINE shorts shorts_right(shorts v, uint32_t n)
{
	const int16x8_t left = vdupq_n_s16((int16_t) - (int32_t)n);
	return vreinterpretq_s16_u16(vshlq_u16(vreinterpretq_u16_s16(v), left));
}

typedef uint16x8_t mask;
#define mask_bit(v, n) vtstq_s16(v, vdupq_n_s16((int16_t)(1 << (n))))
#define mask_less(a, b) vcltq_s16(a, b)
#define mask_equal(a, b) vceqq_s16(a, b)
#define shorts_pick(mask, a, b) vbslq_s16(mask, a, b)

typedef uint8x16_t bytes16;
#define make_bytes(p) vld1q_u8(p)
/* The upper byte of a lane names none. */
ALWAYS_INLINE shorts shorts_look_up(bytes16 table, shorts i)
{
	const shorts named = vorrq_s16(i, vdupq_n_s16((int16_t)0xff00));
	return vreinterpretq_s16_u8(vqtbl1q_u8(table, vreinterpretq_u8_s16(named)));
}

typedef int32x4_t ints;
#define ints_none() vdupq_n_s32(0)
#define ints_store(p, v) vst1q_s32(p, v)
ALWAYS_INLINE void ints_add_products(ints sum[2], const shorts a[2], const shorts b[2])
{
	for (size_t i = 0; i < 2; i++) {
		sum[0] = vmlal_s16(sum[0], vget_low_s16(a[i]), vget_low_s16(b[i]));
		sum[1] = vmlal_high_s16(sum[1], a[i], b[i]);
	}
}

#define tq_normalise neon_tq_normalise

#include "kernels/trellis_groups.h"

#endif
