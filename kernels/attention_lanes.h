/* Attention on vectors, for every instruction set that has them; within kernels/ only. Lanes are
 * positions while scores are computed, and dimensions while values are summed.
 *
 * A query is one head of one token. The outer loops are over spans, and within them over blocks of
 * 64 positions, so all queries read a block that the first query has brought into the cache.
 * Queries do not influence each other. A query's first span is summed in place of its output. A
 * later span is summed in memory of its own until it is joined. For attend_spans each span is
 * summed in its part.
 *
 * Included once by the *_attention.c of each table, after the lanes of its instruction set
 * (lanes.h). attention_block computes all queries with the keys and values of a block:
 * avx2_attention.c has its own version, for 16 registers. The version for 32 registers is at the
 * end of this file. For this version the including file defines before:
 *
 *     ATTENTION_TILE              queries of a tile
 *     ATTENTION_REGISTERS         most registers of positions or dimensions per query of a tile
 *     attention_registers(n)      the same in tiles of n queries; a divisor of 64 / LANES
 *     ATTENTION_SIDE_BY_SIDE      whether queries are copied side by side before they meet keys,
 *                                 so that one pointer is enough
 *     attention_ask(p)            prefetches the line at p, of the block after this one
 *     ATTENTION_CASES             one of lanes.h's CASES, up to ATTENTION_TILE
 */
#ifndef MOEFS_KERNELS_ATTENTION_LANES_H
#define MOEFS_KERNELS_ATTENTION_LANES_H

#include "kernels/attention.h"
#include "kernels/kv_codes.h"

enum { QUERIES_AT_ONCE = 64, SPAN_BLOCKS = ATTENTION_SPAN / KV_BLOCK };

/* The state of one head of one token on its way over the blocks. */
struct query {
	const float *q;
	float *out;  /* the value sums of the joined spans */
	float *part; /* of the first span requested; NULL: spans are joined */
	float *sums; /* of the present span: in out, in its part, or in spare memory */
	uint32_t head, from, length; /* sees positions from … length - 1 */
	float max, sum;		     /* of its softmax, over the span's blocks so far */
	float joined_max, joined_sum;
};

/* Keys (a row for each dimension) or values (a row for each position) of a block. A latent's values
 * are copied from the block to an array. */
struct attention_rows {
	const void *now, *next; /* this block, and the next one (or again this one) */
	size_t offset, columns; /* elements before the first row, and in each row */
};

/* Adds the block that begins at position `start` to n queries, all of which see some of it. Where
 * attention_begins is true, their sums begin as zeros, and the old contents are ignored. */
static void attention_block(struct query *queries, size_t n, const struct attention *a,
			    const struct attention_rows *keys, const struct attention_rows *values,
			    size_t start);

/* Whether a block at `start` is the first of its span for all of these queries, ordered by their
 * first positions. (Zeros written at the span's begin would leave the first-level cache before the
 * first values come.) */
ALWAYS_INLINE bool attention_begins(const struct query *queries, size_t n, size_t start)
{
	return start % ATTENTION_SPAN == 0 && queries[n - 1].from <= start;
}

/* ---- elements ---- */

