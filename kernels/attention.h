/* What the attention of all tables shares, within kernels/ only; and for all who call attend_spans,
 * which spans there are and what one leaves. */
#ifndef MOEFS_KERNELS_ATTENTION_H
#define MOEFS_KERNELS_ATTENTION_H

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* The first position that a token of that length sees, and the spans: first … end - 1. */
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

/* What a span leaves of one query: value sums, then the maximum, then the sum (attend says of
 * what). So many floats, of which the last ones are not used, for values of that width. */
static inline size_t attention_part(uint32_t value_dim)
{
	return ((size_t)value_dim + 2 + 15) / 16 * 16;
}

/* Elements of a value, and so of a head's output. */
static inline uint32_t attention_value_dim(const struct attention *a)
{
	return a->latent_dim ? a->latent_dim : a->head_dim;
}

/* Where an output begins whose query begins at that element. */
static inline size_t attention_out(const struct attention *a, size_t query)
{
	return a->latent_dim ? query / a->head_dim * a->latent_dim : query;
}

/* What the softmax of a head begins with: its sink, which has a probability and no value. */
static inline float attention_first_max(const struct attention *a, uint32_t head)
{
	return a->sinks ? a->sinks[head] : -INFINITY;
}
static inline float attention_first_sum(const struct attention *a)
{
	return a->sinks ? 1 : 0;
}

/* Values of a latent, which lie in a block as keys do, as rows: to[64][latent_dim], of the elements
 * that the block has. In squares, so that neither side is walked over line by line. */
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
