/* Attention as one thread computes its part: a position's score, a column's value sum, the joining of
 * spans. kernels.h (attend) has the order of all of it. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_ATTENTION_H
#define MOEFS_KERNELS_CUDA_CUDA_ATTENTION_H

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_vectors.h"

enum {
	CUDA_KV_BLOCK = 64,
	CUDA_SPAN = 256,
	CUDA_SPAN_BLOCKS = CUDA_SPAN / CUDA_KV_BLOCK,
	CUDA_DIM_USUAL = 128, /* elements of a head */
};

/* Element `at` of a block of keys and values. */
CUDA_THREAD float cuda_element(const uint8_t *block, uint32_t half, size_t at)
{
	return half ? cuda_from_half(((const uint16_t *)(const void *)block)[at])
		    : ((const float *)(const void *)block)[at];
}
CUDA_THREAD void cuda_put_element(uint8_t *block, uint32_t half, size_t at, float f)
{
	if (half)
		((uint16_t *)(void *)block)[at] = cuda_to_half(f);
	else
		((float *)(void *)block)[at] = f;
}

/* What a token of that length sees: the first position; and of a block its slots from … to - 1, none
 * if to <= from. */
CUDA_THREAD uint32_t cuda_first_seen(uint32_t length, uint32_t window)
{
	return window && length > window ? length - window : 0;
}
struct cuda_seen {
	uint32_t from, to;
};
CUDA_THREAD struct cuda_seen cuda_block_seen(uint32_t start, uint32_t first, uint32_t length)
{
	struct cuda_seen s;
	const uint32_t left = length > start ? length - start : 0;
	const uint32_t before = first > start ? first - start : 0;

	s.to = left < CUDA_KV_BLOCK ? left : CUDA_KV_BLOCK;
	s.from = before < s.to ? before : s.to;
	return s;
}

/* Element d of the key or value of a head, to the place of row t. */
CUDA_THREAD void cuda_put_key(const struct cuda_keys *p, size_t t, size_t head, size_t d, float f)
{
	const struct cuda_row row = p->rows[t];
	uint8_t *block = (uint8_t *)(uintptr_t)row.blocks[row.position / CUDA_KV_BLOCK];

	cuda_put_element(block, p->half,
			 p->key_offset + head * p->key_step + d * CUDA_KV_BLOCK +
				 row.position % CUDA_KV_BLOCK,
			 f);
}
CUDA_THREAD void cuda_put_value(const struct cuda_keys *p, size_t t, size_t head, size_t d, float f)
{
	const struct cuda_row row = p->rows[t];
	uint8_t *block = (uint8_t *)(uintptr_t)row.blocks[row.position / CUDA_KV_BLOCK];

	cuda_put_element(block, p->half,
			 p->value_offset + head * p->value_step +
				 (size_t)(row.position % CUDA_KV_BLOCK) * p->head_dim + d,
			 f);
}

/* Some queries of one slot's key. */
enum { CUDA_HEADS_MOST = 4, CUDA_KEYS_AHEAD = 32, CUDA_KEYS_NEAR = 8 };

/* Adds to score[h] the products with `count` elements of a key, whose first is `at`; q[h · step] are the
 * queries' elements. heads and count are constants. */
CUDA_THREAD void cuda_scores_added(float *score, uint32_t heads, const float *q, uint32_t step,
				   const uint8_t *block, uint32_t half, size_t at, uint32_t count)
{
	float key[CUDA_KEYS_AHEAD];

	CUDA_UNROLL
	for (uint32_t d = 0; d < count; d++)
		key[d] = cuda_element(block, half, at + d * CUDA_KV_BLOCK);
	CUDA_UNROLL
	for (uint32_t d = 0; d < count; d += 4) {
		CUDA_UNROLL
		for (uint32_t h = 0; h < heads; h++) {
			const struct cuda_four four = cuda_four_of(q + h * step + d);
			CUDA_UNROLL
			for (uint32_t i = 0; i < 4 && i < count; i++)
				score[h] = cuda_fma(four.f[i], key[d + i], score[h]);
		}
	}
}

/* The scores of one slot, whose first element of the key is `at`. A query begins at a multiple of four in
 * shared memory, `step` numbers after the one before. `ahead`, a constant, elements of the key are loaded
 * at once: many from the card's memory, and few from shared memory, where the loop is better small. */
CUDA_THREAD void cuda_scores(float *score, uint32_t heads, const float *q, uint32_t step,
			     const uint8_t *block, uint32_t half, size_t at, uint32_t dim, float scale,
			     uint32_t ahead)
{
	uint32_t d = 0;

	CUDA_UNROLL
	for (uint32_t h = 0; h < heads; h++)
		score[h] = 0;
	CUDA_ROLLED
	for (; d + ahead <= dim; d += ahead)
		cuda_scores_added(score, heads, q + d, step, block, half, at + d * CUDA_KV_BLOCK, ahead);
	CUDA_ROLLED
	for (; d < dim; d++) {
		const float key = cuda_element(block, half, at + d * CUDA_KV_BLOCK);
		CUDA_UNROLL
		for (uint32_t h = 0; h < heads; h++)
			score[h] = cuda_fma(q[h * step + d], key, score[h]);
	}
	CUDA_UNROLL
	for (uint32_t h = 0; h < heads; h++)
		score[h] *= scale;
}

/* v[h] with the values of one block's slots from … to - 1 in one column: e are the exponentials of the
 * queries, CUDA_SPAN apart; `at` is the column's element of slot 0 in `values`. heads is a constant. */