ALWAYS_INLINE size_t attention_element(enum kv_type type)
{
	return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Elements at … at + LANES - 1; if fewer are left, zeros after them. Inlining makes type a
 * constant, here and below. */
ALWAYS_INLINE lanes attention_load(const void *block, enum kv_type type, size_t at, size_t left)
{
	return type == KV_F32 ? lanes_load((const float *)block + at, left)
			      : lanes_load_f16((const uint16_t *)block + at, left);
}

void TABLE(kv_put)(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		   uint32_t latent_dim)
{
	const size_t key_at = key_offset + slot;
	const size_t value_at = value_offset + (size_t)slot * head_dim;

	if (kv_type_codes(type)) {
		kv_codes_put(block, type, key_offset, value_offset, slot, key, value, head_dim,
			     latent_dim);
		return;
	}
	if (type == KV_F32) {
		float *out = block;
		for (size_t d = 0; d < head_dim; d++)
			out[key_at + d * KV_BLOCK] = key[d];
		if (value)
			memcpy(out + value_at, value, head_dim * sizeof *value);
		return;
	}
	uint16_t *out = block;
	for (size_t d = 0; d < head_dim; d += LANES) {
		const size_t left = head_dim - d;
		uint16_t half[LANES];
		lanes_store_f16(half, LANES, lanes_load(key + d, left));
		for (size_t i = 0; i < LANES && i < left; i++)
			out[key_at + (d + i) * KV_BLOCK] = half[i];
		if (value)
			lanes_store_f16(out + value_at + d, left, lanes_load(value + d, left));
	}
}

/* ---- softmax ---- */

/* Turns the scores of one query into probabilities relative to its new maximum, zero outside of
 * [from, to). Returns the factor by which earlier sums shrink. */
ALWAYS_INLINE float attention_probabilities(float p[KV_BLOCK], struct query *query, float scale,
					    size_t from, size_t to)
{
	enum { SCORES = KV_BLOCK / LANES };
	lanes s[SCORES], max = lanes_all(query->max), sum[DOT_REGISTERS];
	lanes_mask in[SCORES];

	for (size_t r = 0; r < DOT_REGISTERS; r++)
		sum[r] = lanes_all(0);
	for (size_t i = 0; i < SCORES; i++) {
		in[i] = lanes_between(i * LANES, from, to);
		s[i] = lanes_mul(lanes_load(p + i * LANES, LANES), lanes_all(scale));
		max = lanes_raise(max, s[i], in[i]);
	}
	const float largest = lanes_largest(max);
	for (size_t i = 0; i < SCORES; i++) {
		const lanes e = lanes_exp(lanes_sub(s[i], lanes_all(largest)));
		lanes *at = &sum[i % DOT_REGISTERS];
		lanes_store(p + i * LANES, LANES, lanes_keep(e, in[i]));
		*at = lanes_add_some(*at, e, in[i]);
	}
	const float rescale = scalar_exp(query->max - largest);
	query->max = largest;
	query->sum = fmaf(query->sum, rescale, lanes_dot(sum));
	return rescale;
}

/* ---- blocks ---- */

/* attention_block for values that are part of the keys. */
static __attribute__((noinline)) void attention_latent(struct query *queries, size_t n,
						       const struct attention *a,
						       const struct attention_rows *keys,
						       size_t start)
{
	_Alignas(64) float latent[KV_BLOCK * LATENT_DIM];
	const struct attention_rows values = {latent, latent, 0, a->latent_dim};

	attention_latent_values(latent, a, keys->now);
	attention_block(queries, n, a, keys, &values, start);
}

/* ---- spans ---- */

/* Joins a span to the spans before it: its maximum and sum to *max and *sum, its value sums to
 * out. */
ALWAYS_INLINE void attention_join(float *out, float *max, float *sum, const float *span,
				  float span_max, float span_sum, size_t dim)
{
	const float e = scalar_exp(-fabsf(span_max - *max));
	const bool larger = span_max > *max;
	const float shrink = larger ? e : 1, factor = larger ? 1 : e;

	*max = larger ? span_max : *max;
	*sum = fmaf(*sum, shrink, span_sum * factor);
	for (size_t d = 0; d < dim; d += LANES) {
		const lanes v = lanes_mul(lanes_load(span + d, dim - d), lanes_all(factor));
		const lanes o = lanes_load(out + d, dim - d);
		lanes_store(out + d, dim - d, lanes_fma(o, lanes_all(shrink), v));
	}
}

/* The output of a head: the value sums, divided, and rotated back if values are rotated. */
ALWAYS_INLINE void attention_divide(float *out, const float *joined, float sum,
				    const struct attention *a)
{
	const size_t dim = attention_value_dim(a);

	for (size_t d = 0; d < dim; d += LANES)
		lanes_store(out + d, dim - d,
			    lanes_div(lanes_load(joined + d, dim - d), lanes_all(sum)));
	if (kv_type_codes(a->type) && a->latent_dim) {
		const struct kv_codes c = kv_codes_of_latents(a->type, a->latent_dim);
		kv_codes_restore(out, &c);
	}
}

/* For n queries that are computed together. */
struct attention_spans {
	size_t first, end; /* the requested spans */
	size_t after;	   /* floats from one span's part to the next */
	float *spare;	   /* if spans are joined: a span's value sums for each query */
	struct attention_codes *codes; /* if keys and values are codes; else NULL */
};

/* Adds a span of codes to n queries, some of which may not see any of it. */
static void attention_codes_span(struct attention_codes *c, struct query *queries, size_t n,
				 const struct attention *a, size_t span);

static bool attention_sees(const struct query *q, size_t span)
{
	return q->from < (span + 1) * ATTENTION_SPAN && q->length > span * ATTENTION_SPAN;
}

static void attention_span_begin(struct query *queries, size_t n, const struct attention *a,
				 const struct attention_spans *s, size_t span)
{
	const size_t dim = attention_value_dim(a);
	const bool together = attention_begins(queries, n, span * ATTENTION_SPAN);

	for (size_t i = 0; i < n; i++) {
		struct query *q = &queries[i];
		const bool first = span == q->from / ATTENTION_SPAN;
		if (!attention_sees(q, span))
			continue;
		q->max = first ? attention_first_max(a, q->head) : -INFINITY;
		q->sum = first ? attention_first_sum(a) : 0;
		q->sums = q->part ? q->part + (span - s->first) * s->after
			  : first ? q->out
				  : s->spare + i * dim;
		if (!together)
			memset(q->sums, 0, dim * sizeof *q->sums);
	}
}

static void attention_span_end(struct query *queries, size_t n, const struct attention *a,
			       size_t span)
{
	const size_t dim = attention_value_dim(a);

	for (size_t i = 0; i < n; i++) {
		struct query *q = &queries[i];
		if (!attention_sees(q, span))
			continue;
		if (q->part) {
			q->sums[dim] = q->max;
			q->sums[dim + 1] = q->sum;
		} else if (q->sums == q->out) {
			q->joined_max = q->max;
			q->joined_sum = q->sum;
		} else {
			attention_join(q->out, &q->joined_max, &q->joined_sum, q->sums, q->max,
				       q->sum, dim);
		}
	}
}

/* Adds blocks [from, to). A query sees some of each block or none. */
static void attention_blocks(struct query *queries, size_t n, const struct attention *a, size_t at,
			     size_t to, size_t last)
{
	size_t first = 0, end = 0; /* the queries that see some of a block */

	for (; at < to; at++) {
		const size_t start = at * KV_BLOCK;
		const void *now = a->blocks[at], *next = a->blocks[at < last ? at + 1 : at];
		const struct attention_rows keys = {now, next, a->key_offset, KV_BLOCK};
		const struct attention_rows values = {now, next, a->value_offset,
						      attention_value_dim(a)};
		while (queries[first].length <= start)
			first++;
		while (end < n && queries[end].from < start + KV_BLOCK)
			end++;
		if (a->latent_dim && !a->latent_rows)
			attention_latent(queries + first, end - first, a, &keys, start);
		else
			attention_block(queries + first, end - first, a, &keys, &values, start);
	}
}

/* Queries whose first positions and lengths ascend. */
static void attention_queries(struct query *queries, size_t n, const struct attention *a,
			      const struct attention_spans *s)
{
	const size_t first_block = queries[0].from / KV_BLOCK;
	const size_t blocks = (queries[n - 1].length - 1) / KV_BLOCK + 1;
	const size_t first = first_block / SPAN_BLOCKS, end = (blocks - 1) / SPAN_BLOCKS + 1;

	for (size_t span = first > s->first ? first : s->first; span < end && span < s->end;
	     span++) {
		const size_t from = span * SPAN_BLOCKS, to = from + SPAN_BLOCKS;
		attention_span_begin(queries, n, a, s, span);
		if (s->codes)
			attention_codes_span(s->codes, queries, n, a, span);
		else
			attention_blocks(queries, n, a, from > first_block ? from : first_block,
					 to < blocks ? to : blocks, blocks - 1);
		attention_span_end(queries, n, a, span);
	}
	for (size_t i = 0; i < n && !queries[i].part; i++)
		attention_divide(queries[i].out, queries[i].out, queries[i].joined_sum, a);
}

/* ---- tokens ---- */

/* attention_queries for codes. */
static void attention_codes_queries(struct query *queries, size_t n, const struct attention *a,
				    const struct attention_spans *s);

static void attention_ask_queries(struct query *queries, size_t n, const struct attention *a,
				  const struct attention_spans *s)
{
	if (kv_type_codes(a->type))
		attention_codes_queries(queries, n, a, s);
	else
		attention_queries(queries, n, a, s);
}

/* Writes to out, or if there are parts, to parts[spans][n][heads]. */
ALWAYS_INLINE void attention_tokens(float *out, float *parts, const float *q, size_t stride,
				    const struct attention *a, uint32_t n, uint32_t span0,
				    uint32_t span1)
{
	enum { SPARE = QUERIES_AT_ONCE * LATENT_DIM };
	_Alignas(64) float spare[SPARE];
	struct query queries[QUERIES_AT_ONCE];
	const size_t dim = attention_value_dim(a), part = attention_part((uint32_t)dim);
	const size_t most = dim <= LATENT_DIM ? QUERIES_AT_ONCE : SPARE / dim;
	const struct attention_spans spans = {span0, span1, (size_t)n * a->heads * part, spare,
					      NULL};
	size_t filled = 0;

	for (uint32_t t = 0; t < n; t++) {
		for (uint32_t h = 0; h < a->heads; h++) {
			if (filled == most) {
				attention_ask_queries(queries, filled, a, &spans);
				filled = 0;
			}
			queries[filled++] = (struct query){
				.q = q + t * stride + (size_t)h * a->head_dim,
				.out = parts ? NULL : out + attention_out(a, t * stride) + h * dim,
				.part = parts ? parts + ((size_t)t * a->heads + h) * part : NULL,
				.head = h,
				.from = (uint32_t)attention_from(a, (size_t)a->length + t),
				.length = a->length + t,
			};
		}
	}
	attention_ask_queries(queries, filled, a, &spans);
}

void TABLE(attend_tokens)(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n)
{
	attention_tokens(out, NULL, q, stride, a, n, 0, UINT32_MAX);
}

void TABLE(attend)(float *out, const float *q, const struct attention *a)
{
	TABLE(attend_tokens)(out, q, 0, a, 1);
}

void TABLE(attend_spans)(float *parts, const float *q, size_t stride, const struct attention *a,
			 uint32_t n, uint32_t span0, uint32_t span1)
{
	attention_tokens(NULL, parts, q, stride, a, n, span0, span1);
}

void TABLE(attend_join)(float *out, size_t stride, float *joined, const float *parts,
			const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1)
{
	const size_t dim = attention_value_dim(a), part = attention_part((uint32_t)dim);
	const size_t queries = (size_t)n * a->heads;

	for (size_t i = 0; i < queries; i++, joined += part) {
		const size_t t = i / a->heads, length = a->length + t;
		const size_t first = attention_first_span(a, length);
		const size_t end = attention_end_span(length), last = end < span1 ? end : span1;
		for (size_t span = first > span0 ? first : span0; span < last; span++) {
			const float *v = parts + ((span - span0) * queries + i) * part;
			if (span == first)
				memcpy(joined, v, part * sizeof *v);
			else
				attention_join(joined, &joined[dim], &joined[dim + 1], v, v[dim],
					       v[dim + 1], dim);
		}
		if (end > span0 && end <= span1)
			attention_divide(out + attention_out(a, t * stride) + i % a->heads * dim,
					 joined, joined[dim + 1], a);
	}
}

/* ---- a block, for instruction sets with 32 registers ----
 *
 * ATTENTION_TILE queries form a tile. Every vector of keys or values that is loaded (and widened,
 * which costs as much as a multiplication) meets all queries of the tile while their sums stay in
 * registers. */
#ifdef ATTENTION_CASES
enum { QUERY_PART = 128 }; /* dimensions copied together */

/* Loads LANES · registers elements. With each line of this block it prefetches the same line of the
 * next block, since the lines are too far apart for the hardware's prefetcher. */
ALWAYS_INLINE void attention_load_row(lanes v[ATTENTION_REGISTERS],
				      const struct attention_rows *rows, enum kv_type type,
				      size_t at, size_t left, size_t registers)
{
	const size_t element = attention_element(type);
	const char *next = (const char *)rows->next + at * element;

	for (size_t r = 0; r < registers; r++)
		v[r] = attention_load(rows->now, type, at + r * LANES, left);
	for (size_t byte = 0; byte < registers * LANES * element; byte += 64)
		attention_ask(next + byte);
}

/* ---- scores ---- */

/* s[queries][begin …] = q · keys for LANES · registers positions, not yet scaled. Inlining makes
 * queries and registers constants, here and below. */
ALWAYS_INLINE void attention_score_columns(float s[][KV_BLOCK], const struct query *tile,
					   const struct attention *a,
					   const struct attention_rows *keys, enum kv_type type,
					   size_t begin, size_t queries, size_t registers)
{
	lanes sum[ATTENTION_TILE][ATTENTION_REGISTERS];

	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			sum[i][r] = lanes_all(0);
	for (size_t d0 = 0; d0 < a->head_dim; d0 += QUERY_PART) {
		const size_t left = a->head_dim - d0, part = left < QUERY_PART ? left : QUERY_PART;
		_Alignas(64) float beside[ATTENTION_TILE][QUERY_PART];
		const float *q[ATTENTION_TILE];
		for (size_t i = 0; i < queries; i++) {
			q[i] = ATTENTION_SIDE_BY_SIDE ? beside[i] : tile[i].q + d0;
			for (size_t d = 0; ATTENTION_SIDE_BY_SIDE && d < part; d += LANES)
				lanes_store(beside[i] + d, LANES,
					    lanes_load(tile[i].q + d0 + d, part - d));
		}
		for (size_t d = 0; d < part; d++) {
			const size_t at = keys->offset + (d0 + d) * KV_BLOCK + begin;
			lanes k[ATTENTION_REGISTERS];
			attention_load_row(k, keys, type, at, LANES, registers);
			for (size_t i = 0; i < queries; i++)
				for (size_t r = 0; r < registers; r++)
					sum[i][r] = lanes_fma(lanes_all(q[i][d]), k[r], sum[i][r]);
		}
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			lanes_store(s[i] + begin + r * LANES, LANES, sum[i][r]);
}

/* ---- values ---- */

/* sums[queries][d …] += Σ p[j] · value[j] over j in [from, to), for LANES · registers dimensions,
 * or for `left` of them if there are fewer. */
ALWAYS_INLINE void attention_sum_columns(const struct query *tile, const float *rescale,
					 float p[][KV_BLOCK], const struct attention_rows *values,
					 enum kv_type type, size_t d, size_t left, size_t from,
					 size_t to, size_t queries, size_t registers)
{
	lanes sum[ATTENTION_TILE][ATTENTION_REGISTERS];

	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			sum[i][r] =
				rescale ? lanes_mul(lanes_load(tile[i].sums + d + r * LANES, left),
						    lanes_all(rescale[i]))
					: lanes_all(0);
	for (size_t j = from; j < to; j++) {
		const size_t at = values->offset + j * values->columns + d;
		lanes v[ATTENTION_REGISTERS];
		attention_load_row(v, values, type, at, left, registers);
		for (size_t i = 0; i < queries; i++) {
			const lanes pj = lanes_all(p[i][j]);
			for (size_t r = 0; r < registers; r++)
				sum[i][r] = lanes_fma(pj, v[r], sum[i][r]);
		}
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			lanes_store(tile[i].sums + d + r * LANES, left, sum[i][r]);
}

ALWAYS_INLINE void attention_sum_values(const struct query *tile, const float *rescale,
					float p[][KV_BLOCK], const struct attention_rows *values,
					enum kv_type type, size_t from, size_t to, size_t queries,
					size_t registers)
{
	const size_t dim = values->columns, width = registers * LANES;
	size_t d = 0;

	for (; d + width <= dim; d += width)
		attention_sum_columns(tile, rescale, p, values, type, d, LANES, from, to, queries,
				      registers);
	for (; d < dim; d += LANES)
		attention_sum_columns(tile, rescale, p, values, type, d, dim - d, from, to, queries,
				      1);
}

/* ---- tiles ---- */

/* Adds one block to a tile of queries that all see some of it. Their first and last positions
 * ascend (equal for one token). So the values that all queries see are summed together, and the
 * positions before and after these for each query alone. */
ALWAYS_INLINE void attention_tile(struct query *tile, const struct attention *a,
				  const struct attention_rows *keys,
				  const struct attention_rows *values, size_t start,
				  enum kv_type type, size_t queries)
{
	const size_t registers = attention_registers(queries), alone = attention_registers(1);
	const bool begins = attention_begins(tile, queries, start);
	float p[ATTENTION_TILE][KV_BLOCK], rescale[ATTENTION_TILE];
	size_t from[ATTENTION_TILE], to[ATTENTION_TILE];

	for (size_t begin = 0; begin < KV_BLOCK; begin += registers * LANES)
		attention_score_columns(p, tile, a, keys, type, begin, queries, registers);
	for (size_t i = 0; i < queries; i++) {
		const size_t left = tile[i].length - start;
		from[i] = tile[i].from > start ? tile[i].from - start : 0;
		to[i] = left < KV_BLOCK ? left : KV_BLOCK;
		rescale[i] = attention_probabilities(p[i], &tile[i], a->scale, from[i], to[i]);
	}
	const size_t end = to[0], begin = from[queries - 1] < end ? from[queries - 1] : end;
	for (size_t i = 0; i + 1 < queries; i++) {
		if (from[i] < begin) {
			attention_sum_values(&tile[i], &rescale[i], &p[i], values, type, from[i],
					     begin, 1, alone);
			rescale[i] = 1;
		}
	}
	attention_sum_values(tile, begins ? NULL : rescale, p, values, type, begin, end, queries,
			     registers);
	for (size_t i = 1; i < queries; i++) {
		const size_t after = from[i] > end ? from[i] : end;
		rescale[i] = 1;
		if (to[i] > after)
			attention_sum_values(&tile[i], &rescale[i], &p[i], values, type, after,
					     to[i], 1, alone);
	}
}

/* Makes the number of queries a constant. */
ALWAYS_INLINE void attention_tile_of(struct query *tile, const struct attention *a,
				     const struct attention_rows *keys,
				     const struct attention_rows *values, size_t start,
				     enum kv_type type, size_t queries)
{
#define CASE(n)                                                        \
	case n:                                                        \
		attention_tile(tile, a, keys, values, start, type, n); \
		break;
	switch (queries) {
		ATTENTION_CASES(CASE)
	}
#undef CASE
}

static __attribute__((noinline)) void
attention_tile_f32(struct query *tile, const struct attention *a, const struct attention_rows *keys,
		   const struct attention_rows *values, size_t start, size_t queries)
{
	attention_tile_of(tile, a, keys, values, start, KV_F32, queries);
}

static __attribute__((noinline)) void
attention_tile_f16(struct query *tile, const struct attention *a, const struct attention_rows *keys,
		   const struct attention_rows *values, size_t start, size_t queries)
{
	attention_tile_of(tile, a, keys, values, start, KV_F16, queries);
}

static void attention_block(struct query *queries, size_t n, const struct attention *a,
			    const struct attention_rows *keys, const struct attention_rows *values,
			    size_t start)
{
	for (size_t i = 0; i < n; i += ATTENTION_TILE) {
		const size_t count = n - i < ATTENTION_TILE ? n - i : ATTENTION_TILE;
		if (a->type == KV_F16)
			attention_tile_f16(queries + i, a, keys, values, start, count);
		else
			attention_tile_f32(queries + i, a, keys, values, start, count);
	}
}

#endif

#include "kernels/attention_codes_lanes.h"

#endif
