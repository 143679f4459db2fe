/* What queries find in the index keys of a block, written once for all tables with vectors: lanes
 * are keys. kernels.h has the order of the sums. */
#ifndef MOEFS_KERNELS_INDEX_LANES_H
#define MOEFS_KERNELS_INDEX_LANES_H

#include "kernels/watch.h"

enum { INDEX_HEADS = 4, INDEX_REGISTERS = 2 };

ALWAYS_INLINE lanes index_load(const struct index_keys *k, size_t at, size_t left)
{
	return k->type == KV_F32 ? lanes_load((const float *)k->keys + at, left)
				 : lanes_load_f16((const uint16_t *)k->keys + at, left);
}

/* The heads [head, head + heads) with the keys of some registers; heads and registers are constants
 * where this is inlined. */
ALWAYS_INLINE void index_add_heads(float *scores, const struct index_keys *k, const float *q,
				   const float *weight, size_t column, size_t heads,
				   size_t registers)
{
	lanes sum[INDEX_HEADS][INDEX_REGISTERS];

	for (size_t h = 0; h < heads; h++)
		for (size_t r = 0; r < registers; r++)
			sum[h][r] = lanes_all(0);
	for (size_t d = 0; d < k->dim; d++)
		for (size_t r = 0; r < registers; r++) {
			const size_t at = column + r * LANES;
			const lanes key = index_load(k, d * k->count + at, k->count - at);
			for (size_t h = 0; h < heads; h++)
				sum[h][r] = lanes_fma(lanes_all(q[h * k->dim + d]), key, sum[h][r]);
		}
	for (size_t r = 0; r < registers; r++) {
		const size_t at = column + r * LANES;
		lanes all = lanes_load(scores + at, k->count - at);
		for (size_t h = 0; h < heads; h++) {
			if (k->positive)
				sum[h][r] = lanes_at_least(sum[h][r], lanes_all(0));
			all = lanes_fma(lanes_all(weight[h]), sum[h][r], all);
		}
		lanes_store(scores + at, k->count - at, all);
	}
}

ALWAYS_INLINE void index_add_columns(float *scores, const struct index_keys *k, const float *q,
				     const float *weight, size_t heads)
{
	size_t column = 0;

	for (; column + INDEX_REGISTERS * LANES <= k->count; column += INDEX_REGISTERS * LANES)
		index_add_heads(scores, k, q, weight, column, heads, INDEX_REGISTERS);
	for (; column < k->count; column += LANES)
		index_add_heads(scores, k, q, weight, column, heads, 1);
}

UNWATCHED static void index_scores(float *scores, const struct index_keys *k, const float *q,
				   const float *weight, uint32_t heads)
{
	size_t h = 0;

	for (size_t j = 0; j < k->count; j++)
		scores[j] = 0;
	for (; h + INDEX_HEADS <= heads; h += INDEX_HEADS)
		index_add_columns(scores, k, q + h * k->dim, weight + h, INDEX_HEADS);
	for (; h < heads; h++)
		index_add_columns(scores, k, q + h * k->dim, weight + h, 1);
}

#endif
