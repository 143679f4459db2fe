/* Gated delta nets: the convolution and the gates of each row, states moved on by a context's rows, the
 * outputs. A layer's launches follow each other: two if there are few rows, where the second one also makes the
 * outputs, else three.
 *
 * A state's matrices and the inputs it keeps are written by cuda_delta_steps alone, once in a step, and each step
 * begins with copies to the card, which all kernels before precede. So threads load them before they wait for
 * the kernel ahead; and also whose rows are whose.
 *
 * Who writes the rest of a state, of rows that are kept, comes after all who read it: cuda_delta_outputs, or the
 * last block of a context. */
#include "kernels/cuda/cuda_delta.h"

enum {
	DELTA_WARPS = CUDA_DELTA_THREADS / CUDA_WARP,
	DELTA_MANY = 32, /* rows: blocks of cuda_delta_mix fill all processors several times */
};

/* ---- a row before the states ---- */

/* What a block of cuda_delta_mix has of a row: channels, of a query's or key's head or of values; or the gates
 * of some value heads. */
struct cuda_delta_unit {
	uint32_t row, first, end;
	bool gates, query, norm;
};

CUDA_THREAD struct cuda_delta_unit cuda_delta_unit_of(const struct cuda_delta *p)
{
	const uint32_t threads = cuda_threads(), heads = 2 * p->key_heads, keys = 2 * cuda_delta_keys(p);
	const uint32_t channels = cuda_delta_channels(p), some = threads / 2;
	const uint32_t values = (channels - keys + threads - 1) / threads;
	const uint32_t all = heads + values + (p->value_heads + some - 1) / some;
	const uint32_t row = cuda_block_x() / all, i = cuda_block_x() % all;
	struct cuda_delta_unit u = {row, 0, 0, i >= heads + values, i < p->key_heads, i < heads};

	u.first = u.gates  ? (i - heads - values) * some
		  : u.norm ? i * p->key_dim
			   : keys + (i - heads) * threads;
	u.end = u.gates ? p->value_heads : u.norm ? u.first + p->key_dim : channels;
	return u;
}

/* Of many rows, the blocks of cuda_delta_steps, which take long, would begin on the few processors where these
 * end first. */
CUDA_THREAD void cuda_delta_mix_wait(const struct cuda_delta *p)
{
	if (p->n > DELTA_MANY)
		cuda_wait_alone();
	else
		cuda_wait_for_ahead();
}

/* Half of the threads have the decays of some heads, the others their betas. */
CUDA_THREAD void cuda_delta_gates_of(const struct cuda_delta *p, const struct cuda_delta_unit *u)
{
	const uint32_t some = cuda_threads() / 2, i = cuda_thread(), h = u->first + i % some;
	const size_t at = (size_t)u->row * p->value_heads + h;
	const bool there = h < u->end, decays = there && i < some;
	const double rate = decays ? cuda_delta_exp((double)p->a_log[h]) : 0;
	const float bias = decays ? p->dt_bias[h] : 0;

	cuda_delta_mix_wait(p);
	if (decays && p->counts)
		p->counts[at] = 0;
	if (decays)
		p->decay[at] = cuda_delta_decay(p->a[at], rate, bias);
	else if (there)
		p->beta[at] = cuda_delta_beta(p->b[at]);
}

/* A thread has a channel. Inputs of earlier steps are loaded before those that the kernel ahead writes. */
CUDA_THREAD void cuda_delta_mix_channels(const struct cuda_delta *p, const struct cuda_delta_unit *u)
{
	const uint32_t d = u->first + cuda_thread();
	const bool there = d < u->end;
	struct cuda_delta_taps taps = {0};
	float *x = cuda_shared(), factor = 1;

	if (there)
		cuda_delta_find_taps(&taps, p, u->row, d);
	cuda_delta_mix_wait(p);
	const float y = there ? cuda_delta_convolve(&taps, p) : 0;
	if (u->norm) {
		x[cuda_thread()] = y;
		cuda_barrier();
		factor = cuda_l2norm_factor(cuda_delta_squares(x, p->key_dim), p->length_eps,
					    u->query ? p->query_scale : 1);
	}
	if (there)
		p->mixed[(size_t)u->row * cuda_delta_channels(p) + d] = u->norm ? y * factor : y;
}

