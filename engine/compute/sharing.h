/* Memory of contexts that several have until one of them writes to it.
 *
 * Who has a piece keeps beside it how many have it: NULL while it is his alone, else a count that
 * they share and that the last of them frees. The memory is counted once, against the budget that
 * it was taken from.
 *
 * A piece comes to be shared while its owner is at rest; from then on each who has it may leave it,
 * or go on to write to a copy, in a thread of his own.
 */
#ifndef MOEFS_ENGINE_COMPUTE_SHARING_H
#define MOEFS_ENGINE_COMPUTE_SHARING_H

#include "engine/memory/context_budget.h"

#include <stdbool.h>

typedef _Atomic uint32_t sharers;

/* One more has it, with the same count. NULL: out of memory, in words, and it stays as it was. */
sharers *sharing_join(sharers **have, struct err *e);
/* Leaves it to the others; the last one gives the memory back. memory may be NULL. */
void sharing_leave(struct context_budget *b, const void *memory, size_t bytes, sharers *s);
/* Whether it is still shared; if not, the count is freed and NULL. */
bool sharing_shared(sharers **have);
/* Makes it the caller's alone, a copy if need be. -ENOSPC or -ENOMEM in words. */
int sharing_own(struct context_budget *b, const void **memory, size_t bytes, sharers **have,
		struct err *e);

#endif
