/* Matrices of blocks on their way into memory; arrange.c calls it. */
#ifndef MOEFS_KERNELS_BLOCK_ARRANGE_H
#define MOEFS_KERNELS_BLOCK_ARRANGE_H

#include "kernels/format.h"

/* Bytes of 16 arranged rows. */
size_t block_rows_bytes(const struct shape *s);
/* format_arrange of whole blocks of rows, to where the first of them begins. */
void block_arrange(uint8_t *to, const struct shape *s, uint32_t rows, const struct pieces *pieces);

#endif