CUDA_KERNEL_OF(CUDA_DELTA_DIM) cuda_delta_mix(struct cuda_delta p)
{
	const struct cuda_delta_unit u = cuda_delta_unit_of(&p);

	if (u.gates)
		cuda_delta_gates_of(&p, &u);
	else
		cuda_delta_mix_channels(&p, &u);
}

/* ---- outputs: a block of threads has a head of a row ---- */

/* Keeps this head's part of a drafted row: the state is behind by it from now on. */
CUDA_THREAD void cuda_delta_keep_draft(const struct cuda_delta *p, const struct cuda_states *c, uint32_t row,
				       uint32_t head)
{
	const uint32_t channels = cuda_delta_channels(p), heads = p->value_heads, i = cuda_thread();
	const uint32_t t = row - c->first, each = (channels + heads - 1) / heads;
	const uint32_t end = (head + 1) * each < channels ? (head + 1) * each : channels;

	if (t < c->certain)
		return;
	const struct cuda_delta_state s = cuda_delta_state_of(p, c);
	float *mixed = s.kept + (t - c->certain) * cuda_delta_row(p) + channels, *decay = mixed + channels;
	for (uint32_t d = head * each + i; d < end; d += CUDA_DELTA_THREADS)
		mixed[d] = p->mixed[(size_t)row * channels + d];
	if (i == 0) {
		decay[head] = p->decay[(size_t)row * heads + head];
		decay[heads + head] = p->beta[(size_t)row * heads + head];
	}
}

/* A head of 128 outputs, of which a thread has one. item: of all heads of all rows. */
CUDA_THREAD void cuda_delta_usual_output(const struct cuda_delta *p, size_t item)
{
	const uint32_t i = cuda_thread();
	const size_t at = item * CUDA_HEAD + i;
	const float x = p->out[at], gate = p->gate[at], w = p->norm[i];
	const struct cuda_codes codes = {p->q, p->scale, NULL};
	float *head = cuda_shared();

	head[i] = x;
	const float open = cuda_silu(gate);
	cuda_barrier();
	const float y = open * (x * cuda_delta_scale(head, p->eps) * w);
	if (p->y) {
		p->y[at] = y;
		return;
	}
	const struct cuda_column column = cuda_column_of(&codes, &p->signs, item, 0, CUDA_HEAD);
	cuda_prepare_column(&column, y, head + CUDA_HEAD);
}

/* Any head. */
CUDA_THREAD void cuda_delta_any_output(const struct cuda_delta *p, size_t item)
{
	const uint32_t dim = p->value_dim;
	const size_t at = item * dim;
	float *x = cuda_shared();

	CUDA_ROLLED
	for (uint32_t d = cuda_thread(); d < dim; d += CUDA_DELTA_THREADS)
		x[d] = p->out[at + d];
	cuda_barrier();
	const float scale = cuda_norm_scale(cuda_squares(x, dim), dim, p->eps);
	CUDA_ROLLED
	for (uint32_t d = cuda_thread(); d < dim; d += CUDA_DELTA_THREADS)
		p->y[at + d] = cuda_silu(p->gate[at + d]) * (x[d] * scale * p->norm[d]);
}

CUDA_THREAD void cuda_delta_output(const struct cuda_delta *p, uint32_t row, uint32_t head)
{
	const size_t item = (size_t)row * p->value_heads + head;

	if (p->value_dim == CUDA_HEAD)
		cuda_delta_usual_output(p, item);
	else
		cuda_delta_any_output(p, item);
}

