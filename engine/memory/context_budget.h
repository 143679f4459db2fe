/* What the contexts of an engine take together, and may take: budgets.h decides the limit, and each
 * context takes its memory here, a mapping at a time, so that what is counted is what is mapped.
 *
 * Any thread; nothing is locked.
 */
#ifndef MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H
#define MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H

#include "cache/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct context_budget {
	_Atomic uint64_t limit, used; /* bytes */
};

/* The pages that so many bytes take: what is asked for and counted below. */
size_t context_pages(size_t bytes);
/* Zeroed memory of whole pages, counted. NULL: -ENOSPC in *e, the budget is used up, or -ENOMEM. */
void *context_take(struct context_budget *b, size_t bytes, struct err *e);
/* Gives it back, to the system at once. NULL is fine. */
void context_give(struct context_budget *b, const void *memory, size_t bytes);

#endif
