/* Attention of rows that follow each other in one context, as those of a prompt do: cuda_attend_spans for
 * 16 of them at once, so that a key or value is read once for all. What a row does not see it does not
 * add, so each has the same chain of operations as alone. With a window, the first rows may see a span that
 * the last ones do not: a row's spans count from the first that it sees itself. */
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

/* What a block of threads computes: a head of `rows` rows from row t on, of which the first is at `position`,
 * and the span of positions from `start` on. A row sees `window` positions up to its own. */
struct cuda_rows_span {
	const uint8_t *const *blocks; /* of the span */
	const float *sinks;	      /* [heads], or NULL */
	uint32_t t, rows, head, kv, position, start, window;
};
enum { CUDA_NO_WINDOW = 1 << 30 }; /* more than any text has */

CUDA_THREAD struct cuda_rows_span cuda_rows_span_now(const struct cuda_attention *p)
{
	struct cuda_rows_span x;

	x.t = cuda_block_x() / p->heads * CUDA_TOGETHER;
	x.head = cuda_block_x() % p->heads;
	x.kv = x.head / p->group;
	x.rows = p->n - x.t < CUDA_TOGETHER ? p->n - x.t : CUDA_TOGETHER;
	x.sinks = p->sinks;
	x.window = p->window ? p->window : CUDA_NO_WINDOW;
	const struct cuda_row row = p->rows[x.t];
	x.position = row.position;
	x.start = cuda_block_y() * CUDA_SPAN + cuda_first_seen(x.position + 1, x.window) / CUDA_SPAN * CUDA_SPAN;
	x.blocks = row.blocks + x.start / CUDA_KV_BLOCK;
	return x;
}

/* Whether row r sees one of `count` positions of the span, from `at` on. What is behind the row is far beyond
 * any window, as a number without a sign. */
CUDA_THREAD bool cuda_rows_see(const struct cuda_rows_span *x, uint32_t r, uint32_t at, uint32_t count)
{
	return r < x->rows && x->position + r - (x->start + at) < x->window + count - 1;
}
CUDA_THREAD bool cuda_rows_see_block(const struct cuda_rows_span *x, uint32_t r, uint32_t b)
{
	return cuda_rows_see(x, r, b * CUDA_KV_BLOCK, CUDA_KV_BLOCK);
}
CUDA_THREAD bool cuda_rows_see_span(const struct cuda_rows_span *x, uint32_t r)
{
	return cuda_rows_see(x, r, 0, CUDA_SPAN);
}

/* Whether any row sees something of a block: all rows together see positions without a gap. */
CUDA_THREAD bool cuda_rows_need_block(const struct cuda_rows_span *x, uint32_t b)
{
	const uint32_t last = x->rows - 1;

	return x->position + last - (x->start + b * CUDA_KV_BLOCK) < x->window + last + CUDA_KV_BLOCK - 1;
}

/* The first position that row r sees. */
CUDA_THREAD uint32_t cuda_rows_first(const struct cuda_rows_span *x, uint32_t r)
{
	return cuda_first_seen(x->position + r + 1, x->window);
}

/* Whether row r has a sink: in the first span that it sees. */
CUDA_THREAD bool cuda_rows_sink(const struct cuda_rows_span *x, uint32_t r)
{
	return x->sinks && x->start <= cuda_rows_first(x, r);
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
	const uint32_t j = cuda_thread(), lane = j % CUDA_WARP;

	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_TOGETHER; r++) {
		const bool sees = cuda_rows_see(x, r, j, 1);
		score[r] = sees ? score[r] * p->scale : cuda_minus_infinity();
		const float largest = cuda_largest_number(cuda_number(score[r]), lane);
		if (lane == 0)
			s->warp_max[r * CUDA_SPAN_WARPS + j / CUDA_WARP] = largest;
	}
}

/* The largest score of a row before block b of positions; of all for 4. */
CUDA_THREAD float cuda_rows_max(const struct cuda_rows_span *x, const struct cuda_rows_look *s, uint32_t r,
				uint32_t b)
{
	float max = cuda_rows_sink(x, r) ? x->sinks[x->head] : cuda_minus_infinity();

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
		const float before = cuda_rows_max(x, s, r, b);
		const float *last = s->warp_max + r * CUDA_SPAN_WARPS + 2 * b;
		const float after = cuda_larger(cuda_larger(before, last[0]), last[1]);
		s->e[j * CUDA_TOGETHER + r] = cuda_rows_see(x, r, j, 1) ? cuda_exp(score[r] - after) : 0;
		if (slot == 0)
			s->rescale[r * CUDA_SPAN_BLOCKS + b] =
				cuda_rows_see_block(x, r, b) ? cuda_exp(before - after) : 1;
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

/* Which rows see which of some positions depends on how far they are apart: bit r + 7 - i of `near` says
 * whether row r sees position i. */
enum { CUDA_VALUES_AHEAD = 8, CUDA_NEAR_BITS = CUDA_VALUE_ROWS + CUDA_VALUES_AHEAD - 1 };

CUDA_THREAD int32_t cuda_rows_within(int32_t x, int32_t most)
{
	return x < 0 ? 0 : x < most ? x : most;
}
/* age: how far row 0 is behind position 0. */
CUDA_THREAD uint32_t cuda_rows_near(int32_t age, uint32_t window)
{
	const int32_t from = CUDA_VALUES_AHEAD - 1 - age;

	return (1U << cuda_rows_within(from + (int32_t)window, CUDA_NEAR_BITS)) -
	       (1U << cuda_rows_within(from, CUDA_NEAR_BITS));
}

/* Adds the value of position i to the rows that see it. */
CUDA_THREAD void cuda_rows_value(float v[CUDA_VALUE_ROWS], const float *e, float value, uint32_t near,
				 uint32_t i)
{
	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r += 4) {
		const struct cuda_four four = cuda_four_of(e + r);
		CUDA_UNROLL
		for (uint32_t k = 0; k < 4; k++)
			v[r + k] = near >> (r + k + CUDA_VALUES_AHEAD - 1 - i) & 1
					   ? cuda_fma(four.f[k], value, v[r + k])
					   : v[r + k];
	}
}