CUDA_KERNEL_OF(CUDA_DELTA_THREADS) cuda_delta_outputs(struct cuda_delta p)
{
	const uint32_t row = cuda_block_x() / p.value_heads, head = cuda_block_x() % p.value_heads;
	const struct cuda_states c = p.contexts[p.rows[row].context];

	cuda_wait_for_ahead();
	cuda_delta_output(&p, row, head);
	cuda_delta_keep_draft(&p, &c, row, head);
}

/* ---- states: a block of threads has some columns of a head's matrix ----
 *
 * A column is shared by `share` threads of a warp: each has up to 32 of its keys in registers. The sums over
 * a column go on from one thread's part to the next one's. In each turn all threads add their parts to what
 * the thread before has found; what a thread finds is right from the turn of its part on. */

/* A thread's part of a column: n keys from `first` on, of `parts` parts in all. */
struct cuda_delta_part {
	uint32_t head, column, first, n, parts;
	uint32_t place, columns; /* of the column in the block; of the block */
	uint32_t before, last;	 /* threads of the warp that have the part before, and the last one */
	bool there, leads;	 /* the column is there; this is its first part */
};

CUDA_THREAD struct cuda_delta_part cuda_delta_part_of(const struct cuda_delta *p)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, some = CUDA_WARP / p->share, part = lane / some;
	const uint32_t columns = DELTA_WARPS * some, each = (p->value_dim + columns - 1) / columns;
	const uint32_t rest = p->key_dim % CUDA_DELTA_KEYS;
	struct cuda_delta_part x;

	x.head = cuda_block_x() / each;
	x.columns = columns;
	x.place = cuda_thread() / CUDA_WARP * some + lane % some;
	x.column = cuda_block_x() % each * columns + x.place;
	x.there = p->value_dim % columns == 0 || x.column < p->value_dim;
	x.parts = (p->key_dim + CUDA_DELTA_KEYS - 1) / CUDA_DELTA_KEYS;
	x.first = part < x.parts ? part * CUDA_DELTA_KEYS : 0;
	x.n = part + 1 == x.parts && rest ? rest : CUDA_DELTA_KEYS;
	x.n = part < x.parts ? x.n : 0;
	x.leads = part == 0;
	x.before = lane - some;
	x.last = (x.parts - 1) * some + lane % some;
	return x;
}

/* This part of the state in memory. */
CUDA_THREAD float *cuda_delta_place(const struct cuda_delta *p, const struct cuda_delta_part *x,
				    const struct cuda_delta_state *s)
{
	return s->matrices + ((size_t)x->head * p->key_dim + x->first) * p->value_dim + x->column;
}

CUDA_THREAD void cuda_delta_load(float s[CUDA_DELTA_KEYS], const struct cuda_delta *p,
				 const struct cuda_delta_part *x, const float *from)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_DELTA_KEYS; i++)
		s[i] = x->there && i < x->n ? from[(size_t)i * p->value_dim] : 0;
}

CUDA_THREAD void cuda_delta_store(float *to, const struct cuda_delta *p, const struct cuda_delta_part *x,
				  const float s[CUDA_DELTA_KEYS])
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_DELTA_KEYS; i++)
		if (x->there && i < x->n)
			to[(size_t)i * p->value_dim] = s[i];
}

/* ---- rows of a context ---- */

/* Adjacent rows, of the step or kept, that are in shared memory together. */
struct cuda_delta_rows {
	const float *mixed, *decay, *beta;
	size_t stride, gate_stride;
	uint32_t n, commit; /* the state is stored after that many of them; 0: it is not */
	float *out;	    /* NULL: the outputs are known */
};

