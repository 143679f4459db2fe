/* Gated delta nets: the convolution and the gates of each row, states moved on by a context's rows, the
 * outputs. A layer's three launches follow each other.
 *
 * A state's matrices are written by cuda_delta_steps alone, once in a step, and each step begins with copies
 * to the card, which all kernels before precede. So its threads load their columns before they wait for the
 * kernel ahead; and those of all three kernels, whose rows are whose.
 *
 * Who writes the rest of a state comes after all who read it: the convolution's last inputs are read by
 * cuda_delta_mix and written by cuda_delta_steps; kept rows are read by both, and written, all but their
 * inputs, by cuda_delta_outputs. */
#include "kernels/cuda/cuda_delta.h"
#include "kernels/cuda/cuda_rounding.h"

enum { DELTA_WARPS = 4 };

/* The context of a row; if there is no such row, none. */
CUDA_THREAD struct cuda_states cuda_delta_context(const struct cuda_delta *p, uint32_t row)
{
	const struct cuda_states none = {NULL, 0, 0, 0, 0};
	return row < p->n ? p->contexts[p->rows[row].context] : none;
}

/* ---- a row before the states ---- */

/* What a warp of cuda_delta_mix has of a row: channels, of a query's or key's head or of values; or the gates
 * of some value heads. */
struct cuda_delta_unit {
	uint32_t row, first, end;
	bool gates, query, norm;
};

CUDA_THREAD struct cuda_delta_unit cuda_delta_unit_of(const struct cuda_delta *p, uint32_t item)
{
	const uint32_t heads = 2 * p->key_heads, keys = 2 * cuda_delta_keys(p);
	const uint32_t channels = cuda_delta_channels(p);
	const uint32_t values = (channels - keys + CUDA_GROUP - 1) / CUDA_GROUP;
	const uint32_t all = heads + values + (p->value_heads + CUDA_WARP - 1) / CUDA_WARP;
	const uint32_t i = item % all;
	struct cuda_delta_unit u = {item / all, 0, 0, i >= heads + values, i < p->key_heads, i < heads};

	u.first = u.gates  ? (i - heads - values) * CUDA_WARP
		  : u.norm ? i * p->key_dim
			   : keys + (i - heads) * CUDA_GROUP;
	u.end = u.gates	 ? p->value_heads
		: u.norm ? u.first + p->key_dim
			 : u.first + CUDA_GROUP;
	u.end = !u.gates && u.end > channels ? channels : u.end;
	return u;
}

CUDA_THREAD void cuda_delta_gates_of(const struct cuda_delta *p, const struct cuda_delta_unit *u)
{
	const uint32_t h = u->first + cuda_thread() % CUDA_WARP;
	const size_t at = (size_t)u->row * p->value_heads + h;

	if (h >= u->end)
		return;
	p->decay[at] = cuda_delta_decay(p->a[at], p->a_log[h], p->dt_bias[h]);
	p->beta[at] = cuda_delta_beta(p->b[at]);
}

/* Channels of a row, x in shared memory. */
CUDA_THREAD void cuda_delta_mix_channels(const struct cuda_delta *p, const struct cuda_delta_unit *u,
					 const struct cuda_states *c, float *x)
{
	const struct cuda_delta_state s = cuda_delta_state_of(p, c);
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	float *mixed = p->mixed + (size_t)u->row * cuda_delta_channels(p), factor = 1;
	const float *taps[CUDA_CONV_WIDTH];

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_CONV_WIDTH; i++)
		taps[i] = i < p->width ? cuda_delta_input(p, c, &s, u->row - c->first, p->width - 1 - i)
				       : NULL;
	CUDA_ROLLED
	for (uint32_t d = u->first + lane; d < u->end; d += CUDA_DELTA_EACH * CUDA_WARP) {
		float y[CUDA_DELTA_EACH];
		cuda_delta_convolve(y, p, taps, d, u->end);
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_DELTA_EACH; e++)
			if (d + e * CUDA_WARP < u->end)
				x[d + e * CUDA_WARP - u->first] = y[e];
	}
	cuda_warp_barrier();
	if (u->norm)
		factor = cuda_l2norm_factor(cuda_squares(x, p->key_dim), p->length_eps,
					    u->query ? p->query_scale : 1);
	CUDA_ROLLED
	for (uint32_t d = u->first + lane; d < u->end; d += CUDA_WARP)
		mixed[d] = u->norm ? x[d - u->first] * factor : x[d - u->first];
}

