/* cuda_place_heads and cuda_attend_spans in one launch, for few rows. A block of threads copies the keys and
 * values that earlier steps left to shared memory while kernels ahead still run: of a step's kernels only those
 * of this layer write its keys and values, and a step begins with a copy to the GPU, which waits for all before
 * it. Norms and positions of the queries, and of the keys and values that the step itself adds to the row's
 * context, are computed by each block for itself. */
#include "kernels/cuda/cuda_attention.h"

enum {
	CUDA_NEAR_WARPS = CUDA_SPAN / CUDA_WARP,
	CUDA_NEAR_AHEAD = 8,	/* elements or positions that are loaded before one is used */
	CUDA_NEAR_CHUNK = 2 * CUDA_NEAR_AHEAD,
	CUDA_NEAR_CHUNKS = CUDA_SPAN / CUDA_NEAR_CHUNK,
	CUDA_NEAR_HEADS = 2,	/* most of a thread */
};

/* In shared memory: values and keys; then of each head the query, exponentials, by what all before shrinks with
 * each chunk of 16 positions, the same of each block of positions, the largest scores of both halves of each
 * block, and its sink or minus infinity. Loops load one step more than they use: behind each array there is
 * another one. */
struct cuda_near {
	uint16_t *values, *keys; /* [256][128], [4][128][CUDA_NEAR_STEP] */
	float *q, *e, *factor;	 /* [heads][128], [heads][256], [heads][16] */
	float *rescale, *max, *sink; /* [heads][4], [heads][8], [heads] */
};

CUDA_THREAD struct cuda_near cuda_near_of(uint32_t heads)
{
	struct cuda_near s;

	s.values = (uint16_t *)(void *)cuda_shared();
	s.keys = s.values + CUDA_SPAN * CUDA_HEAD;
	s.q = (float *)(void *)(s.keys + CUDA_SPAN_BLOCKS * CUDA_HEAD * CUDA_NEAR_STEP);
	s.e = s.q + heads * CUDA_HEAD;
	s.factor = s.e + heads * CUDA_SPAN;
	s.rescale = s.factor + heads * CUDA_NEAR_CHUNKS;
	s.max = s.rescale + heads * CUDA_SPAN_BLOCKS;
	s.sink = s.max + heads * 2 * CUDA_SPAN_BLOCKS;
	return s;
}

/* What a block of threads has: queries of row `row` from `query` on, which are the row's heads from `head` on,
 * and the span of positions from `start` on. Of those the row sees [from, to), counted from the start; the step
 * adds those from `fresh` on. last: the row's own place, which may be behind the span. */
struct cuda_near_span {
	const uint8_t *const *blocks;
	uint32_t row, query, head, kv, start, from, fresh, to, last;
	bool writes; /* what the row adds to its context, if it is in the span */
};

CUDA_THREAD uint32_t cuda_near_divided(uint32_t a, uint32_t inverse)
{
	return (uint32_t)((uint64_t)a * inverse >> CUDA_NEAR_INVERSE);
}

/* The place of a position in the span, `low` to `high` where it is not there. */
CUDA_THREAD uint32_t cuda_near_place(uint32_t position, uint32_t start, uint32_t low, uint32_t high)
{
	const uint32_t place = position > start ? position - start : 0;

	return place < low ? low : place < high ? place : high;
}

CUDA_THREAD struct cuda_near_span cuda_near_span_now(const struct cuda_attend_heads *p)
{
	const struct cuda_attention *a = &p->attention;
	struct cuda_near_span x;

	x.query = cuda_block_x() * p->together;
	x.row = cuda_near_divided(x.query, p->heads_inverse);
	x.head = x.query - x.row * a->heads;
	x.kv = cuda_near_divided(x.head, p->group_inverse);
	x.writes = x.head == x.kv * a->group;
	const struct cuda_row row = a->rows[x.row];
	const uint32_t first = cuda_first_seen(row.position + 1, a->window);
	x.start = (first / CUDA_SPAN + cuda_block_y()) * CUDA_SPAN;
	x.last = row.position - x.start;
	x.blocks = row.blocks + x.start / CUDA_KV_BLOCK;
	x.to = cuda_near_place(row.position + 1, x.start, 0, CUDA_SPAN);
	x.from = cuda_near_place(first, x.start, 0, x.to);
	x.fresh = cuda_near_place(row.first, x.start, x.from, x.to);
	return x;
}

