/* AVX2 attention: lanes are positions while scores are computed, dimensions while values are
 * summed.
 *
 * A query is one head of one token. Up to 4 of them are a tile, whose sums for 24 columns stay in
 * registers: 12 registers of sums, 3 of keys or values, 1 of a query's factor. So a vector that is
 * loaded (and widened, which costs two operations) is used 4 times and a factor 3 times; both units
 * for multiplication are busy, as they are not when a sum's latency of 4 cycles must be hidden by
 * fewer than 8 sums, and no other shape of 16 registers needs fewer operations for 8 queries. All
 * tiles take the same columns before the next ones, since keys or values of a block alone fill the
 * nearest cache in f32. Queries do not influence each other.
 */
#if defined(__x86_64__)

#include "kernels/attention.h"
#include "kernels/avx2.h"

enum {
	QUERIES_AT_ONCE = 64,
	TILE = 4,      /* queries */
	REGISTERS = 3, /* of positions or dimensions, for each query of a tile */
	CACHE_LINE = 64,
};

/* What one query does with the keys or the values of a block:
 * sum[column] += Σ_k factor[k] · row[k][column] over k in [from, to). */
struct product {
	float *sum;
	const float *factor;
	size_t from, to;
};

/* Queries that go through the blocks together; their first positions and their lengths ascend. */
struct batch {
	size_t count;
	struct query query[QUERIES_AT_ONCE];
	_Alignas(32) float p[QUERIES_AT_ONCE][KV_BLOCK]; /* scores, then probabilities */
	struct product scores[QUERIES_AT_ONCE], values[QUERIES_AT_ONCE];
};

/* The keys (a row for each dimension) or the values (a row for each position) of a block. */
struct rows {
	const void *first;
	size_t stride, columns; /* elements */
	const char *ahead;	/* what is needed next, as large as all rows together */
	size_t tiles;		/* that share in asking for it */
};

