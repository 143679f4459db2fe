/* The AVX2 table's attention: how queries meet the keys and values of a block; the rest is in
 * attention_lanes.h.
 *
 * Up to 4 queries are a tile, whose sums for 24 columns stay in registers: 12 registers of sums, 3
 * of keys or values, 1 of a query's factor. So a vector that is loaded (and widened, which costs
 * two operations) is used 4 times and a factor 3 times; both units for multiplication are busy, as
 * they are not when a sum's latency of 4 cycles must be hidden by fewer than 8 sums, and no other
 * shape of 16 registers needs fewer operations for 8 queries. All tiles take the same columns
 * before the next ones, since keys or values of a block alone fill the nearest cache in f32. (If
 * each tile went through all columns alone, it took 1.2 times as long with f16 and 1.5 times with
 * f32.)
 */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"

/* ---- codes, for attention_codes_lanes.h ---- */

/* Bytes of keys and queries are widened to 16 bits: columns 0 and 2, then 1 and 3. Two digits of 7
 * bits times two values fit into 16. */
enum { CODES_OFFSET = 128, CODES_KEYS = 2, CODES_VALUES = 2 };
typedef int16_t codes_query;
struct attention_keys {
	__m256i even, odd;
};
#define codes_place(i) ((i) / 2 + (i) % 2 * 2)
#define codes_ask(p) _mm_prefetch(p, _MM_HINT_T0)
#define codes_all(i) _mm256_set1_epi32(i)
#define codes_floats(sum) _mm256_cvtepi32_ps(sum)
#define codes_join(high, low) _mm256_add_epi32(_mm256_slli_epi32(high, 7), low)
#define codes_load_values(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))

ALWAYS_INLINE struct attention_keys attention_load_keys(const uint8_t *p)
{
	const __m256i k = codes_load_values(p);
	return (struct attention_keys){_mm256_and_si256(k, _mm256_set1_epi16(0xff)),
				       _mm256_srli_epi16(k, 8)};
}

/* Four bytes in all lanes. */
ALWAYS_INLINE __m256i attention_load_four(const void *p)
{
	int32_t four;
	memcpy(&four, p, sizeof four);
	return _mm256_set1_epi32(four);
}

ALWAYS_INLINE __m256i attention_dot_keys(__m256i sum, struct attention_keys k, const codes_query *q)
{
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(k.even, attention_load_four(q)));
	return _mm256_add_epi32(sum, _mm256_madd_epi16(k.odd, attention_load_four(q + 2)));
}

