/* What the contexts of an engine take together, and may take: budgets.h decides the limit, and each
 * context counts what it commits (compute/context.h). */
#ifndef MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H
#define MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H

#include <stdatomic.h>
#include <stdint.h>

struct context_budget {
	_Atomic uint64_t limit, used; /* bytes */
};

#endif
