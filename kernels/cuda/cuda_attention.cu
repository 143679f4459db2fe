/* Keys and values into their blocks; the spans of attention, each by itself; their joining. */
#include "kernels/cuda/cuda_attention.h"

/* Of the threads of a block, each has an element of a key and of a value. */
CUDA_KERNEL cuda_kv_put(struct cuda_keys p)
{
	const uint32_t item = cuda_block_x() * cuda_threads() + cuda_thread();
	const uint32_t row = item / p.head_dim, d = item % p.head_dim;
	const uint32_t t = row / p.heads, head = row % p.heads;

	cuda_wait_for_ahead();
	if (t >= p.n)
		return;
	cuda_put_key(&p, t, head, d, p.key[item]);
	cuda_put_value(&p, t, head, d, p.value[item]);
}

/* What the threads of a block share: its queries, their exponentials, the largest scores of each warp,
 * of each block of positions the sums, and by what all before shrinks; [heads] of all those. Then keys and
 * values, if they are copied. */
struct cuda_look {
	float *e, *q, *warp_max, *sum, *rescale; /* [256], [step], [8], [4], [4] */
	uint8_t *values, *keys;
	uint32_t step;
};

CUDA_THREAD struct cuda_look cuda_look_of(uint32_t heads, uint32_t dim)
{
	struct cuda_look s;

	s.step = (dim + 3) / 4 * 4;
	s.e = cuda_shared();
	s.q = s.e + heads * CUDA_SPAN;
	s.warp_max = s.q + heads * s.step;
	s.sum = s.warp_max + heads * (CUDA_SPAN / CUDA_WARP);
	s.rescale = s.sum + heads * CUDA_SPAN_BLOCKS;
	s.values = (uint8_t *)(void *)(s.rescale + heads * CUDA_SPAN_BLOCKS);
	s.keys = s.values + CUDA_SPAN * dim * 2;
	return s;
}

/* A block of threads: queries of a row and a key-value head from `query` on, and a span of what they
 * see. */
struct cuda_span {
	struct cuda_row row;
	uint32_t query, head, kv, start, first, length;
	uint32_t dim; /* of a head: a constant where it is the usual one */
	const uint8_t *block[CUDA_SPAN_BLOCKS]; /* those that are seen */
};

CUDA_THREAD struct cuda_span cuda_span_now(const struct cuda_attention *p, uint32_t heads,
					   uint32_t dim)
{
	struct cuda_span x;

	x.dim = dim;
	x.query = cuda_block_x() * heads;
	x.head = x.query % p->heads;
	x.kv = x.head / p->group;
	x.row = p->rows[x.query / p->heads];
	x.length = x.row.position + 1;
	x.first = cuda_first_seen(x.length, p->window);
	x.start = (x.first / CUDA_SPAN + cuda_block_y()) * CUDA_SPAN;
	CUDA_UNROLL
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const struct cuda_seen seen =
			cuda_block_seen(x.start + b * CUDA_KV_BLOCK, x.first, x.length);
		x.block[b] = seen.from < seen.to ? x.row.blocks[x.start / CUDA_KV_BLOCK + b] : NULL;
	}
	return x;
}

CUDA_THREAD struct cuda_seen cuda_span_seen(const struct cuda_span *x, uint32_t b)
{
	return cuda_block_seen(x->start + b * CUDA_KV_BLOCK, x->first, x->length);
}

/* Block b, not a constant: blocks stay in registers. */
CUDA_THREAD const uint8_t *cuda_span_block(const struct cuda_span *x, uint32_t b)
{
	const uint8_t *block = x->block[0];

	CUDA_UNROLL
	for (uint32_t i = 1; i < CUDA_SPAN_BLOCKS; i++)
		block = i == b ? x->block[i] : block;
	return block;
}

/* Begins to copy the keys of all blocks of which something is seen. */
CUDA_THREAD void cuda_copy_keys(const struct cuda_attention *p, const struct cuda_span *x,
				const struct cuda_look *s)
{
	const uint32_t bytes = x->dim * CUDA_KV_BLOCK * 2;

	CUDA_ROLLED
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const uint8_t *block = cuda_span_block(x, b);
		if (!block)
			continue;
		const uint8_t *from = block + 2 * (p->key_offset + x->kv * p->key_step);
		CUDA_UNROLL_4
		for (uint32_t i = 16 * cuda_thread(); i < bytes; i += 16 * CUDA_SPAN)
			cuda_copy16(s->keys + b * bytes + i, from + i);
	}
	cuda_copies_end();
}

/* Begins to copy the values that are seen. */
CUDA_THREAD void cuda_copy_values(const struct cuda_attention *p, const struct cuda_span *x,
				  const struct cuda_look *s)
{
	const uint32_t row = x->dim * 2; /* bytes */

	CUDA_ROLLED
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const struct cuda_seen seen = cuda_span_seen(x, b);
		if (seen.from >= seen.to)
			continue;
		const uint8_t *from = cuda_span_block(x, b) +
				      2 * (p->value_offset + x->kv * p->value_step);
		uint8_t *to = s->values + b * CUDA_KV_BLOCK * row;
		CUDA_UNROLL_4
		for (uint32_t i = seen.from * row + 16 * cuda_thread(); i < seen.to * row;
		     i += 16 * CUDA_SPAN)
			cuda_copy16(to + i, from + i);
	}
	cuda_copies_end();
}

