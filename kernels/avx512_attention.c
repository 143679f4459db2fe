/* AVX-512 attention: lanes are positions while scores are computed, dimensions while values are
 * summed.
 *
 * A query is one head of one token. Up to 8 of them are a tile: every vector of keys or values that
 * is loaded (and widened, which costs as much as a multiplication) meets all queries of the tile
 * while their sums stay in registers. Blocks are the outer loop, so that all tiles read a block
 * from the cache that the first one brought it to. Queries do not influence each other.
 */
#if defined(__x86_64__)

#include "kernels/attention.h"
#include "kernels/avx512.h"

enum {
	QUERIES_AT_ONCE = 64,
	QUERY_PART = 128,     /* dimensions */
	TILE = 8,	      /* queries */
	REGISTERS_MAX = 4,    /* of positions or dimensions, in tiles of up to HALF_TILE queries */
	HALF_TILE = TILE / 2, /* more queries than this have half as many registers each */
};

/* The block at hand, and the one after it (or again the same). */
struct blocks {
	const void *now, *next;
};

/* Where values lie as rows: in the block, or for a latent in an array made of it. */
struct value_rows {
	struct blocks blocks;
	size_t offset, dim;
};

/* Elements at … at+15; if fewer than 16 are left, zeros behind them. type is a constant where this
 * is inlined, here and below. */
ALWAYS_INLINE __m512 load16(const void *block, enum kv_type type, size_t at, size_t left)
{
	if (type == KV_F32) {
		const float *p = (const float *)block + at;
		return left >= AVX512_LANES ? _mm512_loadu_ps(p) : load_up_to_16(p, left);
	}
	const void *p = (const uint16_t *)block + at;
	return _mm512_cvtph_ps(left >= AVX512_LANES
				       ? _mm256_loadu_si256(p)
				       : _mm256_maskz_loadu_epi16(first_lanes(left), p));
}

/* 16 · registers elements. Every line of the next block is asked for when its like is read from
 * this one: lines are too far apart for the hardware to foresee. */
ALWAYS_INLINE void load_row(__m512 v[REGISTERS_MAX], const struct blocks *b, enum kv_type type,
			    size_t at, size_t left, size_t registers)
{
	const size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
	const char *next = (const char *)b->next + at * element;

	for (size_t r = 0; r < registers; r++)
		v[r] = load16(b->now, type, at + r * AVX512_LANES, left);
	for (size_t byte = 0; byte < registers * AVX512_LANES * element; byte += 64)
		_mm_prefetch(next + byte, _MM_HINT_T1);
}

void avx512_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
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
	for (size_t d = 0; d < head_dim; d += AVX512_LANES) {
		const size_t left = head_dim - d;
		uint16_t half[AVX512_LANES];
		_mm256_storeu_si256(
			(__m256i *)(void *)half,
			_mm512_cvtps_ph(load_up_to_16(key + d, left), _MM_FROUND_TO_NEAREST_INT));
		for (size_t i = 0; i < AVX512_LANES && i < left; i++)
			out[key_at + (d + i) * KV_BLOCK] = half[i];
		if (!value)
			continue;
		_mm256_mask_storeu_epi16(
			out + value_at + d, first_lanes(left),
			_mm512_cvtps_ph(load_up_to_16(value + d, left), _MM_FROUND_TO_NEAREST_INT));
	}
}

/* ---- scores ---- */

/* s[queries][64] = q · keys, not yet scaled. queries and registers are constants where this is
 * inlined, here and below. */
ALWAYS_INLINE void scores(float s[][KV_BLOCK], const struct query *tile, const struct attention *a,
			  const struct blocks *b, enum kv_type type, size_t queries,
			  size_t registers)
{
	const size_t width = registers * AVX512_LANES;

	for (size_t begin = 0; begin < KV_BLOCK; begin += width) {
		__m512 sum[TILE][REGISTERS_MAX];
		for (size_t i = 0; i < queries; i++)
			for (size_t r = 0; r < registers; r++)
				sum[i][r] = _mm512_setzero_ps();
		for (size_t d0 = 0; d0 < a->head_dim; d0 += QUERY_PART) {
			const size_t left = a->head_dim - d0;
			const size_t part = left < QUERY_PART ? left : QUERY_PART;
			_Alignas(64) float q[TILE][QUERY_PART]; /* side by side, so that one pointer
								   is enough */
			for (size_t i = 0; i < queries; i++)
				for (size_t d = 0; d < part; d += AVX512_LANES)
					_mm512_store_ps(q[i] + d, load_up_to_16(tile[i].q + d0 + d,
										part - d));
			for (size_t d = 0; d < part; d++) {
				const size_t at = a->key_offset + (d0 + d) * KV_BLOCK + begin;
				__m512 k[REGISTERS_MAX];
				load_row(k, b, type, at, AVX512_LANES, registers);
				for (size_t i = 0; i < queries; i++)
					for (size_t r = 0; r < registers; r++)
						sum[i][r] = _mm512_fmadd_ps(_mm512_set1_ps(q[i][d]),
									    k[r], sum[i][r]);
			}
		}
		for (size_t i = 0; i < queries; i++)
			for (size_t r = 0; r < registers; r++)
				_mm512_storeu_ps(s[i] + begin + r * AVX512_LANES, sum[i][r]);
	}
}

