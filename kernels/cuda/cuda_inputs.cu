/* Inputs in 8 bits of what is computed right before: a norm, a gated activation, the output of attention.
 * Each value is rounded as by the kernels that do one thing. */
#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_rounding.h"

/* ---- norms: a block of threads has a row ---- */

/* In shared memory: a row, the weights of its norm, its scale, and its experts in ascending order. */
struct cuda_norm_row {
	float *x, *w, *scale;
	uint32_t *expert; /* [top_k]: places in `chosen` */
};

CUDA_THREAD struct cuda_norm_row cuda_norm_row_of(uint32_t n)
{
	struct cuda_norm_row r;

	r.x = cuda_shared();
	r.w = r.x + n;
	r.scale = r.w + n;
	r.expert = (uint32_t *)(void *)(r.scale + 1);
	return r;
}

CUDA_THREAD void cuda_order_experts(const struct cuda_expert_sum *p, size_t row, uint32_t *expert)
{
	const uint32_t i = cuda_thread(), *chosen = p->chosen + row * p->top_k;
	uint32_t rank = 0;

	if (i < p->top_k) {
		CUDA_UNROLL_8
		for (uint32_t k = 0; k < p->top_k; k++)
			rank += chosen[k] < chosen[i];
		expert[rank] = i;
	}
	cuda_barrier();
}

/* Adds to y[e] the weighted outputs of a row's experts at the columns d + 32 e: some experts at once, all
 * of whose outputs are loaded before one is added. A column that is not there is the last one. */
CUDA_THREAD void cuda_add_experts(float y[CUDA_EACH], const struct cuda_expert_sum *p,
				  const uint32_t *expert, size_t row, uint32_t n, uint32_t d)
{
	enum { AHEAD = 8 };

	CUDA_ROLLED
	for (uint32_t first = 0; first < p->top_k; first += AHEAD) {
		float weight[AHEAD], output[AHEAD][CUDA_EACH];
		CUDA_UNROLL
		for (uint32_t i = 0; i < AHEAD; i++) {
			const uint32_t k = first + i < p->top_k ? first + i : p->top_k - 1;
			const size_t at = row * p->top_k + (p->chosen ? expert[k] : k);
			weight[i] = p->weight[at];
			CUDA_UNROLL
			for (uint32_t e = 0; e < CUDA_EACH; e++) {
				const uint32_t column = d + e * CUDA_WARP < n ? d + e * CUDA_WARP : n - 1;
				output[i][e] = p->outputs[at * n + column];
			}
		}
		CUDA_UNROLL
		for (uint32_t i = 0; i < AHEAD; i++) {
			CUDA_UNROLL
			for (uint32_t e = 0; e < CUDA_EACH; e++)
				y[e] = first + i < p->top_k ? cuda_fma(weight[i], output[i][e], y[e])
							    : y[e];
		}
	}
}

/* Adds the shared expert's outputs in the same way. */
CUDA_THREAD void cuda_add_shared(float y[CUDA_EACH], const struct cuda_expert_sum *p, size_t row, uint32_t n,
				 uint32_t d)
{
	const float weight = p->gate ? cuda_sigmoid(p->gate[row]) : 1;

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t column = d + e * CUDA_WARP < n ? d + e * CUDA_WARP : n - 1;
		y[e] = cuda_fma(weight, p->shared[row * n + column], y[e]);
	}
}

/* A group of the row before its norm. */
CUDA_THREAD void cuda_norm_load(const struct cuda_norm_inputs *p, const struct cuda_norm_row *r,
				size_t row, uint32_t g)
{
	const uint32_t first = g * CUDA_GROUP + cuda_thread() % CUDA_WARP;
	float x[CUDA_EACH], w[CUDA_EACH], added[CUDA_EACH], sum[CUDA_EACH] = {0, 0, 0, 0};

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		/* beyond the row: nothing, for another thread writes the last column of x */
		const uint32_t d = first + e * CUDA_WARP;
		const bool there = d < p->n;
		x[e] = there ? p->x[row * p->n + d] : 0;
		w[e] = there ? p->w[d] : 0;
		added[e] = there && p->added ? p->added[row * p->n + d] : 0;
	}
	if (p->experts.top_k)
		cuda_add_experts(sum, &p->experts, r->expert, row, p->n, first);
	if (p->experts.shared)
		cuda_add_shared(sum, &p->experts, row, p->n, first);
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t d = first + e * CUDA_WARP;
		x[e] = p->added ? x[e] + added[e] : x[e];
		x[e] = p->experts.top_k ? x[e] + sum[e] : x[e];
		if (d >= p->n)
			continue;
		r->x[d] = x[e];
		r->w[d] = w[e];
		p->to[row * p->n + d] = x[e];
	}
}