/* Each thread has a position. The largest score so far, after each block of positions: max[0] is before
 * the first. */
CUDA_THREAD void cuda_span_maxima(float max[CUDA_SPAN_BLOCKS + 1], const float *warp_max,
				  float before)
{
	max[0] = before;
	CUDA_UNROLL
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++)
		max[b + 1] = cuda_larger(cuda_larger(max[b], warp_max[2 * b]), warp_max[2 * b + 1]);
}

CUDA_THREAD float cuda_span_sink(const struct cuda_attention *p, const struct cuda_span *x, uint32_t h)
{
	return p->sinks && x->start <= x->first ? p->sinks[x->head + h] : cuda_minus_infinity();
}

/* The scores of this thread's position, and the largest ones of its warp. */
CUDA_THREAD void cuda_span_scores(const struct cuda_attention *p, const struct cuda_span *x,
				  const struct cuda_look *s, uint32_t heads, float *score)
{
	const uint32_t j = cuda_thread(), b = j / CUDA_KV_BLOCK, slot = j % CUDA_KV_BLOCK;
	const struct cuda_seen seen = cuda_span_seen(x, b);
	const uint8_t *block = cuda_span_block(x, b);

	if (slot >= seen.from && slot < seen.to) {
		if (cuda_keys_copied(p))
			cuda_scores(score, heads, s->q, s->step, s->keys, 1,
				    b * CUDA_KV_BLOCK * x->dim + slot, x->dim, p->scale,
				    CUDA_KEYS_NEAR);
		else
			cuda_scores(score, heads, s->q, s->step, block, p->half,
				    p->key_offset + x->kv * p->key_step + slot, x->dim,
				    p->scale, CUDA_KEYS_AHEAD);
	}
	CUDA_UNROLL
	for (uint32_t h = 0; h < heads; h++) {
		const float largest = cuda_largest_number(cuda_number(score[h]), j % CUDA_WARP);
		if (j % CUDA_WARP == 0)
			s->warp_max[h * (CUDA_SPAN / CUDA_WARP) + j / CUDA_WARP] = largest;
	}
}

/* The exponentials of the scores, and what each block of positions makes of all before. */
CUDA_THREAD void cuda_span_exponentials(const struct cuda_attention *p, const struct cuda_span *x,
					const struct cuda_look *s, uint32_t heads, const float *score)
{
	const uint32_t j = cuda_thread(), own = j / CUDA_KV_BLOCK, slot = j % CUDA_KV_BLOCK;
	const struct cuda_seen seen = cuda_span_seen(x, own);

	CUDA_UNROLL
	for (uint32_t h = 0; h < heads; h++) {
		float max[CUDA_SPAN_BLOCKS + 1], before = 0, after = 0;
		cuda_span_maxima(max, s->warp_max + h * (CUDA_SPAN / CUDA_WARP),
				 cuda_span_sink(p, x, h));
		CUDA_UNROLL
		for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
			before = b == own ? max[b] : before;
			after = b == own ? max[b + 1] : after;
		}
		s->e[h * CUDA_SPAN + j] =
			slot >= seen.from && slot < seen.to ? cuda_exp(score[h] - after) : 0;
		if (slot == 0)
			s->rescale[h * CUDA_SPAN_BLOCKS + own] =
				seen.from < seen.to ? cuda_exp(before - after) : 1;
	}
}

/* The sums of the exponentials of each block of positions, by the last threads. */
CUDA_THREAD void cuda_span_sums(const struct cuda_look *s, uint32_t heads)
{
	const uint32_t i = CUDA_SPAN - 1 - cuda_thread();

	if (i >= heads * CUDA_SPAN_BLOCKS * CUDA_LANES)
		return;
	const float *e = s->e + i / CUDA_LANES * CUDA_KV_BLOCK + i % CUDA_LANES;
	float lane = 0;
	CUDA_UNROLL
	for (uint32_t k = 0; k < CUDA_KV_BLOCK; k += CUDA_LANES)
		lane += e[k];
	lane = cuda_sum_lanes(lane);
	if (i % CUDA_LANES == 0)
		s->sum[i / CUDA_LANES] = lane;
}

