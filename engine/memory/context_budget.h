/* The memory of all contexts of an engine, and its limit, which budgets.h decides. Each context
 * allocates its memory here, one mapping at a time, so the count equals the mapped bytes.
 *
 * Memory that a context can do without, such as checkpoints of earlier states, is called spare. If
 * a context needs memory, spare memory of any context is freed for it.
 *
 * Any thread may call these functions. The lock protects only the list of spare memory;
 * context_take takes it if the limit is reached.
 */
#ifndef MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H
#define MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H

#include "cache/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The spare memory of a context, while it has some. */
struct context_spare {
	struct context_spare *next;
	/* Frees one piece. Leaves the list when it frees the last piece. The lock is held. */
	void (*give_way)(struct context_spare *s);
};

struct context_budget {
	_Atomic uint64_t limit, used; /* bytes */
	pthread_mutex_t lock; /* of the list and of its members' spare memory; may be taken under
				 any other lock; no lock is taken under it */
	struct context_spare *spares; /* the one with the oldest piece comes first */
};

void context_budget_init(struct context_budget *b, uint64_t limit);
void context_budget_free(struct context_budget *b);

/* Bytes rounded up to whole pages, as they are taken and counted below. */
size_t context_pages(size_t bytes);
/* Allocates and counts zeroed memory of whole pages. Frees spare memory if needed. NULL with
 * -ENOSPC in *e: the budget is used up; with -ENOMEM: out of memory. Call it without the lock. */
void *context_take(struct context_budget *b, size_t bytes, struct err *e);
/* The same for spare memory itself: frees no other spare memory. With or without the lock. */
void *context_take_spare(struct context_budget *b, size_t bytes);
/* Unmaps the memory. NULL is fine. */
void context_give(struct context_budget *b, const void *memory, size_t bytes);

/* context_spare_last moves a member to the end of the list, so that it frees memory last.
 * context_spare_none removes it. Call them with the lock held. */
void context_spare_last(struct context_budget *b, struct context_spare *s);
void context_spare_none(struct context_budget *b, const struct context_spare *s);

#endif