ALWAYS_INLINE size_t element_size(enum kv_type type)
{
	return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* type is a constant where this is inlined, here and below. */
ALWAYS_INLINE __m256 load8(const void *elements, enum kv_type type, size_t at)
{
	if (type == KV_F32)
		return _mm256_loadu_ps((const float *)elements + at);
	const void *p = (const uint16_t *)elements + at;
	return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

ALWAYS_INLINE float load1(const void *elements, enum kv_type type, size_t at)
{
	return type == KV_F32 ? ((const float *)elements)[at]
			      : _cvtsh_ss(((const uint16_t *)elements)[at]);
}

void avx2_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
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
	for (size_t d = 0; d < head_dim; d++) {
		out[key_at + d * KV_BLOCK] = _cvtss_sh(key[d], _MM_FROUND_TO_NEAREST_INT);
		if (value)
			out[value_at + d] = _cvtss_sh(value[d], _MM_FROUND_TO_NEAREST_INT);
	}
}

/* ---- products ---- */

/* 8 · registers columns of all products of a tile, for k in [from, to). queries and registers are
 * constants where this is inlined.
 *
 * What is needed next is asked for here, a little with every row, since rows are too far apart for
 * the hardware to foresee and requests in bursts wait for each other. All tiles do so, each for its
 * share: the first alone would have half of the time. */
ALWAYS_INLINE void add_columns(const struct product *tile, struct rows *r, enum kv_type type,
			       size_t column, size_t from, size_t to, size_t queries,
			       size_t registers)
{
	const size_t bytes = registers * AVX2_LANES * element_size(type);
	const size_t step = from == 0 ? bytes / r->tiles : 0;
	const char *ahead = r->ahead;
	__m256 sum[TILE][REGISTERS];

	for (size_t i = 0; i < queries; i++)
		for (size_t c = 0; c < registers; c++)
			sum[i][c] = _mm256_loadu_ps(tile[i].sum + column + c * AVX2_LANES);
#pragma GCC unroll 4
	for (size_t k = from; k < to; k++, ahead += step) {
		const size_t at = k * r->stride + column;
		__m256 v[REGISTERS];
		for (size_t byte = 0; byte < bytes; byte += CACHE_LINE)
			_mm_prefetch(ahead + byte, _MM_HINT_T0);
		for (size_t c = 0; c < registers; c++)
			v[c] = load8(r->first, type, at + c * AVX2_LANES);
		for (size_t i = 0; i < queries; i++) {
			const __m256 factor = _mm256_broadcast_ss(tile[i].factor + k);
			for (size_t c = 0; c < registers; c++)
				sum[i][c] = _mm256_fmadd_ps(factor, v[c], sum[i][c]);
		}
	}
	for (size_t i = 0; i < queries; i++)
		for (size_t c = 0; c < registers; c++)
			_mm256_storeu_ps(tile[i].sum + column + c * AVX2_LANES, sum[i][c]);
	r->ahead = ahead;
}

/* Queries see a block from ever later and up to ever later positions (those of one token the same),
 * so the values that all see are summed together, and what lies before and after them for each
 * alone. */
ALWAYS_INLINE void add_tile(const struct product *tile, struct rows *r, enum kv_type type,
			    size_t column, size_t queries, size_t registers)
{
	const size_t end = tile[0].to, last = tile[queries - 1].from;
	const size_t begin = last < end ? last : end;

	for (size_t i = 0; i + 1 < queries; i++)
		if (tile[i].from < begin)
			add_columns(&tile[i], r, type, column, tile[i].from, begin, 1, registers);
	add_columns(tile, r, type, column, begin, end, queries, registers);
	for (size_t i = 1; i < queries; i++) {
		const size_t after = tile[i].from > end ? tile[i].from : end;
		if (tile[i].to > after)
			add_columns(&tile[i], r, type, column, after, tile[i].to, 1, registers);
	}
}

ALWAYS_INLINE void add_some(const struct product *tile, struct rows *r, enum kv_type type,
			    size_t column, size_t queries, size_t registers)
{
#define CASE(q, c)                                     \
	case (q) * (REGISTERS + 1) + (c):              \
		add_tile(tile, r, type, column, q, c); \
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
ALWAYS_INLINE size_t even_part(size_t n, size_t most)
{
	const size_t parts = (n + most - 1) / most;
	return (n + parts - 1) / parts;
}

ALWAYS_INLINE void add_products(const struct product *p, size_t n, struct rows *r,
				enum kv_type type)
{
	size_t column = 0;

	while (r->columns - column >= AVX2_LANES) {
		const size_t registers = even_part((r->columns - column) / AVX2_LANES, REGISTERS);
		for (size_t i = 0, queries; i < n; i += queries) {
			queries = even_part(n - i, TILE);
			add_some(p + i, r, type, column, queries, registers);
		}
		column += registers * AVX2_LANES;
	}
	for (; column < r->columns; column++)
		for (size_t i = 0; i < n; i++)
			for (size_t k = p[i].from; k < p[i].to; k++)
				p[i].sum[column] =
					fmaf(p[i].factor[k],
					     load1(r->first, type, k * r->stride + column),
					     p[i].sum[column]);
}

static __attribute__((noinline)) void add_f32(const struct product *p, size_t n, struct rows *r)
{
	add_products(p, n, r, KV_F32);
}

static __attribute__((noinline)) void add_f16(const struct product *p, size_t n, struct rows *r)
{
	add_products(p, n, r, KV_F16);
}

/* ---- blocks ---- */

/* Those of the positions begin … begin + 7 that lie before `end`. */
ALWAYS_INLINE __m256 lanes_before(size_t end, size_t begin)
{
	const size_t left = end > begin ? end - begin : 0;
	return _mm256_castsi256_ps(first_lanes(left < AVX2_LANES ? left : AVX2_LANES));
}

/* Turns the scores of one query into probabilities relative to its new maximum, zero outside of
 * [from, to), and returns the factor by which earlier sums shrink. */
ALWAYS_INLINE float probabilities(float p[KV_BLOCK], struct query *query, float scale, size_t from,
				  size_t to)
{
	enum { SCORES = KV_BLOCK / AVX2_LANES };
	const __m256 lowest = _mm256_set1_ps(-INFINITY);
	__m256 s[SCORES], in[SCORES], max8 = _mm256_set1_ps(query->max);
	__m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

	for (size_t i = 0; i < SCORES; i++) {
		const size_t begin = i * AVX2_LANES;
		in[i] = _mm256_andnot_ps(lanes_before(from, begin), lanes_before(to, begin));
		s[i] = _mm256_mul_ps(_mm256_loadu_ps(p + begin), _mm256_set1_ps(scale));
		s[i] = _mm256_blendv_ps(lowest, s[i], in[i]);
		max8 = _mm256_max_ps(s[i], max8); /* of a NaN and max: max */
	}
	const float max = max_lane(max8);
	for (size_t i = 0; i < SCORES; i++) {
		/* Masked again, for the case that max itself is -infinity. */
		const __m256 e =
			_mm256_and_ps(exp8(_mm256_sub_ps(s[i], _mm256_set1_ps(max))), in[i]);
		_mm256_storeu_ps(p + i * AVX2_LANES, e);
		lanes[i % 2] = _mm256_add_ps(lanes[i % 2], e);
	}
	const float rescale = exp_f32(query->max - max);
	query->max = max;
	query->sum = fmaf(query->sum, rescale, sum_dot_lanes(lanes[0], lanes[1]));
	return rescale;
}

static void rescale_out(float *out, size_t dim, float factor)
{
	if (factor == 1) /* as it is in most blocks: their scores seldom bring a new maximum */
		return;
	for (size_t d = 0; d < dim; d += AVX2_LANES)
		store_up_to_8(
			out + d, dim - d,
			_mm256_mul_ps(load_up_to_8(out + d, dim - d), _mm256_set1_ps(factor)));
}

/* The keys or values of one key-value head in a block, and what is read after them. */
static struct rows rows_of(const struct attention *a, const void *block, size_t offset,
			   size_t columns, const void *next, size_t next_offset, size_t queries)
{
	const size_t element = element_size(a->type);

	return (struct rows){
		.first = (const char *)block + offset * element,
		.stride = columns,
		.columns = columns,
		.ahead = (const char *)next + next_offset * element,
		.tiles = (queries + TILE - 1) / TILE,
	};
}

/* The queries [first, end) of a batch. */
struct range {
	size_t first, end;
};

/* Takes the block that begins at position `start` into the queries that see some of it. */
static void attend_block(struct batch *b, struct range seeing, const struct attention *a,
			 size_t start, struct rows *values)
{
	const void *block = a->blocks[start / KV_BLOCK];
	const size_t n = seeing.end - seeing.first, dim = attention_value_dim(a);
	struct rows keys = rows_of(a, block, a->key_offset, KV_BLOCK, block, a->value_offset, n);

	memset(b->p[seeing.first], 0, n * sizeof *b->p);
	(a->type == KV_F16 ? add_f16 : add_f32)(b->scores + seeing.first, n, &keys);
	for (size_t i = seeing.first; i < seeing.end; i++) {
		struct query *q = &b->query[i];
		const size_t left = q->length - start, to = left < KV_BLOCK ? left : KV_BLOCK;
		const size_t from = q->from > start ? q->from - start : 0;
		/* Without masks where all are visible, which is nearly everywhere. */
		const float rescale = from > 0 || to < KV_BLOCK
					      ? probabilities(b->p[i], q, a->scale, from, to)
					      : probabilities(b->p[i], q, a->scale, 0, KV_BLOCK);
		rescale_out(q->out, dim, rescale);
		b->values[i].from = from;
		b->values[i].to = to;
	}
	(a->type == KV_F16 ? add_f16 : add_f32)(b->values + seeing.first, n, values);
}

/* The same where the values are a part of the keys. */
static __attribute__((noinline)) void attend_latent(struct batch *b, struct range seeing,
						    const struct attention *a, size_t start)
{
	_Alignas(32) float latent[KV_BLOCK * LATENT_DIM];
	const void *block = a->blocks[start / KV_BLOCK];
	struct rows values =
		rows_of(a, latent, 0, a->latent_dim, latent, 0, seeing.end - seeing.first);

	attention_latent_values(latent, a, block);
	attend_block(b, seeing, a, start, &values);
}

static void begin_query(struct batch *b, const struct attention *a, const float *q, float *out,
			uint32_t head, uint32_t length)
{
	const size_t i = b->count++;

	b->query[i] = attention_begin(a, q, out, head, length);

	b->scores[i] = (struct product){.sum = b->p[i], .factor = q, .to = a->head_dim};
	b->values[i] = (struct product){.sum = out, .factor = b->p[i]};
}

/* Takes all blocks into the queries of a batch and empties it. */
static void attend_batch(struct batch *b, const struct attention *a)
{
	const size_t last = (b->query[b->count - 1].length - 1) / KV_BLOCK;
	const size_t dim = attention_value_dim(a);
	struct range seeing = {0, 0};

	for (size_t at = b->query[0].from / KV_BLOCK; at <= last; at++) {
		const size_t start = at * KV_BLOCK;
		const void *next = a->blocks[at < last ? at + 1 : at];
		while (b->query[seeing.first].length <= start)
			seeing.first++;
		while (seeing.end < b->count && b->query[seeing.end].from < start + KV_BLOCK)
			seeing.end++;
		struct rows values = rows_of(a, a->blocks[at], a->value_offset, a->head_dim, next,
					     a->key_offset, seeing.end - seeing.first);
		if (a->latent_dim)
			attend_latent(b, seeing, a, start);
		else
			attend_block(b, seeing, a, start, &values);
	}
	for (size_t i = 0; i < b->count; i++)
		for (size_t d = 0; d < dim; d++)
			b->query[i].out[d] /= b->query[i].sum;
	b->count = 0;
}

void avx2_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n)
{
	struct batch batch;

	batch.count = 0;
	for (uint32_t t = 0; t < n; t++) {
		for (uint32_t h = 0; h < a->heads; h++) {
			const size_t at = t * stride + (size_t)h * a->head_dim;
			if (batch.count == QUERIES_AT_ONCE)
				attend_batch(&batch, a);
			begin_query(&batch, a, q + at,
				    out + attention_out(a, t * stride) +
					    (size_t)h * attention_value_dim(a),
				    h, a->length + t);
		}
	}
	attend_batch(&batch, a);
}

void avx2_attend(float *out, const float *q, const struct attention *a)
{
	avx2_attend_tokens(out, q, 0, a, 1);
}

#endif
