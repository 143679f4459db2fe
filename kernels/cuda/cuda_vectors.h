/* Vectors of floats, as one thread computes its part: the exponential, activations, positions, sums in
 * dot order. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_VECTORS_H
#define MOEFS_KERNELS_CUDA_CUDA_VECTORS_H

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/exponential.h"

/* Number i of an array. */
CUDA_THREAD float cuda_number_at(const void *numbers, enum cuda_number type, size_t i)
{
	if (type == CUDA_F32)
		return ((const float *)numbers)[i];
	const uint16_t half = ((const uint16_t *)numbers)[i];
	return type == CUDA_F16 ? cuda_from_half(half) : cuda_float((uint32_t)half << 16);
}

/* scalar_exp, operation by operation. */
CUDA_THREAD float cuda_exp(float x)
{
	x = EXP_LOW > x ? EXP_LOW : x; /* comparisons with NaN are false and keep it */
	x = EXP_HIGH < x ? EXP_HIGH : x;

	const float shifted = cuda_fma(x, EXP_LOG2E, EXP_ROUND);
	const float rounded = shifted - EXP_ROUND;
	const int32_t n = (int32_t)(cuda_bits(shifted) - EXP_ROUND_BITS), half = n >> 1;

	float r = cuda_fma(rounded, -EXP_LN2_HIGH, x);
	r = cuda_fma(rounded, -EXP_LN2_LOW, r);
	float p = EXP_C6;
	p = cuda_fma(p, r, EXP_C5);
	p = cuda_fma(p, r, EXP_C4);
	p = cuda_fma(p, r, EXP_C3);
	p = cuda_fma(p, r, EXP_C2);
	p = cuda_fma(p, r, 1);
	p = cuda_fma(p, r, 1);
	return p * cuda_float(((uint32_t)half + 127) << 23) *
	       cuda_float(((uint32_t)(n - half) + 127) << 23);
}

CUDA_THREAD float cuda_silu(float x)
{
	return cuda_divide(x, 1 + cuda_exp(-x));
}

CUDA_THREAD float cuda_sigmoid(float x)
{
	return cuda_inverse(1 + cuda_exp(-x));
}

/* What NaN passes. */
CUDA_THREAD float cuda_at_most(float x, float limit)
{
	return x > limit ? limit : x;
}
CUDA_THREAD float cuda_within(float x, float limit)
{
	const float above = cuda_at_most(x, limit);
	return above < -limit ? -limit : above;
}

CUDA_THREAD float cuda_gelu(float x)
{
	return cuda_divide(x, 1 + cuda_exp(x * cuda_fma(GELU_CUBE, x * x, GELU_LINE)));
}

CUDA_THREAD float cuda_swiglu_clamped(float gate, float up, float alpha, float limit)
{
	const float g = cuda_at_most(gate, limit), u = cuda_within(up, limit);
	return (u + 1) * cuda_divide(g, 1 + cuda_exp(g * -alpha));
}

/* Of NaN, NaN. */
CUDA_THREAD float cuda_relu_squared(float x)
{
	const float positive = 0 > x ? 0 : x;

	return positive * positive;
}

/* A pair of a head by its angle. */
CUDA_THREAD void cuda_rotate_pair(float *first, float *second, float cos, float sin)
{
	const float a = *first, b = *second;

	*first = cuda_fma(a, cos, -(b * sin));
	*second = cuda_fma(b, cos, a * sin);
}

enum { CUDA_LANES = 16 };

/* The tree that ends a sum in dot order; thread l of a warp has lane l % 16. */
CUDA_THREAD float cuda_sum_lanes(float lane)
{
	CUDA_UNROLL
	for (uint32_t h = CUDA_LANES / 2; h > 0; h /= 2)
		lane += cuda_swap_float(lane, h);
	return lane;
}

CUDA_THREAD float cuda_norm_scale(float squares, uint32_t n, float eps)
{
	return cuda_inverse(cuda_root(cuda_divide(squares, (float)n) + eps));
}

CUDA_THREAD float cuda_l2norm_factor(float squares, float eps, float scale)
{
	return cuda_infinite(squares) ? cuda_nan() : cuda_divide(scale, cuda_root(squares + eps));
}

/* The sum of the squares of n numbers in dot order, by a warp. Numbers are read some
 * steps before they are added. */
CUDA_THREAD float cuda_squares(const float *x, uint32_t n)
{
	enum { AHEAD = 16 };
	uint32_t i = cuda_thread() % CUDA_LANES;
	float lane = 0;

	CUDA_ROLLED
	for (; i + AHEAD * CUDA_LANES <= n; i += AHEAD * CUDA_LANES) {
		float some[AHEAD];
		CUDA_UNROLL
		for (uint32_t k = 0; k < AHEAD; k++)
			some[k] = x[i + k * CUDA_LANES];
		CUDA_UNROLL
		for (uint32_t k = 0; k < AHEAD; k++)
			lane = cuda_fma(some[k], some[k], lane);
	}
	CUDA_ROLLED
	for (; i < n; i += CUDA_LANES)
		lane = cuda_fma(x[i], x[i], lane);
	return cuda_sum_lanes(lane);
}