CUDA_KERNEL cuda_delta_mix(struct cuda_delta p)
{
	const uint32_t warp = cuda_thread() / CUDA_WARP;
	const uint32_t room = p.key_dim > CUDA_GROUP ? p.key_dim : CUDA_GROUP;
	const struct cuda_delta_unit u = cuda_delta_unit_of(&p, cuda_block_x() * DELTA_WARPS + warp);
	const struct cuda_states c = cuda_delta_context(&p, u.row);

	cuda_wait_for_ahead();
	if (u.row >= p.n)
		return;
	if (u.gates)
		cuda_delta_gates_of(&p, &u);
	else
		cuda_delta_mix_channels(&p, &u, &c, cuda_shared() + warp * room);
}

/* ---- states: a warp has 32 columns of a head's matrix, each thread one ---- */

/* Adjacent rows of a context, of the step or kept. */
struct cuda_delta_rows {
	const float *mixed, *decay, *beta;
	size_t stride, gate_stride;
	uint32_t n, commit; /* the state is stored after `commit` rows; 0: never */
	float *out;	    /* NULL: the outputs are known */
};

/* In shared memory: columns[key_dim][32] of the matrix; and of some rows their queries and keys, [key_dim]
 * each, values[32], decay and beta. */
struct cuda_delta_columns {
	float *columns, *rows;
	uint32_t head, key_head, column, row; /* row: floats of a row in `rows` */
	bool there;
};

CUDA_THREAD struct cuda_delta_columns cuda_delta_columns_of(const struct cuda_delta *p)
{
	const uint32_t each = (p->value_dim + CUDA_WARP - 1) / CUDA_WARP;
	struct cuda_delta_columns x;

	x.columns = cuda_shared();
	x.rows = x.columns + (size_t)p->key_dim * CUDA_WARP;
	x.head = cuda_block_x() / each;
	x.key_head = p->tiled ? x.head % p->key_heads : x.head / (p->value_heads / p->key_heads);
	x.column = cuda_block_x() % each * CUDA_WARP + cuda_thread();
	x.row = 2 * p->key_dim + CUDA_WARP + 2;
	x.there = x.column < p->value_dim;
	return x;
}

/* Begins to load this thread's column, which only this thread uses. */
CUDA_THREAD void cuda_delta_load(const struct cuda_delta *p, const struct cuda_delta_columns *x,
				 const struct cuda_delta_state *s)
{
	const float *from = s->matrices + (size_t)x->head * p->key_dim * p->value_dim + x->column;

	CUDA_UNROLL_8
	for (uint32_t i = 0; i < p->key_dim && x->there; i++)
		cuda_copy_number(x->columns + i * CUDA_WARP + cuda_thread(), from + (size_t)i * p->value_dim);
	cuda_copies_end();
}

CUDA_THREAD void cuda_delta_store(const struct cuda_delta *p, const struct cuda_delta_columns *x,
				  const struct cuda_delta_state *s)
{
	float *to = s->matrices + (size_t)x->head * p->key_dim * p->value_dim + x->column;

	CUDA_UNROLL_8
	for (uint32_t i = 0; i < p->key_dim; i++)
		to[(size_t)i * p->value_dim] = x->columns[i * CUDA_WARP + cuda_thread()];
}

/* Rows [first, first + n) into shared memory. */
CUDA_THREAD void cuda_delta_load_rows(const struct cuda_delta *p, const struct cuda_delta_columns *x,
				      const struct cuda_delta_rows *r, uint32_t first, uint32_t n)
{
	const uint32_t dim = p->key_dim, keys = cuda_delta_keys(p), i = cuda_thread();

	cuda_warp_barrier();
	CUDA_ROLLED
	for (uint32_t t = 0; t < n; t++) {
		const float *from = r->mixed + (first + t) * r->stride;
		const size_t gate = (first + t) * r->gate_stride + x->head;
		float *to = x->rows + t * x->row;
		CUDA_UNROLL_4
		for (uint32_t d = i; d < dim; d += CUDA_WARP) {
			cuda_copy_number(to + d, from + x->key_head * dim + d);
			cuda_copy_number(to + dim + d, from + keys + x->key_head * dim + d);
		}
		to += 2 * dim;
		if (x->there)
			cuda_copy_number(to + i, from + 2 * keys + x->head * p->value_dim + x->column);
		if (i == 0)
			cuda_copy_number(to + CUDA_WARP, r->decay + gate);
		if (i == 1)
			cuda_copy_number(to + CUDA_WARP + 1, r->beta + gate);
	}
	cuda_copies_end();
	cuda_copies_wait();
	cuda_warp_barrier();
}