/* Whether this is the first span that the row sees, and heads have sinks. */
CUDA_THREAD bool cuda_near_sinks(const struct cuda_attention *p)
{
	return p->sinks && cuda_block_y() == 0;
}

CUDA_THREAD void cuda_near_load_sinks(const struct cuda_attend_heads *p, const struct cuda_near_span *x,
				      const struct cuda_near *s)
{
	const uint32_t i = cuda_thread();

	if (i < p->together)
		s->sink[i] = cuda_near_sinks(&p->attention) ? p->attention.sinks[x->head + i]
							    : cuda_minus_infinity();
}

/* ---- what earlier steps left: two warps have a block of positions ---- */

CUDA_THREAD void cuda_near_copy_keys(const struct cuda_attention *p, const struct cuda_near_span *x,
				     const struct cuda_near *s, const uint8_t *block)
{
	enum { EACH = 8 }; /* keys of 16 bytes */
	const uint32_t warp = cuda_thread() / CUDA_WARP, lane = cuda_thread() % CUDA_WARP, b = warp / 2;
	const uint32_t slot = lane % (CUDA_KV_BLOCK / EACH) * EACH, place = b * CUDA_KV_BLOCK + slot;
	const uint32_t first = warp % 2 * 4 + lane / EACH; /* element */
	const uint16_t *from = (const uint16_t *)(const void *)block + p->key_offset + x->kv * p->key_step +
			       first * CUDA_KV_BLOCK + slot;
	uint32_t to = cuda_shared_byte(s->keys + (b * CUDA_HEAD + first) * CUDA_NEAR_STEP + slot);

	if (place + EACH <= x->from || place >= x->fresh)
		return;
	CUDA_ROLLED
	for (uint32_t d = 0; d < p->head_dim; d += CUDA_WARP) {
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_WARP; i += 8)
			cuda_copy16_at(to + i * CUDA_NEAR_STEP * 2, from + i * CUDA_KV_BLOCK);
		to += CUDA_WARP * CUDA_NEAR_STEP * 2;
		from += CUDA_WARP * CUDA_KV_BLOCK;
	}
}

CUDA_THREAD void cuda_near_copy_values(const struct cuda_attention *p, const struct cuda_near_span *x,
				       const struct cuda_near *s, const uint8_t *block)
{
	enum { EACH = 8 }; /* elements of 16 bytes */
	const uint32_t warp = cuda_thread() / CUDA_WARP, lane = cuda_thread() % CUDA_WARP;
	const uint32_t d = lane % (CUDA_HEAD / EACH) * EACH, slot = warp % 2 * 2 + lane / 16;
	const uint16_t *from = (const uint16_t *)(const void *)block + p->value_offset +
			       x->kv * p->value_step + slot * p->head_dim + d;
	uint32_t place = warp / 2 * CUDA_KV_BLOCK + slot;
	uint32_t to = cuda_shared_byte(s->values + place * CUDA_HEAD + d);

	if (d >= p->head_dim)
		return;
	CUDA_ROLLED
	for (uint32_t k = 0; k < CUDA_KV_BLOCK; k += 16) {
		CUDA_UNROLL
		for (uint32_t i = 0; i < 16; i += 4)
			if (place + i >= x->from && place + i < x->fresh)
				cuda_copy16_at(to + i * CUDA_HEAD * 2, from + i * p->head_dim);
		to += 16 * CUDA_HEAD * 2;
		from += 16 * p->head_dim;
		place += 16;
	}
}

