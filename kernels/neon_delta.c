/* The NEON tables' gated delta net: what a vector is; the rest is in delta_lanes.h. */
#if defined(__aarch64__)

#include "kernels/neon.h"

#define TABLE(function) neon_##function

typedef float32x4_t lanes;
enum { LANES = NEON_LANES, TILE_REGISTERS = 4 };

#define lanes_load(p, left) load_up_to_4(p, left)
#define lanes_store(p, left, v) store_up_to_4(p, left, v)
#define lanes_all(f) vdupq_n_f32(f)
#define lanes_negative(v) vnegq_f32(v)
#define lanes_add(a, b) vaddq_f32(a, b)
#define lanes_sub(a, b) vsubq_f32(a, b)
#define lanes_mul(a, b) vmulq_f32(a, b)
#define lanes_div(a, b) vdivq_f32(a, b)
#define lanes_fma(a, b, c) vfmaq_f32(c, a, b)
#define lanes_exp(v) exp4(v)
#define lanes_dot(sum) sum_dot_lanes(sum)

#define lanes_at_most(v, limit) vbslq_f32(vcgtq_f32(v, limit), limit, v)
#define lanes_at_least(v, limit) vbslq_f32(vcltq_f32(v, limit), limit, v)

#include "kernels/delta_lanes.h"

#include "kernels/activation_lanes.h"

#endif