ALWAYS_INLINE __m256i attention_dot_values(__m256i sum, __m256i v, const uint8_t *w)
{
	const __m256i pairs = _mm256_maddubs_epi16(attention_load_four(w), v);
	return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "kernels/attention_lanes.h"

enum {
	TILE = 4,      /* queries */
	REGISTERS = 3, /* of positions or dimensions, for each query of a tile */
};

/* What one query does with the keys or the values of a block: sum[column] is multiplied by
 * `rescale`, and then += Σ_k factor[k] · row[k][column] over k in [from, to). (A pass over the sums
 * of its own before this, only where rescale is not 1, waited for the branch: 4 % of all time.) */
struct attention_product {
	float *sum, rescale;
	const float *factor;
	size_t from, to;
};

/* The rows of a block, on the way through them. */
struct attention_walk {
	const void *first;
	size_t stride, columns; /* elements */
	const char *ahead;	/* what is needed next, as large as all rows together */
	size_t tiles;		/* that share in asking for it */
	bool zeros;		/* sums begin as zeros, whatever they are */
};

ALWAYS_INLINE float attention_load_one(const void *elements, enum kv_type type, size_t at)
{
	return type == KV_F32 ? ((const float *)elements)[at]
			      : _cvtsh_ss(((const uint16_t *)elements)[at]);
}

/* 8 · registers columns of all products of a tile, for k in [from, to). queries and registers are
 * constants where this is inlined.
 *
 * What is needed next is asked for here, a little with every row, since rows are too far apart for
 * the hardware to foresee and requests in bursts wait for each other. All tiles do so, each for its
 * share: the first alone would have half of the time. */
ALWAYS_INLINE void attention_add_columns(const struct attention_product *tile,
					 struct attention_walk *r, enum kv_type type, size_t column,
					 size_t from, size_t to, size_t queries, size_t registers)
{
	const size_t bytes = registers * LANES * attention_element(type);
	const size_t step = from == 0 ? bytes / r->tiles : 0;
	const char *ahead = r->ahead;
	lanes sum[TILE][REGISTERS];

	const bool zeros = r->zeros && from == 0;

	for (size_t i = 0; i < queries; i++) {
		const lanes rescale = lanes_all(from == tile[i].from ? tile[i].rescale : 1);
		for (size_t c = 0; c < registers; c++)
			sum[i][c] = zeros ? lanes_all(0)
					  : lanes_mul(lanes_load(tile[i].sum + column + c * LANES,
								 LANES),
						      rescale);
	}
#pragma GCC unroll 4
	for (size_t k = from; k < to; k++, ahead += step) {
		const size_t at = k * r->stride + column;
		lanes v[REGISTERS];
		for (size_t byte = 0; byte < bytes; byte += CACHE_LINE)
			_mm_prefetch(ahead + byte, _MM_HINT_T0);
		for (size_t c = 0; c < registers; c++)
			v[c] = attention_load(r->first, type, at + c * LANES, LANES);
		for (size_t i = 0; i < queries; i++) {
			const lanes factor = lanes_all(tile[i].factor[k]);
			for (size_t c = 0; c < registers; c++)
				sum[i][c] = lanes_fma(factor, v[c], sum[i][c]);
		}
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t c = 0; c < registers; c++)
			lanes_store(tile[i].sum + column + c * LANES, LANES, sum[i][c]);
	r->ahead = ahead;
}

/* Queries see a block from ever later and up to ever later positions (those of one token the same),
 * so the values that all see are summed together, and the positions before and after these for
 * each query alone. */
ALWAYS_INLINE void attention_add_tile(const struct attention_product *tile,
				      struct attention_walk *r, enum kv_type type, size_t column,
				      size_t queries, size_t registers)
{
	const size_t end = tile[0].to, last = tile[queries - 1].from;
	const size_t begin = last < end ? last : end;

	for (size_t i = 0; i + 1 < queries; i++)
		if (tile[i].from < begin)
			attention_add_columns(&tile[i], r, type, column, tile[i].from, begin, 1,
					      registers);
	if (begin < end)
		attention_add_columns(tile, r, type, column, begin, end, queries, registers);
	for (size_t i = 1; i < queries; i++) {
		const size_t after = tile[i].from > end ? tile[i].from : end;
		if (tile[i].to > after)
			attention_add_columns(&tile[i], r, type, column, after, tile[i].to, 1,
					      registers);
	}
}

ALWAYS_INLINE void attention_add_some(const struct attention_product *tile,
				      struct attention_walk *r, enum kv_type type, size_t column,
				      size_t queries, size_t registers)
{
#define CASE(q, c)                                               \
	case (q) * (REGISTERS + 1) + (c):                        \
		attention_add_tile(tile, r, type, column, q, c); \
		break;
#define CASES(q) CASE(q, 1) CASE(q, 2) CASE(q, 3)
	switch (queries * (REGISTERS + 1) + registers) {
		CASES(1)
		CASES(2)
		CASES(3)
		CASES(4)
	}
#undef CASES
#undef CASE
}

/* How many of n > 0 things to take now, `most` or fewer: the parts that follow are then as few and
 * as even as can be. A part of one register or one query would wait for its own sums. */
ALWAYS_INLINE size_t attention_even_part(size_t n, size_t most)
{
	const size_t parts = (n + most - 1) / most;
	return (n + parts - 1) / parts;
}

ALWAYS_INLINE void attention_add_products(const struct attention_product *p, size_t n,
					  struct attention_walk *r, enum kv_type type)
{
	size_t column = 0;

	while (r->columns - column >= LANES) {
		const size_t registers =
			attention_even_part((r->columns - column) / LANES, REGISTERS);
		for (size_t i = 0, queries; i < n; i += queries) {
			queries = attention_even_part(n - i, TILE);
			attention_add_some(p + i, r, type, column, queries, registers);
		}
		column += registers * LANES;
	}
	for (; column < r->columns; column++)
		for (size_t i = 0; i < n; i++) {
			float sum = r->zeros ? 0 : p[i].sum[column] * p[i].rescale;
			for (size_t k = p[i].from; k < p[i].to; k++)
				sum = fmaf(
					p[i].factor[k],
					attention_load_one(r->first, type, k * r->stride + column),
					sum);
			p[i].sum[column] = sum;
		}
}

static __attribute__((noinline)) void attention_add_f32(const struct attention_product *p, size_t n,
							struct attention_walk *r)
{
	attention_add_products(p, n, r, KV_F32);
}

static __attribute__((noinline)) void attention_add_f16(const struct attention_product *p, size_t n,
							struct attention_walk *r)
{
	attention_add_products(p, n, r, KV_F16);
}

/* What is needed after these rows are the rows of `after`, in its own block or the next one. */
static struct attention_walk attention_walk_begin(const struct attention_rows *rows,
						  const void *after, size_t after_offset,
						  enum kv_type type, size_t queries, bool zeros)
{
	const size_t element = attention_element(type);

	return (struct attention_walk){
		.first = (const char *)rows->now + rows->offset * element,
		.stride = rows->columns,
		.columns = rows->columns,
		.ahead = (const char *)after + after_offset * element,
		.tiles = (queries + TILE - 1) / TILE,
		.zeros = zeros,
	};
}

static void attention_block(struct query *queries, size_t n, const struct attention *a,
			    const struct attention_rows *keys, const struct attention_rows *values,
			    size_t start)
{
	_Alignas(32) float p[QUERIES_AT_ONCE][KV_BLOCK]; /* scores, then probabilities */
	struct attention_product product[QUERIES_AT_ONCE];
	struct attention_walk key_walk = attention_walk_begin(keys, values->now, values->offset,
							      a->type, n, true),
			      value_walk = attention_walk_begin(
				      values, keys->next, keys->offset, a->type, n,
				      attention_begins(queries, n, start));

	if (n == 0) /* never; without this gcc finds that product may not be initialised */
		return;
	for (size_t i = 0; i < n; i++)
		product[i] = (struct attention_product){p[i], 1, queries[i].q, 0, a->head_dim};
	(a->type == KV_F16 ? attention_add_f16 : attention_add_f32)(product, n, &key_walk);
	for (size_t i = 0; i < n; i++) {
		struct query *q = &queries[i];
		const size_t left = q->length - start, to = left < KV_BLOCK ? left : KV_BLOCK;
		const size_t from = q->from > start ? q->from - start : 0;
		/* Without masks where all are visible, which is nearly everywhere. */
		const float rescale =
			from > 0 || to < KV_BLOCK
				? attention_probabilities(p[i], q, a->scale, from, to)
				: attention_probabilities(p[i], q, a->scale, 0, KV_BLOCK);
		product[i] = (struct attention_product){q->sums, rescale, p[i], from, to};
	}
	(a->type == KV_F16 ? attention_add_f16 : attention_add_f32)(product, n, &value_walk);
}

#endif