/* Eight halves -0: what they are multiplied by and added to does not change. */
CUDA_THREAD void cuda_near_clear(uint16_t *shared)
{
	struct cuda_four four;

	for (uint32_t i = 0; i < 4; i++)
		four.f[i] = cuda_float(0x80008000);
	*(struct cuda_four *)(void *)shared = four;
}

/* Values that are not seen, in chunks of which something is seen: each thread has eight of the first chunk and
 * of the last one. */
CUDA_THREAD void cuda_near_clear_ends(const struct cuda_near_span *x, const struct cuda_near *s)
{
	const uint32_t row = cuda_thread() / 16, d = cuda_thread() % 16 * 8;
	const uint32_t first = x->from / CUDA_NEAR_CHUNK * CUDA_NEAR_CHUNK + row,
		       last = x->to / CUDA_NEAR_CHUNK * CUDA_NEAR_CHUNK + row;

	if (first < x->from)
		cuda_near_clear(s->values + first * CUDA_HEAD + d);
	if (last >= x->to && last < CUDA_SPAN)
		cuda_near_clear(s->values + last * CUDA_HEAD + d);
}

CUDA_THREAD void cuda_near_copy(const struct cuda_attention *p, const struct cuda_near_span *x,
				const struct cuda_near *s)
{
	const uint32_t b = cuda_thread() / CUDA_WARP / 2, first = b * CUDA_KV_BLOCK;
	const bool some = first + CUDA_KV_BLOCK > x->from && first < x->fresh;
	const uint8_t *block = some ? x->blocks[b] : NULL;

	if (some)
		cuda_near_copy_keys(p, x, s, block);
	cuda_copies_end();
	if (some)
		cuda_near_copy_values(p, x, s, block);
	cuda_copies_end();
	cuda_near_clear_ends(x, s);
}

/* ---- heads of the step: a warp has a query, a key or a value ---- */

/* A head, as a thread has every 32nd element of it: where that comes from and goes to, and all that no kernel of
 * the step writes. A query goes to q, a key or value to `near` and `block`, whose elements are `step` apart;
 * where block is NULL, another block of threads writes it. */
struct cuda_near_head {
	const float *from;
	float w[CUDA_HEAD_EACH], cos[CUDA_HEAD_EACH / 2], sin[CUDA_HEAD_EACH / 2];
	bool normed, turned;
	float *q, *key; /* key: where a key goes as it is, or NULL */
	uint16_t *near, *block;
	uint32_t near_step, block_step;
};

CUDA_THREAD uint32_t cuda_near_heads(const struct cuda_attend_heads *p, const struct cuda_near_span *x)
{
	return p->together + 2 * (x->to - x->fresh);
}

/* Where a key or value at a place of the span goes. `writes`: not only to shared memory. */
CUDA_THREAD void cuda_near_goes_to(struct cuda_near_head *n, const struct cuda_keys *p,
				   const struct cuda_near_span *x, const struct cuda_near *s, uint32_t place,
				   bool value, bool writes)
{
	const uint32_t slot = place % CUDA_KV_BLOCK, b = place / CUDA_KV_BLOCK, lane = cuda_thread() % CUDA_WARP;

	n->near_step = value ? 1 : CUDA_NEAR_STEP;
	n->block_step = value ? 1 : CUDA_KV_BLOCK;
	n->near = value ? s->values + place * CUDA_HEAD : s->keys + b * CUDA_HEAD * CUDA_NEAR_STEP + slot;
	n->near += lane * n->near_step;
	if (!writes)
		return;
	n->block = (uint16_t *)(uintptr_t)x->blocks[b] + lane * n->block_step;
	n->block += value ? p->value_offset + x->kv * p->value_step + (size_t)slot * p->head_dim
			  : p->key_offset + x->kv * p->key_step + slot;
}

