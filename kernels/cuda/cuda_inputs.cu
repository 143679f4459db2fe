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
CUDA_KERNEL_TWICE(512) cuda_norm_inputs(struct cuda_norm_inputs p)
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

/* ---- norms of few rows: a block of threads has a group ----
 *
 * All blocks of a row load all of it and find its scale, so that none waits for another. */

/* Adds to y the weighted outputs of `count` experts, a constant: all are loaded before one is added. */
CUDA_THREAD void cuda_add_together(struct cuda_numbers *y, const float *weights, const float *outputs, uint32_t n,
				   uint32_t count)
{
	struct cuda_numbers output[8];
	float weight[8];

	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++, outputs += n) {
		weight[i] = weights[i];
		output[i] = cuda_numbers_at(outputs);
	}
	cuda_warp_barrier(); /* keeps compilers from loading some later, to save registers */
	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++) {
		CUDA_UNROLL
		for (uint32_t j = 0; j < 4; j++)
			y->f[j] = cuda_fma(weight[i], output[i].f[j], y->f[j]);
	}
}

/* Those of a row's experts, which are in order, and of the shared one, at the columns from d on. */
CUDA_THREAD void cuda_add_ordered(struct cuda_numbers *y, const struct cuda_expert_sum *p, size_t row, uint32_t n,
				  uint32_t d)
{
	const float *weights = p->weight + row * p->top_k, *outputs = p->outputs + row * p->top_k * n + d;
	const float *end = weights + p->top_k;

	CUDA_ROLLED
	for (; end - weights >= 8; weights += 8, outputs += 8 * (size_t)n)
		cuda_add_together(y, weights, outputs, n, 8);
	CUDA_ROLLED
	for (; end - weights >= 2; weights += 2, outputs += 2 * (size_t)n)
		cuda_add_together(y, weights, outputs, n, 2);
	if (weights < end)
		cuda_add_together(y, weights, outputs, n, 1);
	if (!p->shared)
		return;
	const struct cuda_numbers shared = cuda_numbers_at(p->shared + row * n + d);
	const float weight = p->gate ? cuda_sigmoid(p->gate[row]) : 1;
	CUDA_UNROLL
	for (uint32_t j = 0; j < 4; j++)
		y->f[j] = cuda_fma(weight, shared.f[j], y->f[j]);
}

/* Columns of the row before its norm, from d on. */
CUDA_THREAD struct cuda_numbers cuda_norm_numbers(const struct cuda_norm_inputs *p, size_t row, uint32_t d)
{
	struct cuda_numbers x, sum = {{0, 0, 0, 0}};

	x = cuda_numbers_at(p->x + row * p->n + d);
	if (p->added)
		sum = cuda_numbers_at(p->added + row * p->n + d);
	else if (p->experts.top_k)
		cuda_add_ordered(&sum, &p->experts, row, p->n, d);
	else
		return x;
	CUDA_UNROLL
	for (uint32_t j = 0; j < 4; j++)
		x.f[j] += sum.f[j];
	return x;
}

/* The row to shared memory, by lanes of the sum of squares. */
CUDA_THREAD void cuda_norm_gather(const struct cuda_norm_inputs *p, size_t row, float *lanes)
{
	const uint32_t room = cuda_lane_room(p->n), all = cuda_lane_numbers(p->n) * CUDA_LANES;

	CUDA_ROLLED
	for (uint32_t d = cuda_thread() * 4; d < all; d += cuda_threads() * 4) {
		const bool there = d < p->n; /* else the last ones, for nothing */
		const struct cuda_numbers x = cuda_norm_numbers(p, row, there ? d : p->n - 4);
		CUDA_UNROLL
		for (uint32_t j = 0; j < 4; j++)
			lanes[(d % CUDA_LANES + j) * room + d / CUDA_LANES] = there ? x.f[j] : 0;
	}
}

CUDA_KERNEL_OF(512) cuda_norm_few(struct cuda_norm_inputs p)
{
	const uint32_t g = cuda_block_y(), d = g * CUDA_GROUP + cuda_thread(), room = cuda_lane_room(p.n);
	float *lanes = cuda_shared(), *columns = lanes + CUDA_LANES * room + 4;
	const size_t row = cuda_block_x(), at = row * p.n + d;
	const bool own = cuda_thread() < CUDA_GROUP && d < p.n;
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	const struct cuda_column column = cuda_column_of(&to, &p.signs, row, g, p.n);
	const float w = own ? p.w[d] : 0;
	float y = 0;

	cuda_wait_for_ahead();
	cuda_norm_gather(&p, row, lanes);
	cuda_barrier();
	if (cuda_thread() < CUDA_GROUP) {
		const float x = own ? lanes[d % CUDA_LANES * room + d / CUDA_LANES] : 0;
		if (own)
			p.to[at] = x;
		y = x * cuda_norm_scale(cuda_lane_squares(lanes, p.n), p.n, p.eps) * w;
		if (own && p.y)
			p.y[at] = y;
	}
	if (to.q)
		cuda_put_column(&column, own ? y : 0, columns, d, p.n);
}

/* ---- activations and attention: a block of threads has a group ---- */