/* ---- the same sum, of numbers that lie in shared memory by lanes ---- */

/* Numbers of a lane that are together: some zeros follow those of the row, since they are added 32 at a time; four more
 * let 8 lanes be read at once. Half of 32 are read ahead, beyond the last lane for nothing. */
enum { CUDA_LANE_STEP = 32, CUDA_LANE_AHEAD = CUDA_LANE_STEP / 2 };
CUDA_THREAD uint32_t cuda_lane_numbers(uint32_t n)
{
	return (n + CUDA_LANES * CUDA_LANE_STEP - 1) / (CUDA_LANES * CUDA_LANE_STEP) * CUDA_LANE_STEP;
}
CUDA_THREAD uint32_t cuda_lane_room(uint32_t n)
{
	return cuda_lane_numbers(n) + 4;
}
CUDA_THREAD uint32_t cuda_lanes_room(uint32_t n)
{
	return CUDA_LANES * cuda_lane_room(n) + CUDA_LANE_AHEAD;
}

CUDA_THREAD void cuda_load_lane(struct cuda_four to[CUDA_LANE_AHEAD / 4], const float *from)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_LANE_AHEAD / 4; i++)
		to[i] = cuda_four_of(from + 4 * i);
}
CUDA_THREAD float cuda_add_squares(float lane, const struct cuda_four x[CUDA_LANE_AHEAD / 4])
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_LANE_AHEAD; i++)
		lane = cuda_fma(x[i / 4].f[i % 4], x[i / 4].f[i % 4], lane);
	return lane;
}

/* The sum of the squares of a row in dot order, by a warp. */
CUDA_THREAD float cuda_lane_squares(const float *lanes, uint32_t n)
{
	const float *x = lanes + cuda_thread() % CUDA_LANES * cuda_lane_room(n);
	struct cuda_four first[CUDA_LANE_AHEAD / 4], second[CUDA_LANE_AHEAD / 4];
	float lane = 0;

	cuda_load_lane(first, x);
	CUDA_ROLLED
	for (uint32_t i = cuda_lane_numbers(n); i > 0; i -= CUDA_LANE_STEP, x += CUDA_LANE_STEP) {
		cuda_load_lane(second, x + CUDA_LANE_AHEAD);
		lane = cuda_add_squares(lane, first);
		cuda_load_lane(first, x + CUDA_LANE_STEP);
		lane = cuda_add_squares(lane, second);
	}
	return cuda_sum_lanes(lane);
}

enum { CUDA_HEAD = 128, CUDA_HEAD_EACH = CUDA_HEAD / CUDA_WARP };

/* The sum of squares of 128 numbers in dot order; a thread has x[l + 32 e]. Lanes 16 farther have every
 * other number of a lane. */
CUDA_THREAD float cuda_head_squares(const float x[CUDA_HEAD_EACH])
{
	const bool upper = cuda_thread() % CUDA_WARP >= CUDA_LANES;
	float other[CUDA_HEAD_EACH], lane = 0;

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++)
		other[e] = cuda_swap_float(x[e], CUDA_LANES);
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++) {
		const float first = upper ? other[e] : x[e], second = upper ? x[e] : other[e];
		lane = cuda_fma(first, first, lane);
		lane = cuda_fma(second, second, lane);
	}
	return cuda_sum_lanes(lane);
}

/* The larger one, the first of equals: what a loop over both would keep. NaNs are taken out
 * before. */
CUDA_THREAD float cuda_larger(float first, float second)
{
	return second > first ? second : first;
}

/* The largest number of a warp, in the order of its threads. */
CUDA_THREAD float cuda_largest_number(float v, uint32_t lane)
{
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
		const float other = cuda_swap_float(v, h);
		v = lane & h ? cuda_larger(other, v) : cuda_larger(v, other);
	}
	return v;
}
CUDA_THREAD float cuda_number(float v)
{
	return v == v ? v : cuda_minus_infinity();
}

/* A whole number that is larger the larger the float is: NaN is below all numbers, and zeros are equal. */
CUDA_THREAD uint32_t cuda_key(float f)
{
	const uint32_t bits = cuda_bits(f + 0.0F);

	return f != f ? 0 : bits >> 31 ? ~bits : bits | 1U << 31;
}
/* The number of a key, -infinity for NaN's. */
CUDA_THREAD float cuda_number_of_key(uint32_t key)
{
	return key == 0 ? cuda_minus_infinity() : cuda_float(key >> 31 ? key & 0x7fffffff : ~key);
}

#endif