CUDA_THREAD void cuda_near_constants(struct cuda_near_head *n, const struct cuda_heads *p, const float *w,
				     uint32_t row)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;

	n->normed = w != NULL;
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++)
		n->w[e] = w && e * CUDA_WARP < p->keys.head_dim ? w[e * CUDA_WARP + lane] : 1;
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH / 2; e++) {
		const uint32_t i = e * CUDA_WARP + lane; /* of 16 pairs both threads have the angle */
		const size_t angle = (size_t)row * p->turned + (i < p->turned ? i : i - p->turned);
		n->cos[e] = e * CUDA_WARP < p->turned ? p->cos[angle] : 1;
		n->sin[e] = e * CUDA_WARP < p->turned ? p->sin[angle] : 0;
	}
}

/* The queries come first, then the key and the value of each place. */
CUDA_THREAD struct cuda_near_head cuda_near_head_of(const struct cuda_attend_heads *p,
						    const struct cuda_near_span *x, const struct cuda_near *s,
						    uint32_t item)
{
	const struct cuda_heads *h = &p->heads;
	const bool query = item < p->together, value = !query && (item - p->together) % 2;
	const uint32_t place = query ? 0 : x->fresh + (item - p->together) / 2;
	/* the row itself is at the last place; those of its context are one after the other */
	const uint32_t row = query ? x->row : x->row - (x->last - place);
	const size_t lane = cuda_thread() % CUDA_WARP;
	const size_t at = ((size_t)row * h->keys.heads + x->kv) * h->keys.head_dim + lane;
	const bool writes = x->writes && row == x->row;
	struct cuda_near_head n = {.from = h->keys.key + at};

	n.turned = !value;
	if (query) {
		n.from = h->q_from + (size_t)(x->query + item) * h->q_step + lane;
		n.q = s->q + item * CUDA_HEAD + lane;
	} else {
		cuda_near_goes_to(&n, &h->keys, x, s, place, value, writes);
		if (value)
			n.from = h->keys.value + at;
		else if (writes)
			n.key = h->key + at;
	}
	cuda_near_constants(&n, h, query ? h->q_norm : value ? NULL : h->key_norm, row);
	return n;
}

CUDA_THREAD void cuda_near_load(float x[CUDA_HEAD_EACH], const struct cuda_near_head *n, uint32_t dim)
{
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++)
		x[e] = e * CUDA_WARP < dim ? n->from[e * CUDA_WARP] : 0;
}

CUDA_THREAD void cuda_near_turn(float x[CUDA_HEAD_EACH], const struct cuda_near_head *n, uint32_t turned)
{
	if (turned == 2 * CUDA_WARP) {
		cuda_rotate_pair(&x[0], &x[2], n->cos[0], n->sin[0]);
		cuda_rotate_pair(&x[1], &x[3], n->cos[1], n->sin[1]);
	} else if (turned == CUDA_WARP) {
		cuda_rotate_pair(&x[0], &x[1], n->cos[0], n->sin[0]);
	} else if (turned == CUDA_LANES) {
		const bool upper = cuda_thread() % CUDA_WARP >= CUDA_LANES;
		const float other = cuda_swap_float(x[0], CUDA_LANES);
		float first = upper ? other : x[0], second = upper ? x[0] : other;
		cuda_rotate_pair(&first, &second, n->cos[0], n->sin[0]);
		x[0] = upper ? second : first;
	}
}

CUDA_THREAD void cuda_near_put(const struct cuda_near_head *n, const float x[CUDA_HEAD_EACH], uint32_t dim)
{
	CUDA_UNROLL
	for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++) {
		const uint32_t d = e * CUDA_WARP;
		const uint16_t half = cuda_to_half(x[e]);
		if (d >= dim)
			break;
		if (n->q)
			n->q[d] = x[e];
		else
			n->near[d * n->near_step] = half;
		if (n->block)
			n->block[d * n->block_step] = half;
		if (n->key)
			n->key[d] = x[e];
	}
}

