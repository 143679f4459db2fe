/* The AVX2 table's gated delta net: what a vector is; the rest is in delta_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx2.h"

#define TABLE(function) avx2_##function

typedef __m256 lanes;
enum { LANES = AVX2_LANES, TILE_REGISTERS = 4 };

#define lanes_load(p, left) load_up_to_8(p, left)
#define lanes_store(p, left, v) store_up_to_8(p, left, v)
#define lanes_all(f) _mm256_set1_ps(f)
#define lanes_negative(v) _mm256_xor_ps(v, _mm256_set1_ps(-0.0F))
#define lanes_add(a, b) _mm256_add_ps(a, b)
#define lanes_sub(a, b) _mm256_sub_ps(a, b)
#define lanes_mul(a, b) _mm256_mul_ps(a, b)
#define lanes_div(a, b) _mm256_div_ps(a, b)
#define lanes_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define lanes_exp(v) exp8(v)
#define lanes_dot(sum) sum_dot_lanes((sum)[0], (sum)[1])

#define lanes_at_most(v, limit) _mm256_min_ps(limit, v)
#define lanes_at_least(v, limit) _mm256_max_ps(limit, v)

#include "kernels/delta_lanes.h"

#include "kernels/activation_lanes.h"

#endif