/* A group of the norm, and its inputs. */
CUDA_THREAD void cuda_norm_group(const struct cuda_norm_inputs *p, const struct cuda_norm_row *r,
				 size_t row, uint32_t g)
{
	const float scale = *r->scale;
	float y[CUDA_EACH];

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t d = g * CUDA_GROUP + e * CUDA_WARP + cuda_thread() % CUDA_WARP;
		y[e] = d < p->n ? r->x[d] * scale * r->w[d] : 0;
		if (p->y && d < p->n)
			p->y[row * p->n + d] = y[e];
	}
	const struct cuda_codes to = {p->q, p->scale, p->sum};
	if (to.q)
		cuda_put_codes(&to, y, &p->signs, row, g, p->n);
}

/* A warp has some groups. A row's sum of squares has 16 lanes, so no more threads can share it. */
CUDA_KERNEL_OF_TWO(512) cuda_norm_inputs(struct cuda_norm_inputs p)
{
	const struct cuda_norm_row r = cuda_norm_row_of(p.n);
	const size_t row = cuda_block_x();
	const uint32_t groups = cuda_groups_of(p.n), warps = cuda_threads() / CUDA_WARP;
	const uint32_t own = cuda_thread() / CUDA_WARP;

	cuda_wait_for_ahead();
	if (p.experts.top_k && p.experts.chosen)
		cuda_order_experts(&p.experts, row, r.expert);
	CUDA_ROLLED
	for (uint32_t g = own; g < groups; g += warps)
		cuda_norm_load(&p, &r, row, g);
	cuda_barrier();
	if (own == 0) {
		const float squares = cuda_squares(r.x, p.n);
		if (cuda_thread() == 0)
			*r.scale = cuda_norm_scale(squares, p.n, p.eps);
	}
	cuda_barrier();
	CUDA_ROLLED
	for (uint32_t g = own; g < groups; g += warps)
		cuda_norm_group(&p, &r, row, g);
}

/* ---- activations and attention: a warp has a group ---- */

enum { INPUT_WARPS = 4 };

CUDA_KERNEL cuda_gate_inputs(struct cuda_gate_inputs p)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, groups = cuda_groups_of(p.k);
	const uint32_t item = cuda_block_x() * INPUT_WARPS + cuda_thread() / CUDA_WARP;
	const uint32_t row = item / groups, group = item % groups;
	float gate[CUDA_EACH], up[CUDA_EACH], y[CUDA_EACH];

	cuda_wait_for_ahead();
	if (row >= p.n)
		return;
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t d = group * CUDA_GROUP + e * CUDA_WARP + lane;
		const size_t at = (size_t)row * p.k + (d < p.k ? d : p.k - 1);
		gate[e] = p.gate[at];
		up[e] = p.up[at];
	}
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_EACH; e++) {
		const uint32_t d = group * CUDA_GROUP + e * CUDA_WARP + lane;
		const float product = cuda_silu(gate[e]) * up[e];
		y[e] = d < p.k ? product : 0;
	}
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	cuda_put_codes(&to, y, &p.signs, row, group, p.k);
}

CUDA_KERNEL cuda_join_inputs(struct cuda_join_inputs p)
{
	const struct cuda_attention *a = &p.attention;
	const uint32_t width = a->heads * a->head_dim, groups = cuda_groups_of(width);
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const uint32_t item = cuda_block_x() * INPUT_WARPS + cuda_thread() / CUDA_WARP;
	const uint32_t row = item / groups, first = item % groups * CUDA_GROUP;
	float y[CUDA_EACH] = {0, 0, 0, 0};

	cuda_wait_for_ahead();
	if (row >= a->n)
		return;
	if (a->head_dim % CUDA_GROUP == 0) { /* all of one query */
		cuda_joined_spans(y, CUDA_EACH, a, row * a->heads + first / a->head_dim,
				  first % a->head_dim + lane);
	} else {
		for (uint32_t e = 0; e < CUDA_EACH; e++) {
			const uint32_t d = first + e * CUDA_WARP + lane;
			if (d < width)
				cuda_joined_spans(y + e, 1, a, row * a->heads + d / a->head_dim,
						  d % a->head_dim);
		}
	}
	if (p.gate) {
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_EACH; e++) {
			const uint32_t d = first + e * CUDA_WARP + lane, query = row * a->heads + d / a->head_dim;
			if (d < width)
				y[e] *= cuda_sigmoid(p.gate[(size_t)query * p.gate_step + d % a->head_dim]);
		}
	}
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	cuda_put_codes(&to, y, &p.signs, row, item % groups, width);
}