/* The norm and the positions of a head; numbers beyond its end are zeros, which sums do not see. */
CUDA_THREAD void cuda_near_place_head(const struct cuda_heads *p, const struct cuda_near_head *n,
				      float x[CUDA_HEAD_EACH])
{
	const uint32_t dim = p->keys.head_dim;

	if (n->normed) {
		const float scale = cuda_norm_scale(cuda_head_squares(x), dim, p->eps);
		CUDA_UNROLL
		for (uint32_t e = 0; e < CUDA_HEAD_EACH; e++)
			x[e] = x[e] * scale * n->w[e];
	}
	if (n->turned)
		cuda_near_turn(x, n, p->turned);
	cuda_near_put(n, x, dim);
}

/* Waits for the kernel ahead. Keys of the step come among those that were copied. */
CUDA_THREAD void cuda_near_place_heads(const struct cuda_attend_heads *p, const struct cuda_near_span *x,
				       const struct cuda_near *s)
{
	const uint32_t heads = cuda_near_heads(p, x), dim = p->heads.keys.head_dim;
	uint32_t item = cuda_thread() / CUDA_WARP;
	struct cuda_near_head n = {0};
	float head[CUDA_HEAD_EACH] = {0, 0, 0, 0};

	if (item < heads)
		n = cuda_near_head_of(p, x, s, item);
	cuda_wait_for_ahead();
	if (item < heads)
		cuda_near_load(head, &n, dim);
	cuda_copies_wait_but_last();
	cuda_barrier();
	while (item < heads) {
		cuda_near_place_head(&p->heads, &n, head);
		item += CUDA_NEAR_WARPS;
		if (item >= heads)
			break;
		n = cuda_near_head_of(p, x, s, item);
		cuda_near_load(head, &n, dim);
	}
}

/* The next CUDA_NEAR_AHEAD numbers of `some` heads, a constant, which are `step` apart. */
CUDA_THREAD void cuda_near_numbers(struct cuda_four to[][CUDA_NEAR_AHEAD / 4], uint32_t some, const float *from,
				   uint32_t step)
{
	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++) {
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_NEAR_AHEAD; i += 4)
			to[h][i / 4] = cuda_four_of(from + h * step + i);
	}
}

/* ---- scores: a thread has one or two positions of some heads ---- */

/* Elements of keys, and of the queries. */
struct cuda_near_keys {
	struct cuda_pair key[CUDA_NEAR_AHEAD];
	struct cuda_four q[CUDA_NEAR_HEADS][CUDA_NEAR_AHEAD / 4];
};

/* keys: a byte of shared memory. each and some are constants. */
CUDA_THREAD void cuda_near_keys_load(struct cuda_near_keys *k, uint32_t each, uint32_t some, uint32_t keys,
				     const float *q)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_NEAR_AHEAD; i++)
		if (each == 1)
			k->key[i].f[0] = cuda_shared_half(keys + i * CUDA_NEAR_STEP * 2);
		else
			k->key[i] = cuda_shared_pair(keys + i * CUDA_NEAR_STEP * 2);
	cuda_near_numbers(k->q, some, q, CUDA_HEAD);
}

CUDA_THREAD void cuda_near_keys_added(float score[][2], uint32_t each, uint32_t some,
				      const struct cuda_near_keys *k)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_NEAR_AHEAD; i++) {
		CUDA_UNROLL
		for (uint32_t h = 0; h < some; h++) {
			CUDA_UNROLL
			for (uint32_t j = 0; j < each; j++)
				score[h][j] = cuda_fma(k->q[h][i / 4].f[i % 4], k->key[i].f[j], score[h][j]);
		}
	}
}

