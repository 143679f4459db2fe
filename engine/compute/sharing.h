/* Counted references to memory of contexts, which several contexts share until one of them writes.
 *
 * Each holder of a piece of memory keeps a pointer to the count of holders beside it: NULL while
 * the holder is alone, else a count that all holders share and that the last of them frees. The
 * memory is counted once, against the budget that it was taken from.
 *
 * A piece becomes shared while its owner is at rest. From then on each holder may leave the piece,
 * or continue to write to a copy, in a thread of its own.
 */
#ifndef MOEFS_ENGINE_COMPUTE_SHARING_H
#define MOEFS_ENGINE_COMPUTE_SHARING_H

#include "engine/memory/context_budget.h"

#include <stdbool.h>

typedef _Atomic uint32_t sharers; /* how many hold the piece */

/* Adds a holder and returns the count that it keeps. NULL: out of memory, in words, and nothing has
 * changed. */
sharers *sharing_join(sharers **have, struct err *e);
/* Removes a holder; the last one gives the memory back. memory may be NULL. */
void sharing_leave(struct context_budget *b, const void *memory, size_t bytes, sharers *s);
/* Whether others hold the piece, too; if not, the count is freed and becomes NULL. */
bool sharing_shared(sharers **have);
/* Makes the piece the caller's alone, as a copy if others hold it. -ENOSPC or -ENOMEM in words. */
int sharing_own(struct context_budget *b, const void **memory, size_t bytes, sharers **have,
		struct err *e);

#endif