CUDA_KERNEL_OF(CUDA_GROUP) cuda_gate_inputs(struct cuda_gate_inputs p)
{
	const uint32_t g = cuda_block_y(), d = g * CUDA_GROUP + cuda_thread();
	const size_t row = cuda_block_x(), at = row * p.k + (d < p.k ? d : p.k - 1);
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	const struct cuda_column column = cuda_column_of(&to, &p.signs, row, g, p.k);

	cuda_wait_for_ahead();
	const float gate = p.gate[at], up = p.up[at], product = cuda_silu(gate) * up;
	cuda_put_column(&column, d < p.k ? product : 0, cuda_shared(), d, p.k);
}

/* ---- spans of one query: each thread has a column of it ---- */

/* How a span is joined to those ahead of it: sum = fma(sum, joined, own), o = fma(o, joined, value · span). In shared
 * memory for CUDA_GROUP spans, and the maxima of these. */
enum { CUDA_JOINED, CUDA_JOINED_SPAN, CUDA_JOINED_OWN };

/* The spans of a row that sees `length` positions, or the last `window` of them. */
CUDA_THREAD uint32_t cuda_spans_seen(uint32_t length, uint32_t window)
{
	return (length - 1) / CUDA_SPAN + 1 - cuda_first_seen(length, window) / CUDA_SPAN;
}

/* Finds that for `count` spans from `part` on, a thread for each; max: of those ahead of them, with them in the end. */
CUDA_THREAD void cuda_weigh_spans(float *max, const float *part, size_t step, uint32_t dim, uint32_t count,
				  float *room)
{
	const uint32_t i = cuda_thread();
	const float *own = part + (i < count ? i : 0) * step;
	const float own_max = own[dim], own_sum = own[dim + 1];
	float *maxima = room + CUDA_GROUP * CUDA_SPAN_NUMBERS, before = *max;

	maxima[i] = own_max;
	cuda_barrier();
	CUDA_UNROLL_4
	for (uint32_t k = 0; k < count; k++) {
		before = k == i ? *max : before;
		*max = maxima[k] > *max ? maxima[k] : *max;
	}
	const float more = own_max - before, e = cuda_exp(-cuda_float(cuda_magnitude(more)));
	const bool larger = more > 0;
	room[i * CUDA_SPAN_NUMBERS + CUDA_JOINED] = larger ? e : 1;
	room[i * CUDA_SPAN_NUMBERS + CUDA_JOINED_SPAN] = larger ? 1 : e;
	room[i * CUDA_SPAN_NUMBERS + CUDA_JOINED_OWN] = own_sum * (larger ? 1 : e);
	cuda_barrier();
}

/* Values of some spans at a column, beyond the last span those of the last. */
CUDA_THREAD void cuda_load_spans(float value[CUDA_SPANS_AHEAD], const float *column, size_t step, uint32_t first,
				 uint32_t spans)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_SPANS_AHEAD; i++)
		value[i] = column[(first + i < spans ? first + i : spans - 1) * step];
}

/* As cuda_joined_spans; all threads of the block call, for columns of the same query. */
CUDA_THREAD float cuda_joined_column(const struct cuda_attention *p, uint32_t query, uint32_t d, uint32_t spans,
				     float *room)
{
	const uint32_t dim = p->head_dim;
	const size_t step = (size_t)p->n * p->heads * cuda_part(dim);
	const float *part = p->parts + query * cuda_part(dim);
	float max = part[dim], sum = part[dim + 1], o = part[d], value[CUDA_SPANS_AHEAD];

	CUDA_ROLLED
	for (uint32_t first = 1; first < spans; first += CUDA_GROUP) {
		const uint32_t count = spans - first < CUDA_GROUP ? spans - first : CUDA_GROUP;
		cuda_load_spans(value, part + d, step, first, spans);
		cuda_weigh_spans(&max, part + first * step, step, dim, count, room);
		CUDA_ROLLED
		for (uint32_t k = 0; k < count; k += CUDA_SPANS_AHEAD) {
			CUDA_UNROLL
			for (uint32_t i = 0; i < CUDA_SPANS_AHEAD; i++) {
				const struct cuda_numbers w =
					cuda_numbers_at(room + (k + i) * CUDA_SPAN_NUMBERS);
				if (k + i >= count)
					continue;
				sum = cuda_fma(sum, w.f[CUDA_JOINED], w.f[CUDA_JOINED_OWN]);
				o = cuda_fma(o, w.f[CUDA_JOINED], value[i] * w.f[CUDA_JOINED_SPAN]);
			}
			cuda_load_spans(value, part + d, step, first + k + CUDA_SPANS_AHEAD, spans);
		}
	}
	return cuda_divide(o, sum);
}

CUDA_KERNEL_OF(CUDA_GROUP) cuda_join_inputs(struct cuda_join_inputs p)
{
	const struct cuda_attention *a = &p.attention;
	const uint32_t width = a->heads * a->head_dim;
	const uint32_t row = cuda_block_x(), g = cuda_block_y(), d = g * CUDA_GROUP + cuda_thread();
	const uint32_t query = row * a->heads + d / a->head_dim, of_query = d % a->head_dim;
	const uint32_t spans = cuda_spans_seen(a->rows[row].position + 1, a->window);
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	const struct cuda_column column = cuda_column_of(&to, &p.signs, row, g, width);
	float *room = cuda_shared(), y = 0;

	cuda_wait_for_ahead();
	if (a->head_dim % CUDA_GROUP == 0)
		y = cuda_joined_column(a, query, of_query, spans, room);
	else if (d < width)
		cuda_joined_spans(&y, 1, a, query, of_query);
	cuda_put_column(&column, y, room + CUDA_GROUP * (CUDA_SPAN_NUMBERS + 1), d, width);
}
