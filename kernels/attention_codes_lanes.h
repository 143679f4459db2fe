/* Attention to keys and values in codes (kv_codes.h), for every instruction set; within kernels/
 * only. A span of 256 positions at a time: all scores, one softmax, all sums.
 *
 * Included at the end of attention_lanes.h, which has the loops over queries and spans. The
 * *_attention.c of each table defines before:
 *
 *     struct attention_keys           LANES positions of 4 columns
 *     codes_query                 an element of a query: int8_t, or int16_t if bytes have to be
 *                                 widened to be multiplied; 4 of them meet 4 columns
 *     codes_place(i)              the place of element i of 4
 *     CODES_OFFSET                added to each code of a key by attention_dot_keys
 *     attention_load_keys(p)          from 4 · LANES bytes
 *     attention_dot_keys(sum, k, q)   sum += their dots with the 4 elements at q
 *     codes_load_values(p)        4 positions of LANES columns, as lanes_ints
 *     attention_dot_values(sum, v, w) sum += their dots with the 4 digits at w
 *     codes_all(i), codes_floats(sum)
 *     codes_join(high, low)       high · 128 + low
 *     codes_ask(p)                prefetches the line at p, which is needed later
 *     CODES_KEYS                  registers of positions that 4 queries meet together
 *     CODES_VALUES                registers of columns, likewise; at most 16 / LANES in a part
 */
#ifndef MOEFS_KERNELS_ATTENTION_CODES_LANES_H
#define MOEFS_KERNELS_ATTENTION_CODES_LANES_H

enum { CODES_TILE = 4 }; /* queries that meet a vector of codes together */

/* The state of n queries and of the present span. */
struct attention_codes {
	struct kv_codes keys, values;
	size_t queries, tiles; /* the first query that sees some of the span; tiles from it on */
	size_t first, end;     /* blocks of the span that some query sees */
	const uint8_t *key[SPAN_BLOCKS], *value[SPAN_BLOCKS]; /* their codes in 8 bits */
	/* Memory to prefetch with every row of a block's keys while the first queries meet the
	 * keys, and with every row of its values: other values, and the next span's keys. */
	struct codes_ahead {
		const uint8_t *at[SPAN_BLOCKS];
		size_t step; /* bytes per 256 of the row */
	} at_keys, at_values;

	codes_query q[QUERIES_AT_ONCE][KV_CODES_WIDEST];
	float scale[QUERIES_AT_ONCE][KV_CODES_PARTS];
	int32_t sums[QUERIES_AT_ONCE][KV_CODES_PARTS];
	/* For the queries: scores, then exponentials; the weights of positions for one part of the
	 * values, and the value of a unit of the weights. */
	float p[QUERIES_AT_ONCE][ATTENTION_SPAN];
	uint8_t high[QUERIES_AT_ONCE][ATTENTION_SPAN], low[QUERIES_AT_ONCE][ATTENTION_SPAN];
	float unit[QUERIES_AT_ONCE];

	float key_scales[KV_CODES_PARTS][ATTENTION_SPAN],
		value_scales[KV_CODES_PARTS][ATTENTION_SPAN];
	_Alignas(64) uint8_t made_keys[SPAN_BLOCKS][KV_BLOCK * KV_CODES_WIDEST];
	_Alignas(64) uint8_t made_values[SPAN_BLOCKS][KV_BLOCK * KV_CODES_WIDEST];
};

/* ---- queries ---- */

static void codes_begin(struct attention_codes *c, const struct query *queries, size_t n,
			const struct attention *a)
{
	c->keys = kv_codes_of_keys(a->type, a->head_dim, a->latent_dim);
	c->values = a->latent_dim ? kv_codes_of_latents(a->type, a->latent_dim)
				  : kv_codes_of_values(a->type, a->head_dim);
	for (size_t i = 0; i < n; i++) {
		int8_t q[KV_CODES_WIDEST] = {0};
		kv_codes_ask(q, c->scale[i], c->sums[i], &c->keys, queries[i].q, a->scale);
		for (size_t d = 0; d < c->keys.columns; d++)
			c->q[i][d / KV_CODES_QUAD * KV_CODES_QUAD +
				codes_place(d % KV_CODES_QUAD)] = q[d];
	}
}

/* ---- the codes of a span ---- */

