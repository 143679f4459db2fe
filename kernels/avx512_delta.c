/* The AVX-512 tables' gated delta net: what a vector is; the rest is in delta_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx512.h"

#define TABLE(function) avx512_##function

typedef __m512 lanes;
enum { LANES = AVX512_LANES, TILE_REGISTERS = 2 };

ALWAYS_INLINE lanes lanes_load(const float *p, size_t left)
{
	return left >= LANES ? _mm512_loadu_ps(p) : load_up_to_16(p, left);
}

ALWAYS_INLINE void lanes_store(float *p, size_t left, lanes v)
{
	if (left >= LANES)
		_mm512_storeu_ps(p, v);
	else
		store_up_to_16(p, left, v);
}

#define lanes_all(f) _mm512_set1_ps(f)
#define lanes_negative(v) _mm512_xor_ps(v, _mm512_set1_ps(-0.0F))
#define lanes_add(a, b) _mm512_add_ps(a, b)
#define lanes_sub(a, b) _mm512_sub_ps(a, b)
#define lanes_mul(a, b) _mm512_mul_ps(a, b)
#define lanes_div(a, b) _mm512_div_ps(a, b)
#define lanes_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define lanes_exp(v) exp16(v)
#define lanes_dot(sum) sum_dot_lanes((sum)[0])

#define lanes_at_most(v, limit) _mm512_min_ps(limit, v)
#define lanes_at_least(v, limit) _mm512_max_ps(limit, v)

#include "kernels/delta_lanes.h"

#include "kernels/activation_lanes.h"

#endif
