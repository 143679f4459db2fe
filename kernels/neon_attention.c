/* NEON attention: lanes are positions while scores are computed, dimensions while values are
 * summed.
 *
 * A query is one head of one token. Up to 4 of them are a tile: every vector of keys or values that
 * is loaded (and widened) meets all queries of the tile while their sums stay in registers. Blocks
 * are the outer loop, so that all tiles read a block from the cache that the first one brought it
 * to. Queries do not influence each other.
 */
#if defined(__aarch64__)

#include "kernels/attention.h"
#include "kernels/neon.h"

enum {
	QUERIES_AT_ONCE = 64,
	TILE = 4,      /* queries */
	REGISTERS = 4, /* of positions or dimensions, for each query of a tile */
	WIDTH = REGISTERS * NEON_LANES,
};

/* Where values lie as rows: in the block, or for a latent in an array made of it. */
struct value_rows {
	const void *block;
	size_t offset, dim;
};

/* Elements at … at+3; if fewer than 4 are left, zeros behind them. type is a constant where this is
 * inlined, here and below. */
ALWAYS_INLINE float32x4_t load4(const void *block, enum kv_type type, size_t at, size_t left)
{
	return type == KV_F32 ? load_up_to_4((const float *)block + at, left)
			      : f16_to_f32_4(load_up_to_4_u16((const uint16_t *)block + at, left));
}

void neon_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
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
	for (size_t d = 0; d < head_dim; d += NEON_LANES) {
		const size_t left = head_dim - d, count = left < NEON_LANES ? left : NEON_LANES;
		uint16_t k[NEON_LANES], v[NEON_LANES];
		vst1_u16(k, f32_to_f16_4(load_up_to_4(key + d, left)));
		for (size_t i = 0; i < count; i++)
			out[key_at + (d + i) * KV_BLOCK] = k[i];
		if (!value)
			continue;
		vst1_u16(v, f32_to_f16_4(load_up_to_4(value + d, left)));
		memcpy(out + value_at + d, v, count * sizeof *v);
	}
}

/* ---- scores ---- */

/* s[queries][64] = q · keys, not yet scaled. queries is a constant where this is inlined, here and
 * below. */
ALWAYS_INLINE void scores(float s[][KV_BLOCK], const struct query *tile, const struct attention *a,
			  const void *block, enum kv_type type, size_t queries)
{
	for (size_t begin = 0; begin < KV_BLOCK; begin += WIDTH) {
		float32x4_t sum[TILE][REGISTERS];
		for (size_t i = 0; i < queries; i++)
			for (size_t r = 0; r < REGISTERS; r++)
				sum[i][r] = vdupq_n_f32(0);
		for (size_t d = 0; d < a->head_dim; d++) {
			const size_t at = a->key_offset + d * KV_BLOCK + begin;
			float32x4_t k[REGISTERS];
			for (size_t r = 0; r < REGISTERS; r++)
				k[r] = load4(block, type, at + r * NEON_LANES, NEON_LANES);
			for (size_t i = 0; i < queries; i++)
				for (size_t r = 0; r < REGISTERS; r++)
					sum[i][r] = vfmaq_n_f32(sum[i][r], k[r], tile[i].q[d]);
		}
		for (size_t i = 0; i < queries; i++)
			for (size_t r = 0; r < REGISTERS; r++)
				vst1q_f32(s[i] + begin + r * NEON_LANES, sum[i][r]);
	}
}

/* Those of the positions j … j + 3 that lie in [from, to). */
ALWAYS_INLINE uint32x4_t lanes_between(size_t j, size_t from, size_t to)
{
	return vbicq_u32(first_lanes(to > j ? to - j : 0), first_lanes(from > j ? from - j : 0));
}

/* Turns the scores of one query into probabilities relative to its new maximum, zero outside of
 * [from, to), and returns the factor by which earlier sums shrink. */
