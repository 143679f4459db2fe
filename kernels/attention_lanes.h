/* Attention on vectors, for every instruction set that has them; within kernels/ only. Lanes are
 * positions while scores are computed, dimensions while values are summed.
 *
 * A query is one head of one token. Blocks of 64 positions are the outer loop, so that all queries
 * read a block from the cache that the first one brought it to. Queries do not influence each
 * other.
 *
 * Included once by the *_attention.c of each table, after the lanes of its instruction set
 * (lanes.h). How queries meet the keys and values of a block is attention_block: avx2_attention.c
 * has its own, for 16 registers. For 32 registers it is at the end of this file, and the file that
 * includes this one defines before:
 *
 *     ATTENTION_TILE              queries of a tile
 *     ATTENTION_REGISTERS         of positions or dimensions for each query of a tile, at most
 *     attention_registers(n)      the same in tiles of n queries; a divisor of 64 / LANES
 *     ATTENTION_SIDE_BY_SIDE      whether queries are copied side by side before they meet keys,
 *                                 so that one pointer is enough
 *     attention_ask(p)            asks for the line at p, of the block after this one
 *     ATTENTION_CASES             one of lanes.h's CASES, up to ATTENTION_TILE
 */
#ifndef MOEFS_KERNELS_ATTENTION_LANES_H
#define MOEFS_KERNELS_ATTENTION_LANES_H

#include "kernels/attention.h"

enum { QUERIES_AT_ONCE = 64 };

/* Keys (a row for each dimension) or values (a row for each position) of a block. A latent's values
 * lie in an array that is made of the block. */
struct attention_rows {
	const void *now, *next; /* this block, and the one after it (or again the same) */
	size_t offset, columns; /* elements: before the first row, and of each row */
};

/* Takes the block that begins at position `start` into n queries that all see some of it. */
static void attention_block(struct query *queries, size_t n, const struct attention *a,
			    const struct attention_rows *keys, const struct attention_rows *values,
			    size_t start);

/* ---- elements ---- */