/* Of the queries from `head` on, and of `each` positions from `place` on. */
CUDA_THREAD void cuda_near_scores(const struct cuda_attention *p, const struct cuda_near *s, uint32_t each,
				  uint32_t some, uint32_t head, uint32_t place, float score[][2])
{
	const uint32_t first = place / CUDA_KV_BLOCK * CUDA_HEAD * CUDA_NEAR_STEP + place % CUDA_KV_BLOCK;
	const float *q = s->q + head * CUDA_HEAD;
	uint32_t keys = cuda_shared_byte(s->keys + first);
	struct cuda_near_keys now, next;

	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++)
		score[h][0] = score[h][1] = 0;
	cuda_near_keys_load(&now, each, some, keys, q);
	CUDA_ROLLED
	for (uint32_t d = 0; d < p->head_dim; d += CUDA_NEAR_CHUNK) {
		cuda_near_keys_load(&next, each, some, keys + CUDA_NEAR_AHEAD * CUDA_NEAR_STEP * 2,
				    q + CUDA_NEAR_AHEAD);
		cuda_near_keys_added(score, each, some, &now);
		keys += CUDA_NEAR_CHUNK * CUDA_NEAR_STEP * 2;
		q += CUDA_NEAR_CHUNK;
		cuda_near_keys_load(&now, each, some, keys, q);
		cuda_near_keys_added(score, each, some, &next);
	}
	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++) {
		score[h][0] *= p->scale;
		score[h][1] *= p->scale;
	}
}

CUDA_THREAD bool cuda_near_sees(const struct cuda_near_span *x, uint32_t place)
{
	return place >= x->from && place < x->to;
}

/* Whether something of a block of positions is seen. */
CUDA_THREAD bool cuda_near_sees_block(const struct cuda_near_span *x, uint32_t b)
{
	return b * CUDA_KV_BLOCK < x->to && (b + 1) * CUDA_KV_BLOCK > x->from;
}

/* Scores that are not seen become minus infinity. A warp has half of a block of positions, or a whole one. */
CUDA_THREAD void cuda_near_largest(const struct cuda_near_span *x, const struct cuda_near *s, uint32_t each,
				   uint32_t some, uint32_t head, uint32_t place, float score[][2])
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;

	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++) {
		float *max = s->max + (head + h) * 2 * CUDA_SPAN_BLOCKS + place / CUDA_WARP;
		CUDA_UNROLL
		for (uint32_t i = 0; i < 2; i++)
			if (i >= each || !cuda_near_sees(x, place + i))
				score[h][i] = cuda_minus_infinity();
		/* Of zeros 0 is larger than -0, which no output shows: largest scores are only subtracted. */
		const uint32_t first = cuda_key(score[h][0]), second = cuda_key(score[h][1]);
		const float largest = cuda_number_of_key(cuda_largest(first > second ? first : second));
		if (lane == 0)
			max[0] = largest;
		if (lane == 0 && each == 2)
			max[1] = largest;
	}
}

/* The exponentials of a head's scores. */
CUDA_THREAD void cuda_near_exponentials(const struct cuda_near_span *x, const struct cuda_near *s, uint32_t each,
					uint32_t head, uint32_t place, const float score[2])
{
	const uint32_t own = place / CUDA_KV_BLOCK, chunk = place / CUDA_NEAR_CHUNK;
	const float *largest = s->max + head * 2 * CUDA_SPAN_BLOCKS;
	const struct cuda_four four[2] = {cuda_four_of(largest), cuda_four_of(largest + 4)};
	float max = s->sink[head], before = max, after = max;

	CUDA_UNROLL
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		before = b == own ? max : before;
		max = cuda_larger(max, four[b / 2].f[b % 2 * 2]);
		max = cuda_larger(max, four[b / 2].f[b % 2 * 2 + 1]);
		after = b == own ? max : after;
	}
	CUDA_UNROLL
	for (uint32_t i = 0; i < each; i++) {
		const float e = cuda_exp(score[i] - after);
		s->e[head * CUDA_SPAN + place + i] = cuda_near_sees(x, place + i) ? e : 0;
	}
	const float rescale = cuda_exp(before - after);
	if (place % CUDA_NEAR_CHUNK == 0)
		s->factor[head * CUDA_NEAR_CHUNKS + chunk] =
			place % CUDA_KV_BLOCK == 0 || chunk == x->from / CUDA_NEAR_CHUNK ? rescale : 1;
	if (place % CUDA_KV_BLOCK == 0)
		s->rescale[head * CUDA_SPAN_BLOCKS + own] = rescale;
}

