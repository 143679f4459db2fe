/* Inputs in 8 bits, as of cuda_inputs.cu, of few rows: a block of threads has a group, each thread one column. So a
 * thread has few instructions; of many rows they would be more than others need, in all. */
#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_rounding.h"

/* ---- norms ----
 *
 * All blocks of a row load all of it and find its scale, so that none waits for another. */

/* Adds to y the weighted outputs of `count` experts, a constant: all are loaded before one is added. */
CUDA_THREAD void cuda_add_together(struct cuda_four *y, const float *weights, const float *outputs, uint32_t n,
				   uint32_t count)
{
	struct cuda_four output[8];
	float weight[8];

	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++, outputs += n) {
		weight[i] = weights[i];
		output[i] = cuda_four_of(outputs);
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
CUDA_THREAD void cuda_add_ordered(struct cuda_four *y, const struct cuda_expert_sum *p, size_t row, uint32_t n,
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
	const struct cuda_four shared = cuda_four_of(p->shared + row * n + d);
	const float weight = p->gate ? cuda_sigmoid(p->gate[row]) : 1;
	CUDA_UNROLL
	for (uint32_t j = 0; j < 4; j++)
		y->f[j] = cuda_fma(weight, shared.f[j], y->f[j]);
}

/* What a thread loads of a row first, and where that goes: all is found before the kernel ahead has ended. */
struct cuda_norm_source {
	const float *x, *added;
	float *lanes;
	uint32_t d;
};
CUDA_THREAD struct cuda_norm_source cuda_norm_source_of(const struct cuda_norm_inputs *p, size_t row, float *lanes)
{
	const uint32_t d = cuda_thread() * 4;
	const struct cuda_norm_source l = {
		p->x + row * p->n, p->added ? p->added + row * p->n : NULL,
		lanes + d % CUDA_LANES * cuda_lane_room(p->n) + d / CUDA_LANES, d};
	return l;
}

/* Columns of the row before its norm, from d on. */
CUDA_THREAD struct cuda_four cuda_norm_numbers(const struct cuda_norm_inputs *p, const struct cuda_norm_source *l,
						  size_t row, uint32_t d)
{
	struct cuda_four x = cuda_four_of(l->x + d), sum = {{0, 0, 0, 0}};

	if (l->added)
		sum = cuda_four_of(l->added + d);
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
CUDA_THREAD void cuda_norm_gather(const struct cuda_norm_inputs *p, struct cuda_norm_source l, size_t row)
{
	const uint32_t room = cuda_lane_room(p->n), all = cuda_lane_numbers(p->n) * CUDA_LANES;
	const uint32_t step = cuda_threads() * 4;

	CUDA_ROLLED
	for (; l.d < all; l.d += step, l.lanes += step / CUDA_LANES) {
		const bool there = l.d < p->n; /* else the last ones, for nothing */
		const struct cuda_four x = cuda_norm_numbers(p, &l, row, there ? l.d : p->n - 4);
		CUDA_UNROLL
		for (uint32_t j = 0; j < 4; j++)
			l.lanes[j * room] = there ? x.f[j] : 0;
	}
}

/* A group of the row to memory, by the block's last threads: the first ones have the codes to do. */
CUDA_THREAD void cuda_norm_keep(const struct cuda_norm_inputs *p, const float *lanes, size_t row, uint32_t g)
{
	const uint32_t others = cuda_threads() - CUDA_GROUP, d = g * CUDA_GROUP + cuda_thread() - others;

	if (cuda_thread() >= others && d < p->n)
		p->to[row * p->n + d] =
			lanes[d % CUDA_LANES * cuda_lane_room(p->n) + d / CUDA_LANES];
}

CUDA_KERNEL_OF(512) cuda_norm_few(struct cuda_norm_inputs p)
{
	float *lanes = cuda_shared(), *columns = lanes + cuda_lanes_room(p.n);
	const uint32_t g = cuda_block_y(), d = g * CUDA_GROUP + cuda_thread();
	const size_t row = cuda_block_x();
	const bool own = cuda_thread() < CUDA_GROUP && d < p.n;
	const float *x = lanes + d % CUDA_LANES * cuda_lane_room(p.n) + d / CUDA_LANES;
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	const struct cuda_column column = cuda_column_of(&to, &p.signs, row, g, p.n);
	const struct cuda_norm_source from = cuda_norm_source_of(&p, row, lanes);
	const float w = own ? p.w[d] : 0;
	float y = 0;

	cuda_wait_for_ahead();
	cuda_norm_gather(&p, from, row);
	cuda_barrier();
	if (cuda_thread() < CUDA_GROUP) {
		const float scale = cuda_norm_scale(cuda_lane_squares(lanes, p.n), p.n, p.eps);
		if (own)
			y = *x * scale * w;
		if (own && p.y)
			p.y[row * p.n + d] = y;
	}
	if (to.q)
		cuda_put_column(&column, y, columns, d, p.n);
	cuda_norm_keep(&p, lanes, row, g);
}

/* ---- activations ---- */

CUDA_KERNEL_OF(CUDA_GROUP) cuda_gate_few(struct cuda_gate_inputs p)
{
	const uint32_t g = cuda_block_y(), d = g * CUDA_GROUP + cuda_thread();
	const size_t row = cuda_block_x(), at = row * p.k + (d < p.k ? d : p.k - 1);
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	const struct cuda_column column = cuda_column_of(&to, &p.signs, row, g, p.k);

	cuda_wait_for_ahead();
	const float gate = p.gate[at], up = p.up[at], product = cuda_silu(gate) * up;
	cuda_put_column(&column, d < p.k ? product : 0, cuda_shared(), d, p.k);
}

/* ---- attention ---- */

/* How a span is joined to those ahead of it: sum = fma(sum, joined, own), o = fma(o, joined, value · span). In shared
 * memory for CUDA_GROUP spans, and the maxima of these. */
enum { CUDA_JOINED, CUDA_JOINED_SPAN, CUDA_JOINED_OWN };

/* The spans of a row that sees `length` positions, or the last `window` of them. */
CUDA_THREAD uint32_t cuda_spans_seen(uint32_t length, uint32_t window)
{
	return (length - 1) / CUDA_SPAN + 1 - cuda_first_seen(length, window) / CUDA_SPAN;
}

/* Finds that for `count` spans from `part` on, a thread for each, by the `together` threads that have the query.
 * max: of the spans ahead of these, and in the end with these. */
CUDA_THREAD void cuda_weigh_spans(float *max, const float *part, size_t step, uint32_t dim, uint32_t count,
				  uint32_t together, float *room)
{
	const uint32_t i = cuda_thread() % together;
	const float *own = part + (i < count ? i : 0) * step;
	const float own_max = own[dim], own_sum = own[dim + 1];
	float *maxima = room + together * CUDA_SPAN_NUMBERS, before = *max;

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
	cuda_warp_barrier(); /* keeps compilers from loading some later, to save registers */
}

/* As cuda_joined_spans, by all threads of the block, of which `together` have columns of the same query. */
CUDA_THREAD float cuda_joined_column(const struct cuda_attention *p, uint32_t query, uint32_t d, uint32_t spans,
				     uint32_t together, float *room)
{
	const uint32_t dim = p->head_dim;
	const size_t step = (size_t)p->n * p->heads * cuda_part(dim);
	const float *part = p->parts + query * cuda_part(dim);
	float max = part[dim], sum = part[dim + 1], o = part[d];
	float value[CUDA_SPANS_AHEAD];

	room += cuda_thread() / together * together * (CUDA_SPAN_NUMBERS + 1);
	CUDA_ROLLED
	for (uint32_t first = 1; first < spans; first += together) {
		const uint32_t count = spans - first < together ? spans - first : together;
		cuda_load_spans(value, part + d, step, first, spans);
		cuda_weigh_spans(&max, part + first * step, step, dim, count, together, room);
		CUDA_ROLLED
		for (uint32_t k = 0; k < count; k += CUDA_SPANS_AHEAD) {
			CUDA_UNROLL
			for (uint32_t i = 0; i < CUDA_SPANS_AHEAD; i++) {
				const struct cuda_four w =
					cuda_four_of(room + (k + i) * CUDA_SPAN_NUMBERS);
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

/* Threads of a block that have columns of the same query, if all queries have as many; else 0. */
CUDA_THREAD uint32_t cuda_together_of(uint32_t dim)
{
	if (dim % CUDA_GROUP == 0)
		return CUDA_GROUP;
	return dim % CUDA_WARP == 0 && CUDA_GROUP % dim == 0 ? dim : 0;
}

CUDA_KERNEL_OF(CUDA_GROUP) cuda_join_few(struct cuda_join_inputs p)
{
	const struct cuda_attention *a = &p.attention;
	const uint32_t width = a->heads * a->head_dim, together = cuda_together_of(a->head_dim);
	const uint32_t row = cuda_block_x(), g = cuda_block_y(), d = g * CUDA_GROUP + cuda_thread();
	const uint32_t last = d < width ? d : width - 1; /* beyond the row for nothing */
	const uint32_t query = row * a->heads + last / a->head_dim, of_query = last % a->head_dim;
	const uint32_t spans = cuda_spans_seen(a->rows[row].position + 1, a->window);
	const struct cuda_codes to = {p.q, p.scale, p.sum};
	const struct cuda_column column = cuda_column_of(&to, &p.signs, row, g, width);
	float *room = cuda_shared(), y = 0;

	cuda_wait_for_ahead();
	const float gate = p.gate ? p.gate[(size_t)query * p.gate_step + of_query] : 0;
	if (together)
		y = cuda_joined_column(a, query, of_query, spans, together, room);
	else
		cuda_joined_spans(&y, 1, a, query, of_query);
	if (p.gate)
		y *= cuda_sigmoid(gate);
	cuda_put_column(&column, d < width ? y : 0, room + CUDA_GROUP * (CUDA_SPAN_NUMBERS + 1), d, width);
}
