/* TQ matrices on their way into memory; arrange.c calls it. */
#ifndef MOEFS_KERNELS_TQ_ARRANGE_H
#define MOEFS_KERNELS_TQ_ARRANGE_H

#include "kernels/format.h"

/* Packed bytes of one group in one row, and bytes of its norm. */
static inline size_t tq_group_bytes(size_t bits)
{
	return TQ_GROUP / 8 * bits;
}
static inline size_t tq_norm_bytes(enum norm_type norms)
{
	return norms == NORM_F32 ? 4 : 2;
}

/* format_arrange of whole blocks of rows, to where the first of them begins. */
void tq_arrange(uint8_t *out, const struct shape *s, uint32_t rows, const struct pieces *pieces);

#endif
