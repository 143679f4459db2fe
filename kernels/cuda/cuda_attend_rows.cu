/* Attention of rows that follow each other in one context, as those of a prompt do: cuda_attend_spans for
 * 16 of them at once, so that a key or value is read once for all. What a row does not see it does not
 * add, so each has the same chain of operations as alone. */
#include "kernels/cuda/cuda_attention.h"

enum {
	CUDA_TOGETHER = CUDA_ROWS_TOGETHER,
	CUDA_VALUE_ROWS = CUDA_TOGETHER / 2, /* whose values a thread adds */
	CUDA_KEYS_EACH = 8, /* elements of a key that are loaded before one is used */
	CUDA_SPAN_WARPS = CUDA_SPAN / CUDA_WARP,
};

/* In shared memory: queries, exponentials; of each row the largest score of each warp, and of each block
 * of positions the sum of exponentials and by what all before shrinks. */
struct cuda_rows_look {
	float *q;	  /* [head_dim][rows] */
	float *e;	  /* [256][rows] */
	float *warp_max;  /* [rows][8] */
	float *sum, *rescale; /* [rows][4] */
};

CUDA_THREAD struct cuda_rows_look cuda_rows_look_of(uint32_t dim)
{
	struct cuda_rows_look s;

	s.q = cuda_shared();
	s.e = s.q + dim * CUDA_TOGETHER;
	s.warp_max = s.e + CUDA_SPAN * CUDA_TOGETHER;
	s.sum = s.warp_max + CUDA_TOGETHER * CUDA_SPAN_WARPS;
	s.rescale = s.sum + CUDA_TOGETHER * CUDA_SPAN_BLOCKS;
	return s;
}

/* What a block of threads computes: a head of `rows` rows from row t on, of which the first sees `length`
 * positions, and the span of positions from `start` on. */
struct cuda_rows_span {
	const uint8_t *const *blocks; /* of the span */
	uint32_t t, rows, head, kv, length, start;
};

CUDA_THREAD struct cuda_rows_span cuda_rows_span_now(const struct cuda_attention *p)
{
	struct cuda_rows_span x;

	x.t = cuda_block_x() / p->heads * CUDA_TOGETHER;
	x.head = cuda_block_x() % p->heads;
	x.kv = x.head / p->group;
	x.rows = p->n - x.t < CUDA_TOGETHER ? p->n - x.t : CUDA_TOGETHER;
	x.start = cuda_block_y() * CUDA_SPAN;
	const struct cuda_row row = p->rows[x.t];
	x.length = row.position + 1;
	x.blocks = row.blocks + x.start / CUDA_KV_BLOCK;
	return x;
}

/* How many of a block's positions row r sees: the first. */
CUDA_THREAD uint32_t cuda_rows_seen(const struct cuda_rows_span *x, uint32_t r, uint32_t b)
{
	const uint32_t start = x->start + b * CUDA_KV_BLOCK, length = x->length + r;
	const uint32_t left = r < x->rows && length > start ? length - start : 0;

	return left < CUDA_KV_BLOCK ? left : CUDA_KV_BLOCK;
}

CUDA_THREAD void cuda_rows_load(const struct cuda_attention *p, const struct cuda_rows_span *x,
				const struct cuda_rows_look *s)
{
	for (uint32_t i = cuda_thread(); i < CUDA_TOGETHER * p->head_dim; i += CUDA_SPAN) {
		const uint32_t r = i / p->head_dim, d = i % p->head_dim;
		const size_t query = (size_t)(x->t + r) * p->heads + x->head;
		s->q[d * CUDA_TOGETHER + r] = r < x->rows ? p->q[query * p->head_dim + d] : 0;
	}
}

/* ---- scores: a thread has a position ---- */

/* Adds the products with element d of the thread's key. */
CUDA_THREAD void cuda_rows_score(float score[CUDA_TOGETHER], const float *q, float key)
{
	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_TOGETHER; r += 4) {
		const struct cuda_four four = cuda_four_of(q + r);
		CUDA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			score[r + i] = cuda_fma(four.f[i], key, score[r + i]);
	}
}