static float probabilities(float p[KV_BLOCK], struct query *query, float scale, size_t from,
			   size_t to)
{
	float32x4_t max4 = vdupq_n_f32(query->max), lanes[DOT_REGISTERS] = {{0}};

	for (size_t j = 0; j < KV_BLOCK; j += NEON_LANES) {
		const float32x4_t s = vmulq_f32(vld1q_f32(p + j), vdupq_n_f32(scale));
		vst1q_f32(p + j, s);
		max4 = raise_max(max4, s, lanes_between(j, from, to));
	}
	const float max = vmaxvq_f32(max4);
	for (size_t j = 0; j < KV_BLOCK; j += NEON_LANES) {
		const float32x4_t e =
			keep_lanes(exp4(vsubq_f32(vld1q_f32(p + j), vdupq_n_f32(max))),
				   lanes_between(j, from, to));
		float32x4_t *lane = &lanes[j / NEON_LANES % DOT_REGISTERS];
		vst1q_f32(p + j, e);
		*lane = vaddq_f32(*lane, e);
	}
	const float rescale = exp_f32(query->max - max);
	query->max = max;
	query->sum = fmaf(query->sum, rescale, sum_dot_lanes(lanes));
	return rescale;
}

/* ---- values ---- */

/* out[queries][d …] += Σ p[j] · value[j] over j in [from, to), for 4 · registers dimensions, or for
 * `left` of them if there are fewer. registers is a constant where this is inlined. */
