/* Inputs in 8 bits. */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_rounding.h"

enum { PREPARE_WARPS = 4, PREPARE_EACH = 4 };

/* A warp has a group; thread l has its elements l, l + 32, l + 64 and l + 96. */
CUDA_THREAD void cuda_rotate_warp(float y[PREPARE_EACH], const struct cuda_signs *signs,
				  uint32_t lane)
{
	CUDA_UNROLL
	for (uint32_t e = 0; e < PREPARE_EACH; e++)
		y[e] = cuda_signed(y[e], signs->first[e], lane);
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
		CUDA_UNROLL
		for (uint32_t e = 0; e < PREPARE_EACH; e++)
			y[e] = cuda_butterfly(y[e], cuda_swap_float(y[e], h), lane & h);
	}
	CUDA_UNROLL
	for (uint32_t h = 1; h < PREPARE_EACH; h *= 2) {
		CUDA_UNROLL
		for (uint32_t e = 0; e < PREPARE_EACH; e++) {
			const float a = y[e];
			if (e & h)
				continue;
			y[e] = cuda_butterfly(a, y[e + h], false);
			y[e + h] = cuda_butterfly(y[e + h], a, true);
		}
	}
	CUDA_UNROLL
	for (uint32_t e = 0; e < PREPARE_EACH; e++)
		y[e] = cuda_signed(cuda_divide(y[e], CUDA_SQRT_GROUP), signs->second[e], lane);
}

/* The largest of a warp's numbers. */
CUDA_THREAD uint32_t cuda_largest(uint32_t u)
{
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
		const uint32_t other = cuda_swap(u, h);
		u = other > u ? other : u;
	}
	return u;
}

CUDA_KERNEL cuda_tq_prepare(struct cuda_prepare p)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, groups = (p.k + 127) / 128;
	const uint32_t item = cuda_block_x() * PREPARE_WARPS + cuda_thread() / CUDA_WARP;
	const uint32_t row = item / groups, group = item % groups;
	uint32_t largest = 0;
	float y[PREPARE_EACH];

	if (row >= p.n)
		return;
	CUDA_UNROLL
	for (uint32_t e = 0; e < PREPARE_EACH; e++) {
		const uint32_t at = group * 128 + e * CUDA_WARP + lane;
		y[e] = at < p.k ? p.x[(size_t)row * p.k + at] : 0;
	}
	cuda_rotate_warp(y, &p.signs, lane);
	CUDA_UNROLL
	for (uint32_t e = 0; e < PREPARE_EACH; e++)
		largest = cuda_magnitude(y[e]) > largest ? cuda_magnitude(y[e]) : largest;
	largest = cuda_largest(largest);
	CUDA_UNROLL
	for (uint32_t e = 0; e < PREPARE_EACH; e++)
		p.q[(size_t)item * 128 + e * CUDA_WARP + lane] = cuda_input_code(y[e], largest);
	if (lane == 0)
		p.scale[item] = cuda_input_scale(largest);
}

CUDA_KERNEL cuda_block_prepare(struct cuda_prepare p)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const size_t item = (size_t)cuda_block_x() * PREPARE_WARPS + cuda_thread() / CUDA_WARP;

	if (item >= (size_t)p.n * (p.k / CUDA_WARP))
		return;
	const float x = p.x[item * CUDA_WARP + lane];
	const uint32_t largest = cuda_largest(cuda_magnitude(x));
	const int8_t code = cuda_input_code(x, largest);
	int32_t sum = code;
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP / 2; h *= 2)
		sum += (int32_t)cuda_swap((uint32_t)sum, h);
	p.q[item * CUDA_WARP + lane] = code;
	if (lane % 16 == 0)
		p.sum[item * 2 + lane / 16] = (int16_t)sum;
	if (lane == 0)
		p.scale[item] = cuda_input_scale(largest);
}