/* Those after `done` rows: first the rows that the state is behind, then those of the step. */
CUDA_THREAD struct cuda_delta_rows cuda_delta_rows_after(const struct cuda_delta *p, const struct cuda_states *c,
							 const struct cuda_delta_state *s, uint32_t done)
{
	const size_t channels = cuda_delta_channels(p), heads = p->value_heads, row = cuda_delta_row(p);
	const bool behind = done < c->behind;
	const uint32_t t = behind ? done : done - c->behind, left = (behind ? c->behind : c->n) - t;
	const size_t at = behind ? t : c->first + t;
	const float *kept = s->kept + channels + at * row;
	struct cuda_delta_rows r;

	r.mixed = behind ? kept : p->mixed + at * channels;
	r.decay = behind ? kept + channels : p->decay + at * heads;
	r.beta = behind ? kept + channels + heads : p->beta + at * heads;
	r.stride = behind ? row : channels;
	r.gate_stride = behind ? row : heads;
	r.n = left < p->together ? left : p->together;
	r.commit = behind || t >= c->certain ? 0 : c->certain - t;
	r.out = behind ? NULL : p->out + at * heads * p->value_dim;
	return r;
}

/* A row in shared memory: query and key, with room for `wide` numbers each, the values of the block's columns,
 * decay and beta. */
CUDA_THREAD uint32_t cuda_delta_wide(const struct cuda_delta_part *x)
{
	return x->parts * CUDA_DELTA_KEYS;
}
CUDA_THREAD uint32_t cuda_delta_shared_row(const struct cuda_delta_part *x)
{
	return 2 * cuda_delta_wide(x) + x->columns + 4; /* a multiple of 4 */
}

/* What a thread copies to shared memory of each row: numbers of a query and of a key, and one that follows
 * them. */
struct cuda_delta_copies {
	const float *key, *other;
	size_t stride, other_stride;
	bool copies_other;
};

CUDA_THREAD struct cuda_delta_copies cuda_delta_copies_of(const struct cuda_delta *p,
							  const struct cuda_delta_part *x,
							  const struct cuda_delta_rows *r)
{
	const uint32_t key_head = p->tiled ? x->head % p->key_heads
					   : x->head / (p->value_heads / p->key_heads);
	const uint32_t i = cuda_thread(), column = x->column - x->place + i;
	const bool value = i < x->columns;
	struct cuda_delta_copies c;

	c.key = r->mixed + key_head * p->key_dim + i;
	c.other = i == x->columns ? r->decay + x->head : r->beta + x->head;
	c.other = value ? r->mixed + 2 * cuda_delta_keys(p) + x->head * p->value_dim + column : c.other;
	c.copies_other = value ? column < p->value_dim : i < x->columns + 2;
	c.stride = r->stride;
	c.other_stride = value ? r->stride : r->gate_stride;
	return c;
}

/* Begins to load n rows. */
CUDA_THREAD void cuda_delta_load_rows(const struct cuda_delta *p, const struct cuda_delta_part *x,
				      struct cuda_delta_copies c, uint32_t n)
{
	const uint32_t dim = p->key_dim, keys = cuda_delta_keys(p), i = cuda_thread();
	const uint32_t wide = cuda_delta_wide(x);
	float *to = cuda_shared() + i;

	CUDA_ROLLED
	for (uint32_t t = 0; t < n; t++) {
		for (uint32_t d = 0; d < dim; d += CUDA_DELTA_THREADS)
			if (d + i < dim) {
				cuda_copy_number(to + d, c.key + d);
				cuda_copy_number(to + wide + d, c.key + keys + d);
			}
		if (c.copies_other)
			cuda_copy_number(to + 2 * wide, c.other);
		c.key += c.stride;
		c.other += c.other_stride;
		to += cuda_delta_shared_row(x);
	}
	cuda_copies_end();
}

/* This part of a query or key. */
CUDA_THREAD void cuda_delta_keys_of(float k[CUDA_DELTA_KEYS], const float *shared)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_DELTA_KEYS; i += 4) {
		const struct cuda_four four = cuda_four_of(shared + i);
		CUDA_UNROLL
		for (uint32_t e = 0; e < 4; e++)
			k[i + e] = four.f[e];
	}
}