/* Turns the scores of one query into probabilities relative to its new maximum, zero outside of
 * [from, to), and returns the factor by which earlier sums shrink. */
ALWAYS_INLINE float probabilities(float p[KV_BLOCK], struct query *query, float scale, size_t from,
				  size_t to)
{
	enum { REGISTERS = KV_BLOCK / AVX512_LANES };
	__m512 s[REGISTERS], max16 = _mm512_set1_ps(query->max), lanes = _mm512_setzero_ps();
	__mmask16 in[REGISTERS];

	for (size_t r = 0; r < REGISTERS; r++) {
		const size_t begin = r * AVX512_LANES;
		in[r] = (__mmask16)(first_lanes(to > begin ? to - begin : 0) &
				    ~first_lanes(from > begin ? from - begin : 0));
		s[r] = _mm512_mul_ps(_mm512_loadu_ps(p + begin), _mm512_set1_ps(scale));
		max16 = _mm512_mask_max_ps(max16, in[r], s[r], max16); /* of a NaN and max: max */
	}
	const float max = max_lane(max16);
	for (size_t r = 0; r < REGISTERS; r++) {
		const __m512 e = exp16(_mm512_sub_ps(s[r], _mm512_set1_ps(max)));
		_mm512_storeu_ps(p + r * AVX512_LANES, _mm512_maskz_mov_ps(in[r], e));
		lanes = _mm512_mask_add_ps(lanes, in[r], lanes, e);
	}
	const float rescale = exp_f32(query->max - max);
	query->max = max;
	query->sum = fmaf(query->sum, rescale, sum_dot_lanes(lanes));
	return rescale;
}

/* ---- values ---- */

/* out[queries][d …] += Σ p[j] · value[j] over j in [from, to), for 16 · registers dimensions, or
 * for `left` of them if there are fewer. */
ALWAYS_INLINE void sum_columns(const struct query *tile, float p[][KV_BLOCK],
			       const struct value_rows *values, enum kv_type type, size_t d,
			       size_t left, size_t from, size_t to, size_t queries,
			       size_t registers)
{
	__m512 sum[TILE][REGISTERS_MAX];

	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			sum[i][r] = load16(tile[i].out, KV_F32, d + r * AVX512_LANES, left);
	for (size_t j = from; j < to; j++) {
		const size_t at = values->offset + j * values->dim + d;
		__m512 v[REGISTERS_MAX];
		load_row(v, &values->blocks, type, at, left, registers);
		for (size_t i = 0; i < queries; i++) {
			const __m512 pj = _mm512_set1_ps(p[i][j]);
			for (size_t r = 0; r < registers; r++)
				sum[i][r] = _mm512_fmadd_ps(pj, v[r], sum[i][r]);
		}
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t r = 0; r < registers; r++)
			store_up_to_16(tile[i].out + d + r * AVX512_LANES, left, sum[i][r]);
}

ALWAYS_INLINE void sum_values(const struct query *tile, float p[][KV_BLOCK],
			      const struct value_rows *values, enum kv_type type, size_t from,
			      size_t to, size_t queries, size_t registers)
{
	const size_t dim = values->dim, width = registers * AVX512_LANES;
	size_t d = 0;

	for (; d + width <= dim; d += width)
		sum_columns(tile, p, values, type, d, AVX512_LANES, from, to, queries, registers);
	for (; d < dim; d += AVX512_LANES)
		sum_columns(tile, p, values, type, d, dim - d, from, to, queries, 1);
}

/* ---- tiles ---- */

/* Takes one block into a tile of queries that all see some of it. They see it from ever later and
 * up to ever later positions (those of one token the same), so the values that all see are summed
 * together, and what lies before and after them for each alone. */