CUDA_THREAD void cuda_rows_scores(const struct cuda_attention *p, const struct cuda_rows_span *x,
				  const struct cuda_rows_look *s, float score[CUDA_TOGETHER])
{
	const uint32_t j = cuda_thread(), dim = p->head_dim;
	const uint8_t *block = x->blocks[j / CUDA_KV_BLOCK];
	const size_t at = p->key_offset + x->kv * p->key_step + j % CUDA_KV_BLOCK;
	uint32_t d = 0;

	CUDA_ROLLED
	for (; d + CUDA_KEYS_EACH <= dim; d += CUDA_KEYS_EACH) {
		float key[CUDA_KEYS_EACH];
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_KEYS_EACH; i++)
			key[i] = cuda_element(block, p->half, at + (size_t)(d + i) * CUDA_KV_BLOCK);
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_KEYS_EACH; i++)
			cuda_rows_score(score, s->q + (d + i) * CUDA_TOGETHER, key[i]);
	}
	for (; d < dim; d++)
		cuda_rows_score(score, s->q + d * CUDA_TOGETHER,
				cuda_element(block, p->half, at + (size_t)d * CUDA_KV_BLOCK));
}

/* The scores that are seen, times the scale; the others are minus infinity. */
CUDA_THREAD void cuda_rows_largest(const struct cuda_attention *p, const struct cuda_rows_span *x,
				   const struct cuda_rows_look *s, float score[CUDA_TOGETHER])
{
	const uint32_t j = cuda_thread(), b = j / CUDA_KV_BLOCK, lane = j % CUDA_WARP;

	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_TOGETHER; r++) {
		const bool sees = j % CUDA_KV_BLOCK < cuda_rows_seen(x, r, b);
		score[r] = sees ? score[r] * p->scale : cuda_minus_infinity();
		const float largest = cuda_largest_number(cuda_number(score[r]), lane);
		if (lane == 0)
			s->warp_max[r * CUDA_SPAN_WARPS + j / CUDA_WARP] = largest;
	}
}

/* The largest score of a row before block b of positions, and with it; all for 4. */
CUDA_THREAD float cuda_rows_max(const struct cuda_rows_look *s, uint32_t r, uint32_t b)
{
	float max = cuda_minus_infinity();

	for (uint32_t w = 0; w < 2 * b; w++)
		max = cuda_larger(max, s->warp_max[r * CUDA_SPAN_WARPS + w]);
	return max;
}

CUDA_THREAD void cuda_rows_exponentials(const struct cuda_rows_span *x, const struct cuda_rows_look *s,
					const float score[CUDA_TOGETHER])
{
	const uint32_t j = cuda_thread(), b = j / CUDA_KV_BLOCK, slot = j % CUDA_KV_BLOCK;

	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_TOGETHER; r++) {
		const uint32_t seen = cuda_rows_seen(x, r, b);
		const float before = cuda_rows_max(s, r, b);
		const float *last = s->warp_max + r * CUDA_SPAN_WARPS + 2 * b;
		const float after = cuda_larger(cuda_larger(before, last[0]), last[1]);
		s->e[j * CUDA_TOGETHER + r] = slot < seen ? cuda_exp(score[r] - after) : 0;
		if (slot == 0)
			s->rescale[r * CUDA_SPAN_BLOCKS + b] = seen ? cuda_exp(before - after) : 1;
	}
}

/* The sums of the exponentials, in dot order: 16 threads have a row's block of positions. */
CUDA_THREAD void cuda_rows_sums(const struct cuda_rows_look *s)
{
	for (uint32_t i = cuda_thread(); i < CUDA_TOGETHER * CUDA_SPAN_BLOCKS * CUDA_LANES;
	     i += CUDA_SPAN) {
		const uint32_t place = i / CUDA_LANES, r = place % CUDA_TOGETHER,
			       b = place / CUDA_TOGETHER;
		const float *e = s->e + (b * CUDA_KV_BLOCK + i % CUDA_LANES) * CUDA_TOGETHER + r;
		float lane = 0;
		CUDA_UNROLL
		for (uint32_t k = 0; k < CUDA_KV_BLOCK; k += CUDA_LANES)
			lane += e[k * CUDA_TOGETHER];
		lane = cuda_sum_lanes(lane);
		if (i % CUDA_LANES == 0)
			s->sum[r * CUDA_SPAN_BLOCKS + b] = lane;
	}
}

/* ---- values: a thread has a column of half of the rows ---- */

/* Adds a position's value to the rows that see it; all: all do. */
CUDA_THREAD void cuda_rows_value(float v[CUDA_VALUE_ROWS], const float *e, float value,
				 const uint32_t seen[CUDA_VALUE_ROWS], uint32_t slot, bool all)
{
	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r += 4) {
		const struct cuda_four four = cuda_four_of(e + r);
		CUDA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			v[r + i] = all || slot < seen[r + i] ? cuda_fma(four.f[i], value, v[r + i])
							     : v[r + i];
	}
}

