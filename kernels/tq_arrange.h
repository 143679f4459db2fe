/* TQ matrices on their way into memory; arrange.c calls it. */
#ifndef MOEFS_KERNELS_TQ_ARRANGE_H
#define MOEFS_KERNELS_TQ_ARRANGE_H

#include "kernels/format.h"

/* format_arrange of whole blocks of rows, to where the first of them begins. */
void tq_arrange(uint8_t *out, const struct shape *s, uint32_t rows, const struct pieces *pieces);

#endif
