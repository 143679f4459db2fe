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

/* The score of one slot: at is the first element of its key. */
CUDA_THREAD float cuda_score(const float *q, const uint8_t *block, uint32_t half, size_t at,
			     uint32_t dim, float scale)
{
	float p = 0;

	for (uint32_t d = 0; d < dim; d++)
		p = cuda_fma(q[d], cuda_element(block, half, at + d * CUDA_KV_BLOCK), p);
	return p * scale;
}

/* v with the values of one block's slots from … to - 1 in one column: e are their exponentials, at is
 * the column's element of slot 0. */
CUDA_THREAD float cuda_value_added(float v, const float *e, const uint8_t *block, uint32_t half,
				   size_t at, uint32_t dim, uint32_t from, uint32_t to)
{
	for (uint32_t j = from; j < to; j++)
		v = cuda_fma(e[j], cuda_element(block, half, at + (size_t)j * dim), v);
	return v;
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

/* What is joined so far, and by what a span's values and those before are multiplied. */
struct cuda_joined {
	float max, sum;
};
struct cuda_factors {
	float joined, span;
};
CUDA_THREAD struct cuda_factors cuda_join(struct cuda_joined *j, float max, float sum)
{
	const float e = cuda_exp(-cuda_float(cuda_bits(max - j->max) & 0x7fffffff));
	const bool larger = max > j->max;
	struct cuda_factors f;

	f.joined = larger ? e : 1;
	f.span = larger ? 1 : e;
	j->max = larger ? max : j->max;
	j->sum = cuda_fma(j->sum, f.joined, sum * f.span);
	return f;
}

/* Floats of what a span leaves (attention_part). */
CUDA_THREAD size_t cuda_part(uint32_t dim)
{
	return ((size_t)dim + 2 + 15) / 16 * 16;
}

#endif