static void codes_read_scales(float scales[][ATTENTION_SPAN], const struct kv_codes *codes,
			      size_t parts, const uint8_t *block, size_t at)
{
	const uint16_t *from = (const void *)(block + kv_codes_scales(codes));

	for (size_t g = 0; g < parts; g++, from += KV_BLOCK)
		for (size_t j = 0; j < KV_BLOCK; j += LANES)
			lanes_store(scales[g] + at + j, LANES, lanes_load_f16(from + j, LANES));
}

static __attribute__((noinline)) void codes_read_block(struct attention_codes *c,
						       const struct attention *a, size_t b,
						       const uint8_t *block)
{
	const uint8_t *keys = block + a->key_offset, *values = block + a->value_offset;

	codes_read_scales(c->key_scales, &c->keys, c->keys.parts, keys, b * KV_BLOCK);
	c->key[b] = keys;
	if (c->keys.four) {
		kv_codes_expand_keys(c->made_keys[b], &c->keys, keys);
		c->key[b] = c->made_keys[b];
	}
	c->value[b] = values;
	if (a->latent_dim) {
		kv_codes_turn(c->made_values[b], c->key[b], c->values.columns);
		c->value[b] = c->made_values[b];
		return;
	}
	codes_read_scales(c->value_scales, &c->values, c->values.parts, values, b * KV_BLOCK);
	if (c->values.four) {
		kv_codes_expand_values(c->made_values[b], &c->values, values);
		c->value[b] = c->made_values[b];
	}
}

/* A tile's share of the prefetches of each row, since bursts of prefetches wait for each other. */
struct codes_share {
	const uint8_t *at;
	size_t step, lines;
};

/* The share of `step` bytes for each row, from `at` on. */
ALWAYS_INLINE struct codes_share codes_share_of(const struct attention_codes *c, size_t query,
						const uint8_t *at, size_t step)
{
	const size_t tile = (query - c->queries) / CODES_TILE, lines = step / CACHE_LINE;
	const size_t each = (lines + c->tiles - 1) / c->tiles, before = tile * each;
	const size_t left = before < lines ? lines - before : 0;

	return (struct codes_share){at + before * CACHE_LINE, step, left < each ? left : each};
}

ALWAYS_INLINE void codes_ask_for(struct codes_share *s)
{
	for (size_t line = 0; line < s->lines; line++)
		codes_ask(s->at + line * CACHE_LINE);
	s->at += s->step;
}

/* Codes of 8 bits are read in place, so their values are prefetched while keys are computed. Codes
 * of 4 bits have been expanded before, so the next span's are prefetched. */
static void codes_look_ahead(struct attention_codes *c, const struct attention *a, size_t span,
			     size_t blocks)
{
	const size_t key_codes = kv_codes_scales(&c->keys),
		     value_codes = kv_codes_scales(&c->values);

	c->at_keys.step =
		a->latent_dim ? 0 : KV_CODES_ROW * value_codes / (c->keys.columns * KV_BLOCK);
	c->at_values.step = KV_CODES_ROW * key_codes / (c->values.columns * KV_BLOCK);
	for (size_t b = c->first; b < c->end; b++) {
		const size_t here = span * SPAN_BLOCKS + b, next = here + SPAN_BLOCKS;
		const uint8_t *now = a->blocks[here],
			      *then = a->blocks[next < blocks ? next : here];
		c->at_keys.at[b] = (c->values.four ? then : now) + a->value_offset;
		c->at_values.at[b] = then + a->key_offset;
	}
}

/* ---- scores ---- */