/* ---- a row ---- */

/* What a thread's part begins with in the next turn; after the last turn the sum. */
CUDA_THREAD float cuda_delta_pass_on(const struct cuda_delta_part *x, float sum, bool last)
{
	const float other = cuda_float(cuda_from_lane(cuda_bits(sum), last ? x->last : x->before));
	return x->leads && !last ? 0 : other;
}

/* The sum of s · factor · k over a column. */
CUDA_THREAD float cuda_delta_find(const struct cuda_delta_part *x, const float s[CUDA_DELTA_KEYS],
				  const float k[CUDA_DELTA_KEYS], float factor)
{
	float sum = 0;

	CUDA_ROLLED
	for (uint32_t turn = 1; turn <= x->parts; turn++) {
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_DELTA_KEYS; i++)
			sum = i < x->n ? cuda_fma(s[i] * factor, k[i], sum) : sum;
		sum = cuda_delta_pass_on(x, sum, turn == x->parts);
	}
	return sum;
}

/* The sums of s · decay · k and of s · q at once. */
struct cuda_delta_sums {
	float found, out;
};
CUDA_THREAD struct cuda_delta_sums cuda_delta_find_both(const struct cuda_delta_part *x,
							const float s[CUDA_DELTA_KEYS],
							const float k[CUDA_DELTA_KEYS], float decay,
							const float q[CUDA_DELTA_KEYS])
{
	struct cuda_delta_sums sum = {0, 0};

	CUDA_ROLLED
	for (uint32_t turn = 1; turn <= x->parts; turn++) {
		/* No constant of the loop: s · decay would take 32 registers more. */
		const float factor = cuda_float(cuda_from_lane(cuda_bits(decay), 0));
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_DELTA_KEYS; i++) {
			sum.out = i < x->n ? cuda_fma(s[i], q[i], sum.out) : sum.out;
			sum.found = i < x->n ? cuda_fma(s[i] * factor, k[i], sum.found) : sum.found;
		}
		sum.out = cuda_delta_pass_on(x, sum.out, turn == x->parts);
		sum.found = cuda_delta_pass_on(x, sum.found, turn == x->parts);
	}
	return sum;
}

/* Moves the columns on by rows that are in shared memory. A row's output and what the next row's key finds
 * are sums over the same state. */
CUDA_THREAD void cuda_delta_move(float s[CUDA_DELTA_KEYS], const struct cuda_delta *p,
				 const struct cuda_delta_part *x, const struct cuda_delta_rows *r, float *state)
{
	const uint32_t wide = cuda_delta_wide(x), row = cuda_delta_shared_row(x);
	const float *q = cuda_shared() + x->first, *values = cuda_shared() + 2 * wide;
	float key[CUDA_DELTA_KEYS], query[CUDA_DELTA_KEYS];

	cuda_delta_keys_of(key, q + wide);
	float found = cuda_delta_find(x, s, key, values[x->columns]);
	CUDA_ROLLED
	for (uint32_t t = 0; t < r->n; t++, q += row, values += row) {
		const float change = (values[x->place] - found) * values[x->columns + 1];
		const float decay = values[x->columns];
		struct cuda_delta_sums sum;
		cuda_delta_keys_of(query, q);
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_DELTA_KEYS; i++)
			s[i] = cuda_fma(key[i], change, s[i] * decay);
		if (t + 1 == r->commit)
			cuda_delta_store(state, p, x, s);
		if (t + 1 < r->n) {
			cuda_delta_keys_of(key, q + wide + row);
			sum = cuda_delta_find_both(x, s, key, values[x->columns + row], query);
			found = sum.found;
		} else {
			sum.out = cuda_delta_find(x, s, query, 1);
		}
		if (r->out && x->there && x->leads)
			r->out[((size_t)t * p->value_heads + x->head) * p->value_dim + x->column] = sum.out;
	}
}

