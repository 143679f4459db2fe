/* Helpers for the attention of all tables, within kernels/ only; and for callers of attend_spans:
 * which spans there are, and the size of a span's result. */
#ifndef MOEFS_KERNELS_ATTENTION_H
#define MOEFS_KERNELS_ATTENTION_H

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* The first position that a token with this length sees, and its spans: first … end - 1. */
static inline size_t attention_from(const struct attention *a, size_t length)
{
	return a->window && length > a->window ? length - a->window : 0;
}
static inline size_t attention_first_span(const struct attention *a, size_t length)
{
	return attention_from(a, length) / ATTENTION_SPAN;
}
static inline size_t attention_end_span(size_t length)
{
	return (length - 1) / ATTENTION_SPAN + 1;
}

/* Floats of a span's result for one query: value sums, then the maximum, then the sum (see attend),
 * padded at the end. */
static inline size_t attention_part(uint32_t value_dim)
{
	return ((size_t)value_dim + 2 + 15) / 16 * 16;
}

/* Elements of a value, and so of a head's output. */
static inline uint32_t attention_value_dim(const struct attention *a)
{
	return a->latent_dim ? a->latent_dim : a->head_dim;
}

/* The offset in out for a query at offset `query`. */
static inline size_t attention_out(const struct attention *a, size_t query)
{
	return a->latent_dim ? query / a->head_dim * a->latent_dim : query;
}

/* The initial maximum and sum of a head's softmax: from its sink, which has a probability and no
 * value. */
static inline float attention_first_max(const struct attention *a, uint32_t head)
{
	return a->sinks ? a->sinks[head] : -INFINITY;
}
static inline float attention_first_sum(const struct attention *a)
{
	return a->sinks ? 1 : 0;
}

/* Copies a latent's values, which lie in a block like keys, to rows: to[64][latent_dim]. Works in
 * squares, so that neither side is read or written line by line with a large stride. */
#define ATTENTION_TRANSPOSE(type, to, from)                                            \
	for (size_t d0 = 0; d0 < dim; d0 += 16)                                        \
		for (size_t j0 = 0; j0 < KV_BLOCK; j0 += 16)                           \
			for (size_t d = d0; d < d0 + 16 && d < dim; d++)               \
				for (size_t j = j0; j < j0 + 16; j++)                  \
					((type *)(to))[j * dim + d] =                  \
						((const type *)(from))[a->key_offset + \
								       d * KV_BLOCK + j];
static inline void attention_latent_values(void *to, const struct attention *a, const void *block)
{
	const size_t dim = a->latent_dim;
	if (a->type == KV_F16) {
		ATTENTION_TRANSPOSE(uint16_t, to, block)
	} else {
		ATTENTION_TRANSPOSE(float, to, block)
	}
}

#endif