/* Scores of CODES_KEYS · LANES positions from `at` of the span, in block b. */
ALWAYS_INLINE void codes_score_columns(struct attention_codes *c, size_t query, size_t b, size_t at,
				       size_t queries)
{
	const uint8_t *keys = c->key[b] + (at % KV_BLOCK) * KV_CODES_QUAD;
	struct codes_share ahead =
		codes_share_of(c, query, c->at_keys.at[b], at % KV_BLOCK ? 0 : c->at_keys.step);

	for (size_t g = 0; g < c->keys.parts; g++) {
		const struct kv_codes_part *part = &c->keys.part[g];
		lanes_ints sum[CODES_TILE][CODES_KEYS];
		const codes_query *q[CODES_TILE];
		for (size_t i = 0; i < queries; i++) {
			q[i] = c->q[query + i] + part->column;
			for (size_t r = 0; r < CODES_KEYS; r++)
				sum[i][r] = codes_all(-CODES_OFFSET * c->sums[query + i][g]);
		}
		for (size_t d = 0; d < part->columns; d += KV_CODES_QUAD, keys += KV_CODES_ROW) {
			codes_ask_for(&ahead);
			struct attention_keys k[CODES_KEYS];
			for (size_t r = 0; r < CODES_KEYS; r++)
				k[r] = attention_load_keys(keys + r * LANES * KV_CODES_QUAD);
			for (size_t i = 0; i < queries; i++)
				for (size_t r = 0; r < CODES_KEYS; r++)
					sum[i][r] = attention_dot_keys(sum[i][r], k[r], q[i] + d);
		}
		for (size_t i = 0; i < queries; i++)
			for (size_t r = 0; r < CODES_KEYS; r++) {
				float *p = c->p[query + i] + at + r * LANES;
				const lanes scale =
					lanes_load(c->key_scales[g] + at + r * LANES, LANES);
				const lanes dot = lanes_mul(codes_floats(sum[i][r]),
							    lanes_all(c->scale[query + i][g]));
				lanes_store(p, LANES,
					    lanes_fma(dot, scale,
						      g ? lanes_load(p, LANES) : lanes_all(0)));
			}
	}
}

static __attribute__((noinline)) void codes_score_block(struct attention_codes *c, size_t query,
							size_t queries, size_t b)
{
#define CASE(n)                                          \
	case n:                                          \
		codes_score_columns(c, query, b, at, n); \
		break;
	for (size_t at = b * KV_BLOCK; at < (b + 1) * KV_BLOCK; at += CODES_KEYS * LANES)
		switch (queries) {
			CASES_TO_4(CASE)
		}
#undef CASE
}

/* ---- softmax ---- */

/* Turns the scores of [from, to) into exponentials, with zeros outside. */
static __attribute__((noinline)) void codes_softmax(float p[ATTENTION_SPAN], struct query *query,
						    size_t from, size_t to)
{
	lanes max = lanes_all(query->max), sum[DOT_REGISTERS];

	for (size_t r = 0; r < DOT_REGISTERS; r++)
		sum[r] = lanes_all(0);
	for (size_t j = 0; j < ATTENTION_SPAN; j += LANES)
		max = lanes_raise(max, lanes_load(p + j, LANES), lanes_between(j, from, to));
	const float largest = lanes_largest(max);
	for (size_t j = 0; j < ATTENTION_SPAN; j += LANES) {
		const lanes_mask in = lanes_between(j, from, to);
		const lanes e = lanes_exp(lanes_sub(lanes_load(p + j, LANES), lanes_all(largest)));
		lanes *at = &sum[j / LANES % DOT_REGISTERS];
		lanes_store(p + j, LANES, lanes_keep(e, in));
		*at = lanes_add_some(*at, e, in);
	}
	query->sum = fmaf(query->sum, scalar_exp(query->max - largest), lanes_dot(sum));
	query->max = largest;
}

/* ---- values ---- */

/* LANES · registers columns from `column` on; the head has `left` of them. */
ALWAYS_INLINE void codes_sum_columns(const struct attention_codes *c, const struct query *tile,
				     size_t query, size_t column, size_t from, size_t left,
				     size_t queries, size_t registers)
{
	lanes_ints high[CODES_TILE][CODES_VALUES], low[CODES_TILE][CODES_VALUES];

	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			high[i][r] = low[i][r] = codes_all(0);
	for (size_t b = c->first; b < c->end; b++) {
		const uint8_t *values[CODES_VALUES];
		for (size_t r = 0; r < registers; r++) {
			const size_t d = column + r * LANES;
			values[r] = c->value[b] + d / KV_CODES_PAD * KV_CODES_PAD * KV_BLOCK +
				    d % KV_CODES_PAD * KV_CODES_QUAD;
		}
		struct codes_share ahead = codes_share_of(
			c, query,
			c->at_values.at[b] + column * KV_BLOCK * c->at_values.step / KV_CODES_ROW,
			registers * LANES * KV_CODES_QUAD * c->at_values.step / KV_CODES_ROW);
		for (size_t j = b * KV_BLOCK, at = 0; j < (b + 1) * KV_BLOCK;
		     j += KV_CODES_QUAD, at += KV_CODES_PAD * KV_CODES_QUAD) {
			codes_ask_for(&ahead);
			lanes_ints v[CODES_VALUES];
			for (size_t r = 0; r < registers; r++)
				v[r] = codes_load_values(values[r] + at);
			for (size_t i = 0; i < queries; i++)
				for (size_t r = 0; r < registers; r++) {
					high[i][r] = attention_dot_values(high[i][r], v[r],
									  c->high[query + i] + j);
					low[i][r] = attention_dot_values(low[i][r], v[r],
									 c->low[query + i] + j);
				}
		}
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers && r * LANES < left; r++) {
			const lanes sum = codes_floats(codes_join(high[i][r], low[i][r]));
			lanes_store(tile[i].sums + from + r * LANES, left - r * LANES,
				    lanes_mul(sum, lanes_all(c->unit[query + i])));
		}
}