/* ---- inputs that are kept: the last ones of the convolution by which the state has moved on, and those of
 * drafted rows ---- */

/* A block's channels, and its room for so many inputs of them. */
struct cuda_delta_inputs {
	uint32_t first, end, each;
	float *shared;
};
CUDA_THREAD struct cuda_delta_inputs cuda_delta_inputs_of(const struct cuda_delta *p,
							  const struct cuda_delta_part *x)
{
	const uint32_t channels = cuda_delta_channels(p);
	struct cuda_delta_inputs k;

	k.each = (channels + cuda_blocks_x() - 1) / cuda_blocks_x();
	k.first = cuda_block_x() * k.each;
	k.end = k.first + k.each < channels ? k.first + k.each : channels;
	k.shared = cuda_shared() + p->together * cuda_delta_shared_row(x);
	return k;
}

/* Begins to load those which become numbers [from, to), in shared memory after those from `first` on. */
CUDA_THREAD void cuda_delta_load_inputs(const struct cuda_delta *p, const struct cuda_states *c,
					const struct cuda_delta_state *s, const struct cuda_delta_inputs *k,
					uint32_t first, uint32_t from, uint32_t to)
{
	CUDA_ROLLED
	for (uint32_t i = from; i < to; i++) {
		const float *in = cuda_delta_input(p, c, s, c->behind + c->certain + i);
		float *shared = k->shared + (i - first) * k->each - k->first;
		CUDA_ROLLED
		for (uint32_t d = k->first + cuda_thread(); d < k->end; d += CUDA_DELTA_THREADS)
			cuda_copy_number(shared + d, in + d);
	}
	cuda_copies_end();
}

/* Each thread stores what it has loaded. */
CUDA_THREAD void cuda_delta_store_inputs(const struct cuda_delta *p, const struct cuda_delta_state *s,
					 const struct cuda_delta_inputs *k, uint32_t from, uint32_t to)
{
	CUDA_ROLLED
	for (uint32_t i = from; i < to; i++) {
		float *kept = cuda_delta_kept_input(p, s, i);
		const float *shared = k->shared + (i - from) * k->each - k->first;
		CUDA_ROLLED
		for (uint32_t d = k->first + cuda_thread(); d < k->end; d += CUDA_DELTA_THREADS)
			kept[d] = shared[d];
	}
}

/* Those from `from` on, which are more than a first part. */
CUDA_THREAD void cuda_delta_keep_others(const struct cuda_delta *p, const struct cuda_states *c,
					const struct cuda_delta_state *s, const struct cuda_delta_inputs *k,
					uint32_t from, uint32_t all)
{
	CUDA_ROLLED
	for (uint32_t to; from < all; from = to) {
		to = all - from < CUDA_CONV_WIDTH ? all : from + CUDA_CONV_WIDTH;
		cuda_delta_load_inputs(p, c, s, k, from, from, to);
		cuda_copies_wait();
		cuda_delta_store_inputs(p, s, k, from, to);
	}
}

/* ---- all of a context ---- */

/* Counts a block that has done its part. What it has written before, the last one of `all` sees. */
CUDA_THREAD void cuda_delta_count(uint32_t *count, uint32_t all)
{
	uint32_t *last = (uint32_t *)(void *)cuda_shared();

	cuda_barrier();
	if (cuda_thread() == 0)
		*last = cuda_count(count) + 1 == all;
}

/* Whether it was the last one. */
CUDA_THREAD bool cuda_delta_was_last(void)
{
	const uint32_t *last = (const uint32_t *)(const void *)cuda_shared();

	cuda_barrier();
	const bool was = *last;
	cuda_barrier();
	return was;
}

/* By the last block of a head. Drafted rows are kept where rows that the state is behind may be read until all
 * heads are done. count: of these. */
