/* Norms, positions, activations, sums. */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_vectors.h"

/* A thread of all of a launch of one dimension. */
CUDA_THREAD size_t cuda_item(void)
{
	return (size_t)cuda_block_x() * cuda_threads() + cuda_thread();
}

/* A block of threads has a row. The sum has 16 lanes, so no more threads can share it. */
CUDA_KERNEL cuda_rmsnorm(struct cuda_norms p)
{
	const float *x = p.x + (size_t)cuda_block_x() * p.n;
	float *y = p.y + (size_t)cuda_block_x() * p.n, *row = cuda_shared(), *scale = row + p.n;

	for (uint32_t i = cuda_thread(); i < p.n; i += cuda_threads())
		row[i] = x[i];
	cuda_barrier();
	if (cuda_thread() < CUDA_WARP) {
		float lane = 0;
		for (uint32_t i = cuda_thread() % CUDA_LANES; i < p.n; i += CUDA_LANES)
			lane = cuda_fma(row[i], row[i], lane);
		lane = cuda_sum_lanes(lane);
		if (cuda_thread() == 0)
			*scale = cuda_norm_scale(lane, p.n, p.eps);
	}
	cuda_barrier();
	for (uint32_t i = cuda_thread(); i < p.n; i += cuda_threads())
		y[i] = row[i] * *scale * p.w[i];
}

CUDA_KERNEL cuda_rope(struct cuda_positions p)
{
	const size_t item = cuda_item(), head = item / p.half;
	const uint32_t i = (uint32_t)(item % p.half);
	const size_t row = head / p.heads;
	float *x = p.x + head * p.head_dim + i;

	if (row < p.rows)
		cuda_rotate_pair(x, x + p.half, p.cos[row * p.half + i], p.sin[row * p.half + i]);
}

CUDA_KERNEL cuda_silu_mul(struct cuda_vectors p)
{
	const size_t i = cuda_item();

	if (i < p.n)
		p.y[i] = cuda_silu(p.y[i]) * p.x[i];
}

CUDA_KERNEL cuda_add(struct cuda_vectors p)
{
	const size_t i = cuda_item();

	if (i < p.n)
		p.y[i] += p.x[i];
}

/* The outputs of a row's experts, weighted and added in ascending order of the experts. */
CUDA_KERNEL cuda_sum_experts(struct cuda_sums p)
{
	const size_t item = cuda_item(), row = item / p.width;
	const uint32_t *chosen = p.chosen + row * p.top_k;
	uint32_t next = 0; /* the least expert that is not yet added */
	float y = 0;

	if (row >= p.rows)
		return;
	for (uint32_t added = 0; added < p.top_k; added++) {
		uint32_t rank = p.top_k;
		for (uint32_t i = 0; i < p.top_k; i++)
			if (chosen[i] >= next && (rank == p.top_k || chosen[i] < chosen[rank]))
				rank = i;
		const size_t at = row * p.top_k + rank;
		y = cuda_fma(p.weight[at], p.x[at * p.width + item % p.width], y);
		next = chosen[rank] + 1;
	}
	p.y[item] = y;
}