/* Moves a column on by a row, which begins at `row`; returns its output. */
CUDA_THREAD float cuda_delta_step(float *column, const float *row, uint32_t dim)
{
	const float *key = row + dim, *value = key + dim, decay = value[CUDA_WARP];
	float found = 0, out = 0;

	CUDA_UNROLL_8
	for (uint32_t i = 0; i < dim; i++)
		found = cuda_fma(column[i * CUDA_WARP] * decay, key[i], found);
	const float change = (value[cuda_thread()] - found) * value[CUDA_WARP + 1];
	CUDA_UNROLL_8
	for (uint32_t i = 0; i < dim; i++) {
		const float s = cuda_fma(key[i], change, column[i * CUDA_WARP] * decay);
		column[i * CUDA_WARP] = s;
		out = cuda_fma(s, row[i], out);
	}
	return out;
}

CUDA_THREAD void cuda_delta_run(const struct cuda_delta *p, const struct cuda_delta_columns *x,
				const struct cuda_delta_state *s, const struct cuda_delta_rows *r)
{
	const size_t width = (size_t)p->value_heads * p->value_dim;
	const size_t at = (size_t)x->head * p->value_dim + x->column;

	CUDA_ROLLED
	for (uint32_t first = 0, n; first < r->n; first += n) {
		n = r->n - first < p->together ? r->n - first : p->together;
		cuda_delta_load_rows(p, x, r, first, n);
		CUDA_ROLLED
		for (uint32_t t = 0; t < n && x->there; t++) {
			const float out = cuda_delta_step(x->columns + cuda_thread(), x->rows + t * x->row,
							  p->key_dim);
			if (r->out)
				r->out[(first + t) * width + at] = out;
			if (first + t + 1 == r->commit)
				cuda_delta_store(p, x, s);
		}
	}
}

/* The rows that the state is behind. */
CUDA_THREAD struct cuda_delta_rows cuda_delta_behind(const struct cuda_delta *p, const struct cuda_states *c,
						     const struct cuda_delta_state *s)
{
	const float *mixed = s->kept + cuda_delta_channels(p), *decay = mixed + cuda_delta_channels(p);
	const size_t row = cuda_delta_row(p);
	const struct cuda_delta_rows r = {
		mixed, decay, decay + p->value_heads, row, row, c->behind, 0, NULL};
	return r;
}

CUDA_THREAD struct cuda_delta_rows cuda_delta_now(const struct cuda_delta *p, const struct cuda_states *c)
{
	const size_t channels = cuda_delta_channels(p), heads = p->value_heads;
	const struct cuda_delta_rows r = {p->mixed + c->first * channels,
					  p->decay + c->first * heads,
					  p->beta + c->first * heads,
					  channels,
					  heads,
					  c->n,
					  c->certain,
					  p->out + c->first * heads * p->value_dim};
	return r;
}

/* Keeps the last inputs of the convolution by which the state has moved on, and those of the rows that were
 * drafted, in this block's part of the channels. */
CUDA_THREAD void cuda_delta_keep_inputs(const struct cuda_delta *p, const struct cuda_states *c,
					const struct cuda_delta_state *s)
{
	const uint64_t channels = cuda_delta_channels(p), blocks = cuda_blocks_x(), own = cuda_block_x();
	const uint32_t end = (uint32_t)(channels * (own + 1) / blocks), kept = p->width - 1;

	for (uint32_t i = (uint32_t)(channels * own / blocks) + cuda_thread(); i < end; i += CUDA_WARP) {
		for (uint32_t k = 0; k < kept; k++) /* ascending: each is read before it is overwritten */
			s->before[k * channels + i] =
				cuda_delta_input(p, c, s, c->certain - 1, kept - 1 - k)[i];
		for (uint32_t t = c->certain; t < c->n; t++)
			s->kept[(t - c->certain) * cuda_delta_row(p) + i] =
				p->in[(c->first + t) * channels + i];
	}
}

