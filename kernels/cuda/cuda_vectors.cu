/* Norms, positions, activations, sums. */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_stored.h"

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

	cuda_wait_for_ahead();
	CUDA_UNROLL_8
	for (uint32_t i = cuda_thread(); i < p.n; i += cuda_threads())
		row[i] = x[i];
	cuda_barrier();
	if (cuda_thread() < CUDA_WARP) {
		const float squares = cuda_squares(row, p.n);
		if (cuda_thread() == 0)
			*scale = cuda_norm_scale(squares, p.n, p.eps);
	}
	cuda_barrier();
	for (uint32_t i = cuda_thread(); i < p.n; i += cuda_threads())
		y[i] = row[i] * *scale * p.w[i];
}

/* A warp has a row. */
CUDA_KERNEL cuda_l2norm(struct cuda_lengths p)
{
	const size_t row = cuda_item() / CUDA_WARP;
	const float *x = p.x + row * p.n;
	float *y = p.y + row * p.n;

	cuda_wait_for_ahead();
	if (row >= p.rows)
		return;
	const float factor = cuda_l2norm_factor(cuda_squares(x, p.n), p.eps, p.scale);
	for (uint32_t i = cuda_thread() % CUDA_WARP; i < p.n; i += CUDA_WARP)
		y[i] = x[i] * factor;
}

CUDA_KERNEL cuda_rope(struct cuda_positions p)
{
	const uint32_t item = (uint32_t)cuda_item(), head = item / p.half, i = item % p.half;
	const size_t row = head / p.heads;
	float *x = p.x + (size_t)head * p.head_dim + i;

	cuda_wait_for_ahead();
	if (row < p.rows)
		cuda_rotate_pair(x, x + p.half, p.cos[row * p.half + i], p.sin[row * p.half + i]);
}

CUDA_KERNEL cuda_silu_mul(struct cuda_vectors p)
{
	const size_t i = cuda_item();

	cuda_wait_for_ahead();
	if (i < p.n)
		p.y[i] = cuda_silu(p.y[i]) * p.x[i];
}

CUDA_KERNEL cuda_add(struct cuda_vectors p)
{
	const size_t i = cuda_item();

	cuda_wait_for_ahead();
	if (i < p.n)
		p.y[i] += p.x[i];
}

CUDA_KERNEL cuda_add_bias(struct cuda_bias p)
{
	const size_t item = cuda_item();

	cuda_wait_for_ahead();
	if (item < (size_t)p.n * p.width)
		p.y[item] += p.bias[item % p.width];
}

CUDA_KERNEL cuda_open_gates(struct cuda_gates p)
{
	const size_t item = cuda_item(), row = item / p.dim;

	cuda_wait_for_ahead();
	if (row < p.n)
		p.y[item] *= cuda_sigmoid(p.gate[row * p.step + item % p.dim]);
}

CUDA_KERNEL cuda_add_scaled(struct cuda_scaled p)
{
	const size_t i = cuda_item();

	cuda_wait_for_ahead();
	if (i < p.n)
		p.y[i] = cuda_fma(p.a, p.x[i], p.y[i]);
}

CUDA_KERNEL cuda_scale(struct cuda_vectors p)
{
	const size_t i = cuda_item();

	cuda_wait_for_ahead();
	if (i < p.n)
		p.y[i] *= p.x[0];
}

CUDA_KERNEL cuda_add_expert_bias(struct cuda_expert_bias p)
{
	const size_t item = cuda_item(), at = item / p.width;

	cuda_wait_for_ahead();
	if (at < p.n && p.chosen[at] < p.experts)
		p.y[item] += p.bias[(size_t)p.chosen[at] * p.width + item % p.width];
}

CUDA_KERNEL cuda_activate(struct cuda_activation p)
{
	const size_t i = cuda_item();

	cuda_wait_for_ahead();
	if (i >= p.n)
		return;
	const float gate = p.gate[i];
	if (p.kind == CUDA_RELU_SQUARED) {
		p.gate[i] = cuda_relu_squared(gate);
		return;
	}
	const float up = p.up[i];
	p.gate[i] = p.kind == CUDA_GELU	     ? cuda_gelu(gate) * up
		    : p.kind == CUDA_CLAMPED ? cuda_swiglu_clamped(gate, up, p.alpha, p.limit)
					     : cuda_silu(cuda_at_most(gate, p.limit)) *
						       cuda_within(up, p.limit);
}

CUDA_KERNEL cuda_gather(struct cuda_gather p)
{
	const size_t item = cuda_item(), row = (uint32_t)item / p.width;

	cuda_wait_for_ahead();
	if (row < p.n)
		p.to[item] = p.from[(size_t)p.rows[row] * p.width + (uint32_t)item % p.width];
}

CUDA_THREAD struct cuda_peak cuda_better(struct cuda_peak a, struct cuda_peak b)
{
	return b.number > a.number || (b.number == a.number && b.at < a.at) ? b : a;
}