CUDA_THREAD void cuda_delta_end(const struct cuda_delta *p, const struct cuda_states *c, uint32_t head,
				uint32_t *count)
{
	CUDA_ROLLED
	for (uint32_t t = 0; t < c->n; t++) {
		cuda_delta_output(p, c->first + t, head);
		cuda_barrier();
	}
	if (c->certain == c->n)
		return;
	cuda_delta_count(count, p->value_heads);
	if (!cuda_delta_was_last())
		return;
	CUDA_ROLLED
	for (uint32_t i = c->certain * p->value_heads; i < c->n * p->value_heads; i++)
		cuda_delta_keep_draft(p, c, c->first + i / p->value_heads, i % p->value_heads);
}

CUDA_THREAD void cuda_delta_steps_of(const struct cuda_delta *p, const struct cuda_states *c)
{
	const struct cuda_delta_state state = cuda_delta_state_of(p, c);
	const struct cuda_delta_part x = cuda_delta_part_of(p);
	const uint32_t before = p->width - 1, inputs = before + c->n - c->certain;
	const uint32_t some = inputs < CUDA_CONV_WIDTH ? inputs : CUDA_CONV_WIDTH;
	const uint32_t old = before > c->certain ? before - c->certain : 0; /* inputs of earlier steps */
	float *place = cuda_delta_place(p, &x, &state), s[CUDA_DELTA_KEYS];
	uint32_t *counts = /* of the context's rows */
		p->counts ? p->counts + (size_t)c->first * p->value_heads : NULL;

	cuda_delta_load(s, p, &x, place);
	const struct cuda_delta_inputs kept = cuda_delta_inputs_of(p, &x);
	cuda_delta_load_inputs(p, c, &state, &kept, 0, 0, old);
	struct cuda_delta_rows r = cuda_delta_rows_after(p, c, &state, 0);
	struct cuda_delta_copies copies = cuda_delta_copies_of(p, &x, &r);
	cuda_wait_for_ahead();
	cuda_delta_load_rows(p, &x, copies, r.n);
	for (uint32_t done = 0;;) {
		cuda_copies_wait();
		cuda_barrier();
		cuda_delta_move(s, p, &x, &r, place);
		done += r.n;
		if (done == c->behind + c->n)
			break;
		cuda_barrier();
		r = cuda_delta_rows_after(p, c, &state, done);
		copies = cuda_delta_copies_of(p, &x, &r);
		cuda_delta_load_rows(p, &x, copies, r.n);
	}
	if (p->counts)
		cuda_delta_count(counts + x.head, cuda_blocks_x() / p->value_heads);
	cuda_delta_load_inputs(p, c, &state, &kept, 0, old, some);
	cuda_copies_wait();
	cuda_delta_store_inputs(p, &state, &kept, 0, some);
	cuda_delta_keep_others(p, c, &state, &kept, some, inputs);
	if (p->counts && cuda_delta_was_last())
		cuda_delta_end(p, c, x.head, counts + p->value_heads);
}

/* Of heads of 128 keys and values. A block has half as many threads as this says: a processor is to have room for
 * four. */
CUDA_KERNEL_OF_TWO(2 * CUDA_DELTA_THREADS) cuda_delta_steps(struct cuda_delta p)
{
	const struct cuda_states c = p.contexts[cuda_block_y()];

	p.key_dim = p.value_dim = CUDA_HEAD;
	p.share = CUDA_HEAD / CUDA_DELTA_KEYS;
	if (c.n)
		cuda_delta_steps_of(&p, &c);
	else
		cuda_wait_for_ahead();
}

CUDA_KERNEL_OF(CUDA_DELTA_THREADS) cuda_delta_steps_any(struct cuda_delta p)
{
	const struct cuda_states c = p.contexts[cuda_block_y()];

	if (c.n)
		cuda_delta_steps_of(&p, &c);
	else
		cuda_wait_for_ahead();
}