CUDA_KERNEL cuda_delta_steps(struct cuda_delta p)
{
	const struct cuda_states c = p.contexts[cuda_block_y()];

	if (c.n == 0) {
		cuda_wait_for_ahead();
		return;
	}
	const struct cuda_delta_state s = cuda_delta_state_of(&p, &c);
	const struct cuda_delta_columns x = cuda_delta_columns_of(&p);
	const struct cuda_delta_rows behind = cuda_delta_behind(&p, &c, &s), now = cuda_delta_now(&p, &c);
	cuda_delta_load(&p, &x, &s);
	cuda_wait_for_ahead();
	cuda_delta_run(&p, &x, &s, &behind);
	cuda_delta_run(&p, &x, &s, &now);
	cuda_delta_keep_inputs(&p, &c, &s);
}

/* ---- outputs: a warp has a head of a row ---- */

/* Keeps this head's part of a drafted row: the state is behind by it from now on. */
CUDA_THREAD void cuda_delta_keep_draft(const struct cuda_delta *p, const struct cuda_states *c, uint32_t row,
				       uint32_t head)
{
	const uint64_t channels = cuda_delta_channels(p), heads = p->value_heads;
	const uint32_t t = row - c->first, end = (uint32_t)(channels * (head + 1) / heads);

	if (t < c->certain)
		return;
	const struct cuda_delta_state s = cuda_delta_state_of(p, c);
	float *mixed = s.kept + (t - c->certain) * cuda_delta_row(p) + channels, *decay = mixed + channels;
	for (uint32_t i = (uint32_t)(channels * head / heads) + cuda_thread() % CUDA_WARP; i < end;
	     i += CUDA_WARP)
		mixed[i] = p->mixed[row * channels + i];
	if (cuda_thread() % CUDA_WARP == 0) {
		decay[head] = p->decay[row * heads + head];
		decay[heads + head] = p->beta[row * heads + head];
	}
}

/* A head of 128 outputs, in registers. */
CUDA_THREAD void cuda_delta_usual_output(const struct cuda_delta *p, uint32_t item)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const size_t at = (size_t)item * CUDA_HEAD + lane;
	float x[CUDA_HEAD_EACH], gate[CUDA_HEAD_EACH], w[CUDA_HEAD_EACH];

	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++) {
		x[e] = p->out[at + e * CUDA_WARP];
		gate[e] = p->gate[at + e * CUDA_WARP];
		w[e] = p->norm[lane + e * CUDA_WARP];
	}
	const float scale = cuda_norm_scale(cuda_head_squares(x), CUDA_HEAD, p->eps);
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++) {
		x[e] = cuda_silu(gate[e]) * (x[e] * scale * w[e]);
		if (p->y)
			p->y[at + e * CUDA_WARP] = x[e];
	}
	if (!p->y)
		cuda_prepare_group(x, &p->signs, p->q + (size_t)item * CUDA_GROUP, p->scale + item);
}

/* Any head, x in shared memory. */
CUDA_THREAD void cuda_delta_any_output(const struct cuda_delta *p, uint32_t item, float *x)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, dim = p->value_dim;
	const size_t at = (size_t)item * dim;

	for (uint32_t d = lane; d < dim; d += CUDA_WARP)
		x[d] = p->out[at + d];
	cuda_warp_barrier();
	const float scale = cuda_norm_scale(cuda_squares(x, dim), dim, p->eps);
	for (uint32_t d = lane; d < dim; d += CUDA_WARP)
		p->y[at + d] = cuda_silu(p->gate[at + d]) * (x[d] * scale * p->norm[d]);
}

CUDA_KERNEL cuda_delta_outputs(struct cuda_delta p)
{
	const uint32_t warp = cuda_thread() / CUDA_WARP, item = cuda_block_x() * DELTA_WARPS + warp;
	const uint32_t row = item / p.value_heads;
	const struct cuda_states c = cuda_delta_context(&p, row);

	cuda_wait_for_ahead();
	if (row >= p.n)
		return;
	if (p.value_dim == CUDA_HEAD)
		cuda_delta_usual_output(&p, item);
	else
		cuda_delta_any_output(&p, item, cuda_shared() + warp * p.value_dim);
	cuda_delta_keep_draft(&p, &c, row, item % p.value_heads);
}