/* A thread's numbers, some of which are loaded at once. */
CUDA_THREAD struct cuda_peak cuda_find_own(const struct cuda_search *p)
{
	enum { AT_ONCE = 8 };
	const float *x = p->x + (size_t)cuda_block_y() * p->n;
	const uint32_t step = cuda_blocks_x() * cuda_threads();
	struct cuda_peak best = {cuda_minus_infinity(), 0};

	for (uint32_t first = (uint32_t)cuda_item(); first < p->n; first += AT_ONCE * step) {
		float some[AT_ONCE];
		CUDA_UNROLL
		for (uint32_t i = 0; i < AT_ONCE; i++)
			some[i] = first + i * step < p->n ? x[first + i * step] : cuda_nan();
		CUDA_UNROLL
		for (uint32_t i = 0; i < AT_ONCE; i++) {
			const float number = p->divisor == 1 ? some[i] : cuda_divide(some[i], p->divisor);
			if (number > best.number)
				best = (struct cuda_peak){number, first + i * step};
		}
	}
	return best;
}

CUDA_KERNEL cuda_find_largest(struct cuda_search p)
{
	const uint32_t thread = cuda_thread();
	struct cuda_peak *warps = (struct cuda_peak *)(void *)cuda_shared(), best;

	cuda_wait_for_ahead();
	best = cuda_find_own(&p);
	CUDA_UNROLL
	for (uint32_t h = 1; h < CUDA_WARP; h *= 2)
		best = cuda_better(best, (struct cuda_peak){cuda_swap_float(best.number, h),
							     cuda_swap(best.at, h)});
	if (thread % CUDA_WARP == 0)
		warps[thread / CUDA_WARP] = best;
	cuda_barrier();
	if (thread > 0)
		return;
	for (uint32_t i = 1; i < cuda_threads() / CUDA_WARP; i++)
		best = cuda_better(best, warps[i]);
	p.found[cuda_block_y() * cuda_blocks_x() + cuda_block_x()] = best;
}

CUDA_KERNEL cuda_embed(struct cuda_embedding p)
{
	const size_t item = cuda_item(), row = item / p.width;

	cuda_wait_for_ahead();
	if (row >= p.n)
		return;
	const float x = cuda_stored_number(&p, p.tokens[row], (uint32_t)(item % p.width));
	p.x[item] = p.multiplier != 1 ? x * p.multiplier : x;
}

/* The outputs of a row's experts, weighted and added in ascending order of the experts, one after the other. */
CUDA_THREAD float cuda_sum_in_turn(const struct cuda_sums *p, size_t row, uint32_t column)
{
	const uint32_t *chosen = p->chosen + row * p->top_k;
	uint32_t next = 0; /* the least expert that is not yet added */
	float y = 0;

	for (uint32_t added = 0; added < p->top_k; added++) {
		uint32_t rank = p->top_k, expert = p->experts;
		for (uint32_t i = 0; i < p->top_k; i++)
			if (chosen[i] >= next && chosen[i] < expert) {
				rank = i;
				expert = chosen[i];
			}
		if (rank == p->top_k)
			break;
		const size_t at = row * p->top_k + rank;
		const float *x = p->slots && !p->slots[expert] ? p->other : p->x;
		y = cuda_fma(p->weight[at], x[at * p->width + column], y);
		next = expert + 1;
	}
	return y;
}

/* The same by a warp that has columns of one row: a thread finds the place of one expert, and outputs are loaded
 * eight at a time, since those in main memory take long. */
enum { CUDA_SUMMED = 8 };
CUDA_THREAD float cuda_sum_by_warp(const struct cuda_sums *p, size_t row, uint32_t column)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, n = p->top_k;
	const size_t first = row * n;
	const uint32_t own = lane < n ? p->chosen[first + lane] : UINT32_MAX;
	const bool there = own < p->experts;
	const uint32_t weight = cuda_bits(there ? p->weight[first + lane] : 0),
		       here = there && !(p->slots && !p->slots[own]);
	uint32_t place = 0, all = 0, at = 0; /* at: where the expert is whose place is the thread's */
	float y = 0;

	CUDA_UNROLL_8
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t other = cuda_from_lane(own, i);
		place += other < own;
		all += other < p->experts;
	}
	CUDA_UNROLL_8
	for (uint32_t i = 0; i < n; i++)
		at = cuda_from_lane(place, i) == lane ? i : at;
	for (uint32_t added = 0; added < all; added += CUDA_SUMMED) {
		float weights[CUDA_SUMMED], outputs[CUDA_SUMMED];
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_SUMMED; i++) {
			const uint32_t rank = cuda_from_lane(at, added + i);
			const float *x = cuda_from_lane(here, rank) ? p->x : p->other;
			weights[i] = cuda_float(cuda_from_lane(weight, rank));
			outputs[i] = added + i < all ? x[(first + rank) * p->width + column] : 0;
		}
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_SUMMED; i++)
			y = added + i < all ? cuda_fma(weights[i], outputs[i], y) : y;
	}
	return y;
}

/* The sum of a row's experts; then that of the shared expert. */
CUDA_KERNEL cuda_sum_experts(struct cuda_sums p)
{
	const size_t item = cuda_item(), row = (uint32_t)item / p.width;
	const uint32_t column = (uint32_t)item % p.width;

	cuda_wait_for_ahead();
	if (row >= p.rows)
		return;
	float y = p.width % CUDA_WARP == 0 && p.top_k <= CUDA_WARP ? cuda_sum_by_warp(&p, row, column)
								   : cuda_sum_in_turn(&p, row, column);
	if (p.shared)
		y = cuda_fma(p.gate ? cuda_sigmoid(p.gate[row]) : 1, p.shared[item], y);
	p.y[item] = p.add ? cuda_fma(p.factor, y, p.y[item]) : y;
}