/* Adds the values of a block of positions in column d to rows `first` and those after it. */
CUDA_THREAD void cuda_rows_values(const struct cuda_attention *p, const struct cuda_rows_span *x,
				  const struct cuda_rows_look *s, uint32_t first, uint32_t d,
				  uint32_t b, float v[CUDA_VALUE_ROWS])
{
	const uint8_t *block = x->blocks[b];
	/* of no more than 2^32 elements of a block */
	const uint32_t at = (uint32_t)(p->value_offset + x->kv * p->value_step) + d;
	const float *e = s->e + b * CUDA_KV_BLOCK * CUDA_TOGETHER + first;
	const uint32_t beyond = first + CUDA_VALUE_ROWS, start = x->start + b * CUDA_KV_BLOCK;
	const int32_t age = (int32_t)(x->position + first - start),
		      last = age - (int32_t)first + (int32_t)(beyond < x->rows ? beyond : x->rows);
	const int32_t end = cuda_rows_within(last, CUDA_KV_BLOCK); /* of what a row sees */

	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r++)
		v[r] *= s->rescale[(first + r) * CUDA_SPAN_BLOCKS + b];
	CUDA_ROLLED
	for (int32_t j = 0; j < end; j += CUDA_VALUES_AHEAD) {
		const uint32_t near = cuda_rows_near(age - j, x->window);
		float value[CUDA_VALUES_AHEAD];
		if (!near) /* before the window */
			continue;
		CUDA_UNROLL
		for (int32_t i = 0; i < CUDA_VALUES_AHEAD; i++)
			value[i] = cuda_element(block, p->half, at + (uint32_t)(j + i) * p->head_dim);
		CUDA_UNROLL
		for (int32_t i = 0; i < CUDA_VALUES_AHEAD; i++)
			cuda_rows_value(v, e + (j + i) * CUDA_TOGETHER, value[i], near, (uint32_t)i);
	}
}

/* ---- the kernel ---- */

CUDA_THREAD float *cuda_rows_part(const struct cuda_attention *p, const struct cuda_rows_span *x,
				  uint32_t r)
{
	const size_t query = (size_t)(x->t + r) * p->heads + x->head;
	const uint32_t span = (x->start - cuda_rows_first(x, r) / CUDA_SPAN * CUDA_SPAN) / CUDA_SPAN;

	return p->parts + ((size_t)span * p->n * p->heads + query) * cuda_part(p->head_dim);
}

/* By one thread for a row: the largest score and the sum of all exponentials. */
CUDA_THREAD void cuda_rows_end(const struct cuda_attention *p, const struct cuda_rows_span *x,
			       const struct cuda_rows_look *s, uint32_t r)
{
	float *part = cuda_rows_part(p, x, r), sum = cuda_rows_sink(x, r) ? 1 : 0;

	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++)
		if (cuda_rows_see_block(x, r, b))
			sum = cuda_fma(sum, s->rescale[r * CUDA_SPAN_BLOCKS + b],
				       s->sum[r * CUDA_SPAN_BLOCKS + b]);
	part[p->head_dim] = cuda_rows_max(x, s, r, CUDA_SPAN_BLOCKS);
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
			if (cuda_rows_need_block(x, b))
				cuda_rows_values(p, x, s, first, d, b, v);
		CUDA_UNROLL
		for (uint32_t r = 0; r < CUDA_VALUE_ROWS; r++)
			if (cuda_rows_see_span(x, first + r))
				cuda_rows_part(p, x, first + r)[d] = v[r];
	}
}

/* The rows are of one context, at positions that follow each other. */
CUDA_KERNEL_OF(256) cuda_attend_rows(struct cuda_attention p)
{
	const struct cuda_rows_look s = cuda_rows_look_of(p.head_dim);
	float score[CUDA_TOGETHER];

	cuda_wait_for_ahead();
	const struct cuda_rows_span x = cuda_rows_span_now(&p);
	if (x.start >= x.position + x.rows)
		return;
	cuda_rows_load(&p, &x, &s);
	CUDA_UNROLL
	for (uint32_t r = 0; r < CUDA_TOGETHER; r++)
		score[r] = 0;
	cuda_barrier();
	if (cuda_rows_need_block(&x, cuda_thread() / CUDA_KV_BLOCK))
		cuda_rows_scores(&p, &x, &s, score);
	cuda_rows_largest(&p, &x, &s, score);
	cuda_barrier();
	cuda_rows_exponentials(&x, &s, score);
	cuda_barrier();
	cuda_rows_sums(&s);
	cuda_rows_put_values(&p, &x, &s);
	cuda_barrier();
	if (cuda_rows_see_span(&x, cuda_thread()))
		cuda_rows_end(&p, &x, &s, cuda_thread());
}
