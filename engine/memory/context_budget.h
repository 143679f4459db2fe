/* What all contexts of an engine take, and may take: budgets.h decides the limit, and each context
 * takes its memory here, one mapping at a time, so that what is counted is what is mapped.
 *
 * What a text needs comes before what is merely useful, such as copies of an earlier state of a
 * text: such memory is spare, whichever context has it, and is given up.
 *
 * Any thread. Only the list of spare memory is locked, by a thread that takes more than there is.
 */
#ifndef MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H
#define MOEFS_ENGINE_MEMORY_CONTEXT_BUDGET_H

#include "cache/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A context's spare memory, while it has some. */
struct context_spare {
	struct context_spare *next;
	/* Gives up one piece, and leaves the list with the last one. The lock is held. */
	void (*give_way)(struct context_spare *s);
};

struct context_budget {
	_Atomic uint64_t limit, used; /* bytes */
	pthread_mutex_t lock; /* of the list and of what its members hold; taken under any other,
				 and nothing is taken under it */
	struct context_spare *spares; /* whose piece is the oldest comes first */
};

void context_budget_init(struct context_budget *b, uint64_t limit);
void context_budget_free(struct context_budget *b);

/* Bytes rounded up to whole pages: what is taken and counted below. */
size_t context_pages(size_t bytes);
/* Zeroed memory of whole pages, counted; spare memory is given up for it. NULL with -ENOSPC in *e:
 * the budget is used up; or -ENOMEM. Without the lock. */
void *context_take(struct context_budget *b, size_t bytes, struct err *e);
/* The same only if there is room, for spare memory itself; with or without the lock. */
void *context_take_spare(struct context_budget *b, size_t bytes);
/* Unmaps the memory. NULL is fine. */
void context_give(struct context_budget *b, const void *memory, size_t bytes);

/* context_spare_last puts a member at the end of the list, as the last to give memory up;
 * context_spare_none removes it. With the lock. */
void context_spare_last(struct context_budget *b, struct context_spare *s);
void context_spare_none(struct context_budget *b, const struct context_spare *s);

#endif