CUDA_THREAD void cuda_values_added(float *v, uint32_t heads, const float *e, const uint8_t *values,
				   uint32_t half, size_t at, uint32_t dim, struct cuda_seen seen)
{
	uint32_t j = seen.from;

	CUDA_ROLLED
	for (; j < seen.to && j % 4 != 0; j++)
		for (uint32_t h = 0; h < heads; h++)
			v[h] = cuda_fma(e[h * CUDA_SPAN + j],
					cuda_element(values, half, at + (size_t)j * dim), v[h]);
	CUDA_UNROLL_4
	for (; j + 4 <= seen.to; j += 4) {
		float value[4];
		CUDA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			value[i] = cuda_element(values, half, at + (size_t)(j + i) * dim);
		CUDA_UNROLL
		for (uint32_t h = 0; h < heads; h++) {
			const struct cuda_four four = cuda_four_of(e + h * CUDA_SPAN + j);
			CUDA_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				v[h] = cuda_fma(four.f[i], value[i], v[h]);
		}
	}
	CUDA_ROLLED
	for (; j < seen.to; j++)
		for (uint32_t h = 0; h < heads; h++)
			v[h] = cuda_fma(e[h * CUDA_SPAN + j],
					cuda_element(values, half, at + (size_t)j * dim), v[h]);
}

/* Floats of what a span leaves (attention_part). */
CUDA_THREAD size_t cuda_part(uint32_t dim)
{
	return ((size_t)dim + 2 + 15) / 16 * 16;
}

/* Some spans that are joined at once: so their exponentials do not wait for each other. */
enum { CUDA_SPANS_AHEAD = 8 };
struct cuda_joined {
	float max, sum;
};

/* Joins `count` spans, a constant, from `part` on: the first is `step` floats before the second. o are the
 * outputs of n columns of the query, 32 apart, from d on. */
CUDA_THREAD void cuda_join(float *o, uint32_t n, struct cuda_joined *all, const float *part, size_t step,
			   uint32_t dim, uint32_t d, uint32_t count)
{
	float max[CUDA_SPANS_AHEAD], sum[CUDA_SPANS_AHEAD], e[CUDA_SPANS_AHEAD];
	float value[CUDA_SPANS_AHEAD][4];

	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++) {
		max[i] = part[i * step + dim];
		sum[i] = part[i * step + dim + 1];
		CUDA_UNROLL
		for (uint32_t k = 0; k < n; k++)
			value[i][k] = part[i * step + d + k * CUDA_WARP];
	}
	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++) {
		const float before = all->max;
		all->max = max[i] > before ? max[i] : before;
		e[i] = max[i] - before;
		max[i] = e[i];
	}
	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++)
		e[i] = cuda_exp(-cuda_float(cuda_bits(e[i]) & 0x7fffffff));
	CUDA_UNROLL
	for (uint32_t i = 0; i < count; i++) {
		const bool larger = max[i] > 0;
		const float joined = larger ? e[i] : 1, span = larger ? 1 : e[i];
		all->sum = cuda_fma(all->sum, joined, sum[i] * span);
		CUDA_UNROLL
		for (uint32_t k = 0; k < n; k++)
			o[k] = cuda_fma(o[k], joined, value[i][k] * span);
	}
}

/* Column d of a query's output, of all its spans, and n - 1 others, 32 apart; n is a constant. */
CUDA_THREAD void cuda_joined_spans(float *o, uint32_t n, const struct cuda_attention *p, uint32_t query,
				   uint32_t d)
{
	const uint32_t length = p->rows[query / p->heads].position + 1, dim = p->head_dim;
	const uint32_t first = cuda_first_seen(length, p->window) / CUDA_SPAN;
	const uint32_t spans = (length - 1) / CUDA_SPAN + 1 - first;
	const size_t step = (size_t)p->n * p->heads * cuda_part(dim);
	const float *part = p->parts + query * cuda_part(dim);
	struct cuda_joined all = {part[dim], part[dim + 1]};
	uint32_t i = 1;

	CUDA_UNROLL
	for (uint32_t k = 0; k < n; k++)
		o[k] = part[d + k * CUDA_WARP];
	for (; i + CUDA_SPANS_AHEAD <= spans; i += CUDA_SPANS_AHEAD)
		cuda_join(o, n, &all, part + i * step, step, dim, d, CUDA_SPANS_AHEAD);
	for (; i < spans; i++)
		cuda_join(o, n, &all, part + i * step, step, dim, d, 1);
	CUDA_UNROLL
	for (uint32_t k = 0; k < n; k++)
		o[k] = cuda_divide(o[k], all.sum);
}

/* Whether the values of a span are copied to shared memory, where there is room for those. */
CUDA_THREAD bool cuda_values_copied(uint32_t half, uint32_t dim)
{
	return half && dim % 8 == 0 && dim <= 128;
}

CUDA_THREAD bool cuda_keys_copied(const struct cuda_attention *p)
{
	return p->copy_keys && cuda_values_copied(p->half, p->head_dim);
}

/* Queries of a block of threads: several of the same key-value head, if there are enough of others. */
CUDA_THREAD uint32_t cuda_heads_together(const struct cuda_attention *p)
{
	const uint32_t all = p->n * p->heads * p->spans;

	return p->group % CUDA_HEADS_MOST == 0 && all >= 512 ? CUDA_HEADS_MOST : 1;
}

#endif