/* By a warp: a head's largest score and the sum of all its exponentials. */
CUDA_THREAD void cuda_near_end(const struct cuda_attention *p, const struct cuda_near_span *x,
			       const struct cuda_near *s, uint32_t head, float *part)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP, half = lane / CUDA_LANES;
	const float *e = s->e + head * CUDA_SPAN + lane % CUDA_LANES;
	float sum = cuda_near_sinks(p) ? 1 : 0, max = s->sink[head], sums[2] = {0, 0};

	CUDA_UNROLL
	for (uint32_t i = 0; i < 2; i++) { /* blocks 0 and 1, then 2 and 3 */
		CUDA_UNROLL
		for (uint32_t k = 0; k < CUDA_KV_BLOCK; k += CUDA_LANES)
			sums[i] += e[(2 * i + half) * CUDA_KV_BLOCK + k];
		sums[i] = cuda_sum_lanes(sums[i]);
	}
	CUDA_UNROLL
	for (uint32_t b = 0; b < CUDA_SPAN_BLOCKS; b++) {
		const uint32_t at = head * CUDA_SPAN_BLOCKS + b;
		const float own = cuda_float(cuda_from_lane(cuda_bits(sums[b / 2]), b % 2 * CUDA_LANES));
		max = cuda_larger(cuda_larger(max, s->max[2 * at]), s->max[2 * at + 1]);
		if (cuda_near_sees_block(x, b))
			sum = cuda_fma(sum, s->rescale[at], own);
	}
	if (lane == 0) {
		part[p->head_dim] = max;
		part[p->head_dim + 1] = sum;
	}
}

/* ---- values: a thread has a column of some heads ---- */

/* The values of some positions, and their exponentials; `values` is a byte of shared memory. */
struct cuda_near_values {
	float value[CUDA_NEAR_AHEAD];
	struct cuda_four e[CUDA_NEAR_HEADS][CUDA_NEAR_AHEAD / 4];
};

CUDA_THREAD void cuda_near_values_load(struct cuda_near_values *v, uint32_t some, uint32_t values,
				       const float *e)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_NEAR_AHEAD; i++)
		v->value[i] = cuda_shared_half(values + i * CUDA_HEAD * 2);
	cuda_near_numbers(v->e, some, e, CUDA_SPAN);
}

CUDA_THREAD void cuda_near_values_added(float *sum, uint32_t some, const struct cuda_near_values *v)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_NEAR_AHEAD; i++) {
		CUDA_UNROLL
		for (uint32_t h = 0; h < some; h++)
			sum[h] = cuda_fma(v->e[h][i / 4].f[i % 4], v->value[i], sum[h]);
	}
}