/* The sums of the values in column d of `some` queries from `h` on; some is a constant. */
CUDA_THREAD void cuda_span_values(const struct cuda_attention *p, const struct cuda_span *x,
				  const struct cuda_look *s, uint32_t h, uint32_t some, uint32_t d,
				  float *v)
{
	const bool copied = cuda_values_copied(p->half, x->dim);
	const size_t at = p->value_offset + x->kv * p->value_step + d;

	CUDA_ROLLED
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const struct cuda_seen seen = cuda_span_seen(x, b);
		const float *e = s->e + h * CUDA_SPAN + b * CUDA_KV_BLOCK;
		if (seen.from >= seen.to)
			continue;
		CUDA_UNROLL
		for (uint32_t i = 0; i < some; i++)
			v[i] *= s->rescale[(h + i) * CUDA_SPAN_BLOCKS + b];
		if (copied)
			cuda_values_added(v, some, e,
					  s->values + b * CUDA_KV_BLOCK * x->dim * 2, 1, d,
					  x->dim, seen);
		else
			cuda_values_added(v, some, e, cuda_span_block(x, b), p->half, at,
					  x->dim, seen);
	}
}

/* By one thread: the largest score and the sum of all exponentials. */
CUDA_THREAD void cuda_span_end(const struct cuda_attention *p, const struct cuda_span *x,
			       const struct cuda_look *s, uint32_t h, float *part)
{
	const float before = cuda_span_sink(p, x, h);
	float sum = p->sinks && x->start <= x->first ? 1 : 0, max[CUDA_SPAN_BLOCKS + 1];

	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const struct cuda_seen seen = cuda_span_seen(x, b);
		if (seen.from < seen.to)
			sum = cuda_fma(sum, s->rescale[h * CUDA_SPAN_BLOCKS + b],
				       s->sum[h * CUDA_SPAN_BLOCKS + b]);
	}
	cuda_span_maxima(max, s->warp_max + h * (CUDA_SPAN / CUDA_WARP), before);
	part[x->dim] = max[CUDA_SPAN_BLOCKS];
	part[x->dim + 1] = sum;
}

/* heads is a constant: of a block of threads; dim is one if it is the usual one. A thread has a position,
 * then a column of some of the queries. No kernel writes which blocks rows have. */
CUDA_THREAD void cuda_attend(const struct cuda_attention *p, uint32_t heads, uint32_t dim)
{
	const struct cuda_span x = cuda_span_now(p, heads, dim);
	const struct cuda_look s = cuda_look_of(heads, dim);
	const size_t step = cuda_part(dim);
	const uint32_t some = heads == 1 ? 1 : 2;
	float *part = p->parts + ((size_t)cuda_block_y() * p->n * p->heads + x.query) * step;
	float score[CUDA_HEADS_MOST];

	if (x.start >= x.length) {
		cuda_wait_for_ahead();
		return;
	}
	cuda_wait_for_ahead();
	CUDA_UNROLL
	for (uint32_t h = 0; h < heads; h++) {
		CUDA_ROLLED
		for (uint32_t d = cuda_thread(); d < dim; d += CUDA_SPAN)
			s.q[h * s.step + d] = p->q[(size_t)(x.query + h) * dim + d];
	}
	if (cuda_keys_copied(p))
		cuda_copy_keys(p, &x, &s);
	if (cuda_values_copied(p->half, dim))
		cuda_copy_values(p, &x, &s);
	if (cuda_keys_copied(p))
		cuda_copies_wait_but_last();
	cuda_barrier();
	CUDA_UNROLL
	for (uint32_t h = 0; h < heads; h++)
		score[h] = cuda_minus_infinity();
	cuda_span_scores(p, &x, &s, heads, score);
	cuda_barrier();
	cuda_span_exponentials(p, &x, &s, heads, score);
	cuda_copies_wait();
	cuda_barrier();
	cuda_span_sums(&s, heads);
	for (uint32_t i = cuda_thread(); i < heads / some * dim; i += CUDA_SPAN) {
		const uint32_t h = i / dim * some, d = i % dim;
		float v[2] = {0, 0};
		cuda_span_values(p, &x, &s, h, some, d, v);
		CUDA_UNROLL
		for (uint32_t k = 0; k < some; k++)
			part[(h + k) * step + d] = v[k];
	}
	cuda_barrier();
	if (cuda_thread() < heads)
		cuda_span_end(p, &x, &s, cuda_thread(), part + cuda_thread() * step);
}

CUDA_KERNEL_OF(256) cuda_attend_spans(struct cuda_attention p)
{
	cuda_let_next_begin();
	if (cuda_heads_together(&p) == 1) {
		if (p.head_dim == CUDA_DIM_USUAL)
			cuda_attend(&p, 1, CUDA_DIM_USUAL);
		else
			cuda_attend(&p, 1, p.head_dim);
	} else if (p.head_dim == CUDA_DIM_USUAL) {
		cuda_attend(&p, CUDA_HEADS_MOST, CUDA_DIM_USUAL);
	} else {
		cuda_attend(&p, CUDA_HEADS_MOST, p.head_dim);
	}
}

/* A block of threads has a query, a thread a column. */
CUDA_KERNEL cuda_attend_join(struct cuda_attention p)
{
	cuda_wait_for_ahead();
	for (uint32_t d = cuda_thread(); d < p.head_dim; d += cuda_threads())
		cuda_joined_spans(&p.out[(size_t)cuda_block_x() * p.head_dim + d], 1, &p,
				  cuda_block_x(), d);
}