/* The sums of one part of the values for a tile. */
ALWAYS_INLINE void codes_sum_part(const struct attention_codes *c, const struct query *tile,
				  size_t query, const struct kv_codes_part *p, size_t queries)
{
	const size_t width = CODES_VALUES * LANES;

	for (size_t d = 0; d < p->elements; d += width)
		if (p->columns >= width)
			codes_sum_columns(c, tile, query, p->column + d, p->from + d,
					  p->elements - d, queries, CODES_VALUES);
		else
			codes_sum_columns(c, tile, query, p->column + d, p->from + d,
					  p->elements - d, queries, KV_CODES_PAD / LANES);
}

static __attribute__((noinline)) void codes_sum_tile(const struct attention_codes *c,
						     const struct query *tile, size_t query,
						     const struct kv_codes_part *p, size_t queries)
{
#define CASE(n)                                       \
	case n:                                       \
		codes_sum_part(c, tile, query, p, n); \
		break;
	switch (queries) {
		CASES_TO_4(CASE)
	}
#undef CASE
}

/* ---- spans ---- */

/* Computes queries first … first + n - 1, all of which see some of the span that begins at
 * `start`. */
static void codes_look(struct attention_codes *c, struct query *queries, size_t first, size_t n,
		       const struct attention *a, size_t start)
{
	const float(*scales)[ATTENTION_SPAN] = a->latent_dim ? c->key_scales : c->value_scales;

	for (size_t b = c->first; b < c->end; b++)
		for (size_t i = 0; i < n; i += CODES_TILE)
			codes_score_block(c, first + i, n - i < CODES_TILE ? n - i : CODES_TILE, b);
	for (size_t i = first; i < first + n; i++) {
		const size_t left = queries[i].length - start;
		codes_softmax(c->p[i], &queries[i],
			      queries[i].from > start ? queries[i].from - start : 0,
			      left < ATTENTION_SPAN ? left : ATTENTION_SPAN);
	}
	for (size_t g = 0; g < c->values.parts; g++) {
		for (size_t i = first; i < first + n; i++)
			c->unit[i] = kv_codes_weigh(c->high[i], c->low[i], c->p[i], scales[g]);
		for (size_t i = 0; i < n; i += CODES_TILE)
			codes_sum_tile(c, queries + first + i, first + i, &c->values.part[g],
				       n - i < CODES_TILE ? n - i : CODES_TILE);
	}
}

static void attention_codes_span(struct attention_codes *c, struct query *queries, size_t n,
				 const struct attention *a, size_t span)
{
	const size_t start = span * ATTENTION_SPAN;
	size_t first = 0, end = n;

	while (first < n && !attention_sees(&queries[first], span))
		first++;
	while (end > first && !attention_sees(&queries[end - 1], span))
		end--;
	if (first == end)
		return;
	const size_t from = queries[first].from > start ? queries[first].from - start : 0;
	const size_t left = queries[end - 1].length - start;
	c->first = from / KV_BLOCK;
	c->end = left < ATTENTION_SPAN ? (left - 1) / KV_BLOCK + 1 : SPAN_BLOCKS;
	for (size_t b = c->first; b < c->end; b++)
		codes_read_block(c, a, b, a->blocks[span * SPAN_BLOCKS + b]);
	c->queries = first;
	c->tiles = (end - first + CODES_TILE - 1) / CODES_TILE;
	codes_look_ahead(c, a, span, (queries[end - 1].length - 1) / KV_BLOCK + 1);
	codes_look(c, queries, first, end - first, a, start);
}

static __attribute__((noinline)) void attention_codes_queries(struct query *queries, size_t n,
							      const struct attention *a,
							      const struct attention_spans *s)
{
	struct attention_codes codes;
	struct attention_spans spans = *s;

	codes_begin(&codes, queries, n, a);
	spans.codes = &codes;
	attention_queries(queries, n, a, &spans);
}

#endif
