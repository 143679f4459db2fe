/* Scores of queries for the index keys of a block, written once for all tables with vectors. Lanes
 * are keys. kernels.h defines the order of the sums.
 *
 * The keys of some columns are copied from the block once, as floats that leave room in the
 * first-level cache, and all heads read these copies. */
#ifndef MOEFS_KERNELS_INDEX_LANES_H
#define MOEFS_KERNELS_INDEX_LANES_H

#include "kernels/watch.h"

enum {
	INDEX_HEADS = LANES > 8 ? 8 : 4,     /* heads whose sums are in registers together */
	INDEX_REGISTERS = LANES < 8 ? 4 : 2, /* registers of columns per head */
	INDEX_PART = 256		     /* numbers of keys copied at once */
};

/* Some numbers of the keys of LANES · INDEX_REGISTERS columns, or of fewer. */
struct index_part {
	lanes key[INDEX_PART][INDEX_REGISTERS];
	size_t from, numbers; /* which numbers of the keys */
	const char *ahead;    /* prefetched with each number of the first heads */
	size_t step;	      /* bytes */
};

/* Where to add the next head's scores; the sums of its group's earlier heads are there already. */
struct index_place {
	float *scores;
	size_t earlier;
};

/* Where index_find reads keys. */
enum index_source { INDEX_TAKEN, INDEX_FLOATS, INDEX_HALVES, INDEX_NARROW };

/* A register of number `from` + i of the keys. Inlining makes heads, registers and source
 * constants, here and below. */
ALWAYS_INLINE lanes index_key(struct index_part *p, const struct index_keys *k, size_t i, size_t r,
			      size_t column, enum index_source source)
{
	const size_t j = column + r * LANES, at = (p->from + i) * k->count + j;
	const size_t left = source != INDEX_NARROW ? LANES : k->count > j ? k->count - j : 0;

	if (source == INDEX_TAKEN)
		return p->key[i][r];
	if (source == INDEX_FLOATS || (source == INDEX_NARROW && k->type == KV_F32))
		return lanes_load((const float *)k->keys + at, left);
	return lanes_load_f16((const uint16_t *)k->keys + at, left);
}

/* sum[heads][registers] += q · keys of the columns from `column` on, for the numbers of a part.
 * Keys that are not copied yet are copied here, so that the block's lines arrive while sums are
 * computed. */
ALWAYS_INLINE void index_find_part(lanes sum[][INDEX_REGISTERS], const struct index_keys *k,
				   const float *q, struct index_part *p, size_t column, size_t heads,
				   size_t registers, enum index_source source)
{
	for (size_t i = 0; i < p->numbers; i++) {
		if (source != INDEX_TAKEN)
			__builtin_prefetch(p->ahead + i * p->step, 0, 2);
		for (size_t r = 0; r < registers; r++) {
			const lanes key = index_key(p, k, i, r, column, source);
			if (source != INDEX_TAKEN)
				p->key[i][r] = key;
			for (size_t h = 0; h < heads; h++)
				sum[h][r] = lanes_fma(lanes_all(q[h * k->dim + i]), key, sum[h][r]);
		}
	}
}

/* index_find_part for all numbers, part by part. taken: the keys are copied already, which then
 * have only one part. */
ALWAYS_INLINE void index_find(lanes sum[][INDEX_REGISTERS], const struct index_keys *k,
			      const float *q, struct index_part *p, bool taken, size_t column,
			      size_t heads, size_t registers)
{
	for (size_t h = 0; h < heads; h++)
		for (size_t r = 0; r < registers; r++)
			sum[h][r] = lanes_all(0);
	for (size_t d = 0; d < k->dim; d += INDEX_PART, q += INDEX_PART) {
		p->from = d;
		p->numbers = k->dim - d < INDEX_PART ? k->dim - d : INDEX_PART;
		if (taken)
			index_find_part(sum, k, q, p, column, heads, registers, INDEX_TAKEN);
		else if (k->count - column < registers * LANES)
			index_find_part(sum, k, q, p, column, heads, registers, INDEX_NARROW);
		else if (k->type == KV_F32)
			index_find_part(sum, k, q, p, column, heads, registers, INDEX_FLOATS);
		else
			index_find_part(sum, k, q, p, column, heads, registers, INDEX_HALVES);
		p->ahead += taken ? 0 : p->numbers * p->step;
	}
}

/* Adds the scores of the heads from `first` on to the scores of their groups. */
ALWAYS_INLINE void index_add_heads(struct index_place *to, size_t stride, const struct index_keys *k,
				   const struct index_queries *q, struct index_part *p, size_t first,
				   size_t column, size_t heads, size_t registers)
{
	const size_t each = q->heads / q->groups;
	lanes sum[INDEX_HEADS][INDEX_REGISTERS];

	index_find(sum, k, q->q + first * k->dim, p, first && k->dim <= INDEX_PART, column, heads,
		   registers);
	for (size_t h = 0; h < heads; h++) {
		const lanes weight = lanes_all(q->weight[first + h]);
		for (size_t r = 0; r < registers; r++) {
			const size_t j = column + r * LANES, left = k->count > j ? k->count - j : 0;
			const lanes all = to->earlier ? lanes_load(to->scores + j, left)
						      : lanes_all(0);
			if (k->positive)
				sum[h][r] = lanes_at_least(sum[h][r], lanes_all(0));
			lanes_store(to->scores + j, left, lanes_fma(weight, sum[h][r], all));
		}
		if (++to->earlier == each) {
			to->scores += stride;
			to->earlier = 0;
		}
	}
}

ALWAYS_INLINE void index_add_columns(float *scores, size_t stride, const struct index_keys *k,
				     const struct index_queries *q, size_t column, size_t registers)
{
	const size_t element = k->type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
	struct index_place to = {scores, 0};
	struct index_part part;

	part.ahead = (const char *)k->next + column * k->dim * element;
	part.step = registers * LANES * element;
	for (size_t h = 0, heads; h < q->heads; h += heads) {
		const size_t left = q->heads - h;
		heads = left >= INDEX_HEADS ? INDEX_HEADS : left < 4 ? left : 4;
#define CASE(n)                                                                     \
	case n:                                                                     \
		index_add_heads(&to, stride, k, q, &part, h, column, n, registers); \
		break;
		switch (heads) {
			CASES_TO_4(CASE)
		default:
			index_add_heads(&to, stride, k, q, &part, h, column, INDEX_HEADS,
					registers);
		}
#undef CASE
	}
}

UNWATCHED static void index_scores(float *scores, size_t stride, const struct index_keys *k,
				   const struct index_queries *q)
{
	for (size_t column = 0; column < k->count; column += LANES * INDEX_REGISTERS)
		if (k->count - column > LANES)
			index_add_columns(scores, stride, k, q, column, INDEX_REGISTERS);
		else
			index_add_columns(scores, stride, k, q, column, 1);
}

#endif
