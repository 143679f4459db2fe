/* Inputs in 8 bits. */
#include "kernels/cuda/cuda_rounding.h"

enum { PREPARE_WARPS = 4 };

CUDA_KERNEL cuda_tq_prepare(struct cuda_prepare p)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, groups = cuda_groups_of(p.k);
	const uint32_t item = cuda_block_x() * PREPARE_WARPS + cuda_thread() / CUDA_WARP;
	const uint32_t row = item / groups, group = item % groups;
	float y[CUDA_EACH];

	cuda_wait_for_ahead();
	if (row >= p.n)
		return;
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t at = group * CUDA_GROUP + e * CUDA_WARP + lane;
		y[e] = at < p.k ? p.x[(size_t)row * p.k + at] : 0;
	}
	cuda_prepare_group(y, &p.signs, p.q + (size_t)item * CUDA_GROUP, p.scale + item);
}

CUDA_KERNEL cuda_block_prepare(struct cuda_prepare p)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const size_t item = (size_t)cuda_block_x() * PREPARE_WARPS + cuda_thread() / CUDA_WARP;

	cuda_wait_for_ahead();
	if (item >= (size_t)p.n * (p.k / CUDA_WARP))
		return;
	cuda_prepare_block(p.x[item * CUDA_WARP + lane], p.q + item * CUDA_WARP, p.scale + item,
			   p.sum + item * 2);
}