ALWAYS_INLINE void attend_tile(struct query *tile, const struct attention *a,
			       const struct blocks *b, const struct value_rows *values,
			       size_t start, enum kv_type type, size_t queries, size_t registers)
{
	const size_t dim = values->dim;
	float p[TILE][KV_BLOCK];
	size_t from[TILE], to[TILE];

	scores(p, tile, a, b, type, queries, registers);
	for (size_t i = 0; i < queries; i++) {
		const size_t left = tile[i].length - start;
		from[i] = tile[i].from > start ? tile[i].from - start : 0;
		to[i] = left < KV_BLOCK ? left : KV_BLOCK;
		const float rescale = probabilities(p[i], &tile[i], a->scale, from[i], to[i]);
		for (size_t d = 0; d < dim; d += AVX512_LANES) {
			const __m512 v = load_up_to_16(tile[i].out + d, dim - d);
			store_up_to_16(tile[i].out + d, dim - d,
				       _mm512_mul_ps(v, _mm512_set1_ps(rescale)));
		}
	}
	const size_t end = to[0], begin = from[queries - 1] < end ? from[queries - 1] : end;
	for (size_t i = 0; i + 1 < queries; i++)
		if (from[i] < begin)
			sum_values(&tile[i], &p[i], values, type, from[i], begin, 1, REGISTERS_MAX);
	sum_values(tile, p, values, type, begin, end, queries, registers);
	for (size_t i = 1; i < queries; i++) {
		const size_t after = from[i] > end ? from[i] : end;
		if (to[i] > after)
			sum_values(&tile[i], &p[i], values, type, after, to[i], 1, REGISTERS_MAX);
	}
}

ALWAYS_INLINE void attend_some(struct query *tile, const struct attention *a,
			       const struct blocks *b, const struct value_rows *values,
			       size_t start, enum kv_type type, size_t queries)
{
#define CASE(n)                                                                   \
	case n:                                                                   \
		attend_tile(tile, a, b, values, start, type, n,                   \
			    (n) > HALF_TILE ? REGISTERS_MAX / 2 : REGISTERS_MAX); \
		break;
	switch (queries) {
		CASES_TO_8(CASE)
	}
#undef CASE
}

static __attribute__((noinline)) void attend_f32(struct query *tile, const struct attention *a,
						 const struct blocks *b,
						 const struct value_rows *values, size_t start,
						 size_t queries)
{
	attend_some(tile, a, b, values, start, KV_F32, queries);
}

static __attribute__((noinline)) void attend_f16(struct query *tile, const struct attention *a,
						 const struct blocks *b,
						 const struct value_rows *values, size_t start,
						 size_t queries)
{
	attend_some(tile, a, b, values, start, KV_F16, queries);
}

/* Takes a block into queries that all see some of it. */
static void attend_block(struct query *queries, size_t n, const struct attention *a,
			 const struct blocks *b, const struct value_rows *values, size_t start)
{
	for (size_t i = 0; i < n; i += TILE) {
		const size_t count = n - i < TILE ? n - i : TILE;
		if (a->type == KV_F16)
			attend_f16(queries + i, a, b, values, start, count);
		else
			attend_f32(queries + i, a, b, values, start, count);
	}
}

/* The same where the values are a part of the keys. */
static __attribute__((noinline)) void attend_latent(struct query *queries, size_t n,
						    const struct attention *a,
						    const struct blocks *b, size_t start)
{
	_Alignas(64) float rows[KV_BLOCK * LATENT_DIM];
	const struct value_rows values = {{rows, rows}, 0, a->latent_dim};

	attention_latent_values(rows, a, b->now);
	attend_block(queries, n, a, b, &values, start);
}

/* All blocks, for queries whose first positions and lengths ascend. */
static void attend_queries(struct query *queries, size_t n, const struct attention *a)
{
	const size_t dim = attention_value_dim(a), last = (queries[n - 1].length - 1) / KV_BLOCK;
	size_t first = 0, end = 0; /* the queries that see something of a block */

	for (size_t at = queries[0].from / KV_BLOCK; at <= last; at++) {
		const size_t start = at * KV_BLOCK;
		const struct blocks b = {a->blocks[at], a->blocks[at < last ? at + 1 : at]};
		const struct value_rows values = {b, a->value_offset, a->head_dim};
		while (queries[first].length <= start)
			first++;
		while (end < n && queries[end].from < start + KV_BLOCK)
			end++;
		if (a->latent_dim)
			attend_latent(queries + first, end - first, a, &b, start);
		else
			attend_block(queries + first, end - first, a, &b, &values, start);
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t d = 0; d < dim; d += AVX512_LANES) {
			float *out = queries[i].out + d;
			const size_t left = dim - d;
			store_up_to_16(out, left,
				       _mm512_div_ps(load_up_to_16(out, left),
						     _mm512_set1_ps(queries[i].sum)));
		}
	}
}

void avx512_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
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

void avx512_attend(float *out, const float *q, const struct attention *a)
{
	avx512_attend_tokens(out, q, 0, a, 1);
}

#endif