/* Adds the values of a block of positions in column d to rows `first` and those after it. */
CUDA_THREAD void cuda_rows_values(const struct cuda_attention *p, const struct cuda_rows_span *x,
				  const struct cuda_rows_look *s, uint32_t first, uint32_t d,
				  uint32_t b, float v[CUDA_VALUE_ROWS])
{
	enum { AHEAD = 8 };
	const uint8_t *block = x->blocks[b];
	const size_t at = p->value_offset + x->kv * p->value_step + d;
	const float *e = s->e + b * CUDA_KV_BLOCK * CUDA_TOGETHER + first;
	uint32_t seen[CUDA_VALUE_ROWS], most = 0, least = CUDA_KV_BLOCK;

	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r++) {
		seen[r] = cuda_rows_seen(x, first + r, b);
		most = seen[r] > most ? seen[r] : most;
		least = seen[r] < least ? seen[r] : least;
		if (seen[r])
			v[r] *= s->rescale[(first + r) * CUDA_SPAN_BLOCKS + b];
	}
	CUDA_ROLLED
	for (uint32_t j = 0; j < most; j += AHEAD) {
		const bool all = j + AHEAD <= least;
		float value[AHEAD];
		CUDA_UNROLL
		for (uint32_t i = 0; i < AHEAD; i++) {
			const uint32_t slot = j + i < most ? j + i : j;
			value[i] = cuda_element(block, p->half, at + (size_t)slot * p->head_dim);
		}
		CUDA_UNROLL
		for (uint32_t i = 0; i < AHEAD; i++)
			cuda_rows_value(v, e + (j + i) * CUDA_TOGETHER, value[i], seen, j + i, all);
	}
}

/* ---- the kernel ---- */

CUDA_THREAD float *cuda_rows_part(const struct cuda_attention *p, const struct cuda_rows_span *x,
				  uint32_t r)
{
	const size_t query = (size_t)(x->t + r) * p->heads + x->head;

	return p->parts + ((size_t)cuda_block_y() * p->n * p->heads + query) * cuda_part(p->head_dim);
}

/* By one thread for a row: the largest score and the sum of all exponentials. */
CUDA_THREAD void cuda_rows_end(const struct cuda_attention *p, const struct cuda_rows_span *x,
			       const struct cuda_rows_look *s, uint32_t r)
{
	float *part = cuda_rows_part(p, x, r), sum = 0;

	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++)
		if (cuda_rows_seen(x, r, b))
			sum = cuda_fma(sum, s->rescale[r * CUDA_SPAN_BLOCKS + b],
				       s->sum[r * CUDA_SPAN_BLOCKS + b]);
	part[p->head_dim] = cuda_rows_max(s, r, CUDA_SPAN_BLOCKS);
	part[p->head_dim + 1] = sum;
}

CUDA_THREAD void cuda_rows_put_values(const struct cuda_attention *p, const struct cuda_rows_span *x,
				      const struct cuda_rows_look *s)
{
	for (uint32_t i = cuda_thread(); i < 2 * p->head_dim; i += CUDA_SPAN) {
		const uint32_t first = i / p->head_dim * CUDA_VALUE_ROWS, d = i % p->head_dim;
		float v[CUDA_VALUE_ROWS];
		CUDA_UNROLL
		for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r++)
			v[r] = 0;
		CUDA_ROLLED
		for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++)
			if (cuda_rows_seen(x, x->rows - 1, b))
				cuda_rows_values(p, x, s, first, d, b, v);
		CUDA_UNROLL
		for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r++)
			if (cuda_rows_seen(x, first + r, 0))
				cuda_rows_part(p, x, first + r)[d] = v[r];
	}
}

/* The rows are of one context, at positions that follow each other; there is no window and no sink. */
CUDA_KERNEL_OF(256) cuda_attend_rows(struct cuda_attention p)
{
	const struct cuda_rows_look s = cuda_rows_look_of(p.head_dim);
	float score[CUDA_TOGETHER];

	cuda_wait_for_ahead();
	const struct cuda_rows_span x = cuda_rows_span_now(&p);
	if (!cuda_rows_seen(&x, x.rows - 1, 0))
		return;
	cuda_rows_load(&p, &x, &s);
	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_TOGETHER; r++)
		score[r] = 0;
	cuda_barrier();
	if (cuda_rows_seen(&x, x.rows - 1, cuda_thread() / CUDA_KV_BLOCK))
		cuda_rows_scores(&p, &x, &s, score);
	cuda_rows_largest(&p, &x, &s, score);
	cuda_barrier();
	cuda_rows_exponentials(&x, &s, score);
	cuda_barrier();
	cuda_rows_sums(&s);
	cuda_rows_put_values(&p, &x, &s);
	cuda_barrier();
	if (cuda_thread() < x.rows && cuda_rows_seen(&x, cuda_thread(), 0))
		cuda_rows_end(&p, &x, &s, cuda_thread());
}