ALWAYS_INLINE void sum_columns(const struct query *tile, float p[][KV_BLOCK],
			       const struct value_rows *values, enum kv_type type, size_t d,
			       size_t left, size_t from, size_t to, size_t queries,
			       size_t registers)
{
	float32x4_t sum[TILE][REGISTERS];

	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			sum[i][r] = load_up_to_4(tile[i].out + d + r * NEON_LANES, left);
	for (size_t j = from; j < to; j++) {
		const size_t at = values->offset + j * values->dim + d;
		float32x4_t v[REGISTERS];
		for (size_t r = 0; r < registers; r++)
			v[r] = load4(values->block, type, at + r * NEON_LANES, left);
		for (size_t i = 0; i < queries; i++)
			for (size_t r = 0; r < registers; r++)
				sum[i][r] = vfmaq_n_f32(sum[i][r], v[r], p[i][j]);
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			store_up_to_4(tile[i].out + d + r * NEON_LANES, left, sum[i][r]);
}

ALWAYS_INLINE void sum_values(const struct query *tile, float p[][KV_BLOCK],
			      const struct value_rows *values, enum kv_type type, size_t from,
			      size_t to, size_t queries)
{
	const size_t dim = values->dim;
	size_t d = 0;

	for (; d + WIDTH <= dim; d += WIDTH)
		sum_columns(tile, p, values, type, d, NEON_LANES, from, to, queries, REGISTERS);
	for (; d < dim; d += NEON_LANES)
		sum_columns(tile, p, values, type, d, dim - d, from, to, queries, 1);
}

/* ---- tiles ---- */

static void rescale_out(float *out, uint32_t dim, float factor)
{
	for (size_t d = 0; d < dim; d += NEON_LANES)
		store_up_to_4(out + d, dim - d,
			      vmulq_n_f32(load_up_to_4(out + d, dim - d), factor));
}

/* Takes one block into a tile of queries that all see some of it. They see it from ever later and
 * up to ever later positions (those of one token the same), so the values that all see are summed
 * together, and what lies before and after them for each alone. */
ALWAYS_INLINE void attend_tile(struct query *tile, const struct attention *a,
			       const struct value_rows *values, size_t start, enum kv_type type,
			       size_t queries)
{
	float p[TILE][KV_BLOCK];
	size_t from[TILE], to[TILE];

	scores(p, tile, a, a->blocks[start / KV_BLOCK], type, queries);
	for (size_t i = 0; i < queries; i++) {
		const size_t left = tile[i].length - start;
		from[i] = tile[i].from > start ? tile[i].from - start : 0;
		to[i] = left < KV_BLOCK ? left : KV_BLOCK;
		rescale_out(tile[i].out, (uint32_t)values->dim,
			    probabilities(p[i], &tile[i], a->scale, from[i], to[i]));
	}
	const size_t end = to[0], begin = from[queries - 1] < end ? from[queries - 1] : end;
	for (size_t i = 0; i + 1 < queries; i++)
		if (from[i] < begin)
			sum_values(&tile[i], &p[i], values, type, from[i], begin, 1);
	sum_values(tile, p, values, type, begin, end, queries);
	for (size_t i = 1; i < queries; i++) {
		const size_t after = from[i] > end ? from[i] : end;
		if (to[i] > after)
			sum_values(&tile[i], &p[i], values, type, after, to[i], 1);
	}
}

ALWAYS_INLINE void attend_some(struct query *tile, const struct attention *a,
			       const struct value_rows *values, size_t start, enum kv_type type,
			       size_t queries)
{
#define CASE(n)                                               \
	case n:                                               \
		attend_tile(tile, a, values, start, type, n); \
		break;
	switch (queries) {
		CASES_TO_4(CASE)
	}
#undef CASE
}

static __attribute__((noinline)) void attend_f32(struct query *tile, const struct attention *a,
						 const struct value_rows *values, size_t start,
						 size_t queries)
{
	attend_some(tile, a, values, start, KV_F32, queries);
}

static __attribute__((noinline)) void attend_f16(struct query *tile, const struct attention *a,
						 const struct value_rows *values, size_t start,
						 size_t queries)
{
	attend_some(tile, a, values, start, KV_F16, queries);
}

/* Takes a block into queries that all see some of it. */
static void attend_block(struct query *queries, size_t n, const struct attention *a,
			 const struct value_rows *values, size_t start)
{
	for (size_t i = 0; i < n; i += TILE) {
		const size_t count = n - i < TILE ? n - i : TILE;
		if (a->type == KV_F16)
			attend_f16(queries + i, a, values, start, count);
		else
			attend_f32(queries + i, a, values, start, count);
	}
}

/* The same where the values are a part of the keys. */
static __attribute__((noinline)) void attend_latent(struct query *queries, size_t n,
						    const struct attention *a, size_t start)
{
	float rows[KV_BLOCK * LATENT_DIM];
	const struct value_rows values = {rows, 0, a->latent_dim};

	attention_latent_values(rows, a, a->blocks[start / KV_BLOCK]);
	attend_block(queries, n, a, &values, start);
}

/* All blocks, for queries whose first positions and lengths ascend. */
static void attend_queries(struct query *queries, size_t n, const struct attention *a)
{
	const size_t dim = attention_value_dim(a), last = (queries[n - 1].length - 1) / KV_BLOCK;
	size_t first = 0, end = 0; /* the queries that see something of a block */

	for (size_t at = queries[0].from / KV_BLOCK; at <= last; at++) {
		const size_t start = at * KV_BLOCK;
		const struct value_rows values = {a->blocks[at], a->value_offset, a->head_dim};
		while (queries[first].length <= start)
			first++;
		while (end < n && queries[end].from < start + KV_BLOCK)
			end++;
		if (a->latent_dim)
			attend_latent(queries + first, end - first, a, start);
		else
			attend_block(queries + first, end - first, a, &values, start);
	}
	for (size_t i = 0; i < n; i++) {
		const float32x4_t sum = vdupq_n_f32(queries[i].sum);
		for (size_t d = 0; d < dim; d += NEON_LANES) {
			float *out = queries[i].out + d;
			const size_t left = dim - d;
			store_up_to_4(out, left, vdivq_f32(load_up_to_4(out, left), sum));
		}
	}
}

void neon_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n)
{
	struct query queries[QUERIES_AT_ONCE];
	size_t filled = 0;

	for (uint32_t t = 0; t < n; t++) {
		for (uint32_t h = 0; h < a->heads; h++) {
			const size_t at = t * stride + (size_t)h * a->head_dim;
			if (filled == QUERIES_AT_ONCE) {
				attend_queries(queries, filled, a);
				filled = 0;
			}
			queries[filled++] =
				attention_begin(a, q + at,
						out + attention_out(a, t * stride) +
							(size_t)h * attention_value_dim(a),
						h, a->length + t);
		}
	}
	attend_queries(queries, filled, a);
}

void neon_attend(float *out, const float *q, const struct attention *a)
{
	neon_attend_tokens(out, q, 0, a, 1);
}

#endif
