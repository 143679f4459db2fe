/* How queries meet the keys and values of a block, for instruction sets with 32 registers; within
 * kernels/ only. Belongs to attention_lanes.h, and is included after it.
 *
 * ATTENTION_TILE queries are a tile: every vector of keys or values that is loaded (and widened,
 * which costs as much as a multiplication) meets all queries of the tile while their sums stay in
 * registers. The file that includes this one defines before:
 *
 *     ATTENTION_TILE              queries
 *     ATTENTION_REGISTERS         of positions or dimensions for each query of a tile, at most
 *     attention_registers(n)      the same in tiles of n queries; a divisor of 64 / LANES
 *     ATTENTION_SIDE_BY_SIDE      whether queries are copied side by side before they meet keys,
 *                                 so that one pointer is enough
 *     attention_ask(p)            asks for the line at p, of the block after the one at hand
 *     ATTENTION_CASES             of lanes.h, up to ATTENTION_TILE
 */
#ifndef MOEFS_KERNELS_ATTENTION_TILES_H
#define MOEFS_KERNELS_ATTENTION_TILES_H

#include "kernels/attention_lanes.h"

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