ALWAYS_INLINE size_t attention_element(enum kv_type type)
{
	return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Elements at … at + LANES - 1; if fewer are left, zeros behind them. type is a constant where this
 * is inlined, here and below. */
ALWAYS_INLINE lanes attention_load(const void *block, enum kv_type type, size_t at, size_t left)
{
	return type == KV_F32 ? lanes_load((const float *)block + at, left)
			      : lanes_load_f16((const uint16_t *)block + at, left);
}

void TABLE(kv_put)(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim)
{
	const size_t key_at = key_offset + slot;
	const size_t value_at = value_offset + (size_t)slot * head_dim;

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
 * [from, to), and returns the factor by which earlier sums shrink. */
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

ALWAYS_INLINE void attention_rescale(float *out, size_t dim, float factor)
{
	for (size_t d = 0; d < dim; d += LANES) {
		const lanes v = lanes_load(out + d, dim - d);
		lanes_store(out + d, dim - d, lanes_mul(v, lanes_all(factor)));
	}
}

/* ---- blocks ---- */

/* The same where the values are a part of the keys. */
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

/* All blocks, for queries whose first positions and lengths ascend. */
static void attention_queries(struct query *queries, size_t n, const struct attention *a)
{
	const size_t dim = attention_value_dim(a), last = (queries[n - 1].length - 1) / KV_BLOCK;
	size_t first = 0, end = 0; /* the queries that see something of a block */

	for (size_t at = queries[0].from / KV_BLOCK; at <= last; at++) {
		const size_t start = at * KV_BLOCK;
		const void *now = a->blocks[at], *next = a->blocks[at < last ? at + 1 : at];
		const struct attention_rows keys = {now, next, a->key_offset, KV_BLOCK};
		const struct attention_rows values = {now, next, a->value_offset, a->head_dim};
		while (queries[first].length <= start)
			first++;
		while (end < n && queries[end].from < start + KV_BLOCK)
			end++;
		if (a->latent_dim)
			attention_latent(queries + first, end - first, a, &keys, start);
		else
			attention_block(queries + first, end - first, a, &keys, &values, start);
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t d = 0; d < dim; d += LANES) {
			float *out = queries[i].out + d;
			const size_t left = dim - d;
			lanes_store(out, left,
				    lanes_div(lanes_load(out, left), lanes_all(queries[i].sum)));
		}
	}
}

void TABLE(attend_tokens)(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n)
{
	struct query queries[QUERIES_AT_ONCE];
	size_t filled = 0;

	for (uint32_t t = 0; t < n; t++) {
		for (uint32_t h = 0; h < a->heads; h++) {
			const size_t at = t * stride + (size_t)h * a->head_dim;
			if (filled == QUERIES_AT_ONCE) {
				attention_queries(queries, filled, a);
				filled = 0;
			}
			queries[filled++] =
				attention_begin(a, q + at,
						out + attention_out(a, t * stride) +
							(size_t)h * attention_value_dim(a),
						h, a->length + t);
		}
	}
	attention_queries(queries, filled, a);
}

void TABLE(attend)(float *out, const float *q, const struct attention *a)
{
	TABLE(attend_tokens)(out, q, 0, a, 1);
}

/* ---- a block, for instruction sets with 32 registers ----
 *
 * ATTENTION_TILE queries are a tile: every vector of keys or values that is loaded (and widened,
 * which costs as much as a multiplication) meets all queries of the tile while their sums stay in
 * registers. */
#ifdef ATTENTION_CASES
enum { QUERY_PART = 128 }; /* dimensions that are copied together */

/* LANES · registers elements. Every line of the next block is asked for when its like is read from
 * this one: lines are too far apart for the hardware to foresee. */
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

/* s[queries][begin …] = q · keys for LANES · registers positions, not yet scaled. queries and
 * registers are constants where this is inlined, here and below. */
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

/* out[queries][d …] += Σ p[j] · value[j] over j in [from, to), for LANES · registers dimensions, or
 * for `left` of them if there are fewer. */
ALWAYS_INLINE void attention_sum_columns(const struct query *tile, float p[][KV_BLOCK],
					 const struct attention_rows *values, enum kv_type type,
					 size_t d, size_t left, size_t from, size_t to,
					 size_t queries, size_t registers)
{
	lanes sum[ATTENTION_TILE][ATTENTION_REGISTERS];

	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			sum[i][r] = lanes_load(tile[i].out + d + r * LANES, left);
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
			lanes_store(tile[i].out + d + r * LANES, left, sum[i][r]);
}

ALWAYS_INLINE void attention_sum_values(const struct query *tile, float p[][KV_BLOCK],
					const struct attention_rows *values, enum kv_type type,
					size_t from, size_t to, size_t queries, size_t registers)
{
	const size_t dim = values->columns, width = registers * LANES;
	size_t d = 0;

	for (; d + width <= dim; d += width)
		attention_sum_columns(tile, p, values, type, d, LANES, from, to, queries,
				      registers);
	for (; d < dim; d += LANES)
		attention_sum_columns(tile, p, values, type, d, dim - d, from, to, queries, 1);
}

/* ---- tiles ---- */

/* Takes one block into a tile of queries that all see some of it. They see it from ever later and
 * up to ever later positions (those of one token the same), so the values that all see are summed
 * together, and what lies before and after them for each alone. */
ALWAYS_INLINE void attention_tile(struct query *tile, const struct attention *a,
				  const struct attention_rows *keys,
				  const struct attention_rows *values, size_t start,
				  enum kv_type type, size_t queries)
{
	const size_t dim = values->columns, registers = attention_registers(queries);
	const size_t alone = attention_registers(1);
	float p[ATTENTION_TILE][KV_BLOCK];
	size_t from[ATTENTION_TILE], to[ATTENTION_TILE];

	for (size_t begin = 0; begin < KV_BLOCK; begin += registers * LANES)
		attention_score_columns(p, tile, a, keys, type, begin, queries, registers);
	for (size_t i = 0; i < queries; i++) {
		const size_t left = tile[i].length - start;
		from[i] = tile[i].from > start ? tile[i].from - start : 0;
		to[i] = left < KV_BLOCK ? left : KV_BLOCK;
		const float rescale =
			attention_probabilities(p[i], &tile[i], a->scale, from[i], to[i]);
		attention_rescale(tile[i].out, dim, rescale);
	}
	const size_t end = to[0], begin = from[queries - 1] < end ? from[queries - 1] : end;
	for (size_t i = 0; i + 1 < queries; i++)
		if (from[i] < begin)
			attention_sum_values(&tile[i], &p[i], values, type, from[i], begin, 1,
					     alone);
	attention_sum_values(tile, p, values, type, begin, end, queries, registers);
	for (size_t i = 1; i < queries; i++) {
		const size_t after = from[i] > end ? from[i] : end;
		if (to[i] > after)
			attention_sum_values(&tile[i], &p[i], values, type, after, to[i], 1, alone);
	}
}

/* The number of queries as a constant. */
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

#endif