/* The sums of a column of the heads from `head` on, over all chunks of which something is seen. */
CUDA_THREAD void cuda_near_sums(const struct cuda_near_span *x, const struct cuda_near *s, uint32_t some,
				uint32_t head, uint32_t column, float *sum)
{
	const uint32_t begin = x->from / CUDA_NEAR_CHUNK * CUDA_NEAR_CHUNK;
	uint32_t values = cuda_shared_byte(s->values + begin * CUDA_HEAD + column);
	const float *e = s->e + head * CUDA_SPAN + begin;
	const float *factors = s->factor + head * CUDA_NEAR_CHUNKS + begin / CUDA_NEAR_CHUNK;
	struct cuda_near_values first, second;
	float factor[CUDA_NEAR_HEADS] = {0, 0};

	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++) {
		sum[h] = 0;
		factor[h] = factors[h * CUDA_NEAR_CHUNKS];
	}
	cuda_near_values_load(&first, some, values, e);
	CUDA_ROLLED
	for (uint32_t j = begin; j < x->to; j += CUDA_NEAR_CHUNK) {
		cuda_near_values_load(&second, some, values + CUDA_NEAR_AHEAD * CUDA_HEAD * 2, e + CUDA_NEAR_AHEAD);
		factors++;
		CUDA_UNROLL
		for (uint32_t h = 0; h < some; h++) {
			sum[h] *= factor[h];
			factor[h] = factors[h * CUDA_NEAR_CHUNKS];
		}
		cuda_near_values_added(sum, some, &first);
		values += CUDA_NEAR_CHUNK * CUDA_HEAD * 2;
		e += CUDA_NEAR_CHUNK;
		cuda_near_values_load(&first, some, values, e);
		cuda_near_values_added(sum, some, &second);
	}
}

/* ---- the kernel ---- */

/* What follows when all is in shared memory. each and some are constants: a thread has the scores of `each`
 * positions and `some` heads, then a column of as many heads. Threads that have none wait for the others, and
 * end heads. */
CUDA_THREAD void cuda_near_attend(const struct cuda_attend_heads *p, const struct cuda_near_span *x,
				  const struct cuda_near *s, uint32_t each, uint32_t some)
{
	const struct cuda_attention *a = &p->attention;
	const uint32_t threads = CUDA_SPAN / each; /* of a head's scores */
	const uint32_t scored = cuda_thread() / threads * some, place = cuda_thread() % threads * each;
	const uint32_t head = cuda_thread() / CUDA_HEAD * some, column = cuda_thread() % CUDA_HEAD;
	const uint32_t ended = CUDA_NEAR_WARPS - 1 - cuda_thread() / CUDA_WARP; /* the head that the warp ends */
	const size_t step = cuda_part(a->head_dim);
	float *part = a->parts + ((size_t)cuda_block_y() * a->n * a->heads + x->query) * step;
	float score[CUDA_NEAR_HEADS][2], sum[CUDA_NEAR_HEADS];

	cuda_near_scores(a, s, each, some, scored, place, score);
	cuda_near_largest(x, s, each, some, scored, place, score);
	cuda_barrier();
	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++)
		cuda_near_exponentials(x, s, each, scored + h, place, score[h]);
	cuda_copies_wait();
	cuda_barrier();
	if (ended < p->together)
		cuda_near_end(a, x, s, ended, part + ended * step);
	if (head >= p->together || column >= a->head_dim)
		return;
	cuda_near_sums(x, s, some, head, column, sum);
	CUDA_UNROLL
	for (uint32_t h = 0; h < some; h++)
		part[(head + h) * step + column] = sum[h];
}

CUDA_KERNEL_OF(256) cuda_attend_heads(struct cuda_attend_heads p)
{
	cuda_let_next_begin();
	const struct cuda_near_span x = cuda_near_span_now(&p);
	const struct cuda_near s = cuda_near_of(p.together);
	if (!x.to) {
		cuda_wait_for_ahead();
		return;
	}
	cuda_near_copy(&p.attention, &x, &s);
	cuda_near_load_sinks(&p, &x, &s);
	cuda_near_place_heads(&p, &x, &s);
	cuda_barrier();
	if (p.together == 1)
		cuda_near_attend(&p, &x, &s, 1, 1);
	else if (p.together == 2)
		cuda_near_attend(&p, &x, &s, 2, 1);
	else
		cuda_near_attend(&p, &x, &s, 2, CUDA_NEAR_HEADS);
}
