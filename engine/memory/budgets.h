/* How much memory experts and contexts may take: decided from what the user asked for and what is
 * available, and decided again while the engine runs.
 *
 * The budget of experts *in force* is the pager's, and is the smaller of two:
 *     asked for      a size, or nothing: then all that is available
 *     available      what experts take now, and what is spare, besides its margin, at the
 *                    tightest of machine and control groups (memory.h)
 *
 * If nothing was asked for, room is also left for what is still to be taken: what the contexts may
 * grow by, and the weights of models that are mounted but not loaded. The budget is at least what a
 * token needs in one layer, or what was asked for, if that is less.
 *
 * The budget is set at once when the user asks, or when a model is mounted, loaded or removed. In
 * between a thread watches (pressure.h, and the numbers four times a second): short memory lowers
 * the budget at once by the missing bytes; when memory has been available for a while the budget
 * rises again, by a sixteenth of the way at each look. So the pool returns memory before the kernel
 * must kill, as long as other processes take it no faster than a margin between two looks.
 *
 * Contexts get the size that was asked for, or an eighth of what models, experts and contexts
 * share.
 */
#ifndef MOEFS_ENGINE_MEMORY_BUDGETS_H
#define MOEFS_ENGINE_MEMORY_BUDGETS_H

#include "cache/pager.h"
#include "engine/memory/context_budget.h"
#include "engine/memory/memory.h"
#include "engine/memory/pressure.h"

#include <pthread.h>
#include <stdatomic.h>

#define BUDGET_AUTOMATIC UINT64_MAX /* nothing was asked for */

enum need_state {
	NEED_AHEAD,  /* mounted: none of it is taken */
	NEED_COMING, /* being loaded: some is */
	NEED_TAKEN,
};

/* What one model needs besides its experts, in bytes. */
struct budget_need {
	uint64_t bytes; /* weights, activations, tokenizer; an estimate, until it is taken */
	uint64_t least; /* for experts: so that a token's picks of one layer fit */
	enum need_state state;
	struct budget_need *next;
};

struct budgets {
	struct context_budget *contexts;
	_Atomic uint64_t asked; /* for experts; BUDGET_AUTOMATIC. Written with the lock held. */

	pthread_mutex_t lock; /* of what follows; the pager's lock may be taken under it */
	struct pager *pager;  /* NULL: none yet */
	struct memory memory;
	struct memory_room room; /* at the last look */
	struct budget_need *needs;
	bool contexts_asked;
	uint64_t in_force;
	uint64_t calm_ns;    /* when it may rise again */
	uint64_t doubted_ns; /* when a signal may lower it again that the numbers do not explain */

	int wake; /* eventfd that ends the thread */
	_Atomic bool quit;
	bool watching;
	pthread_t thread;
};

/* Makes the first decision. context_bytes 0: nothing was asked for. contexts and root (memory.h)
 * outlive b. A zeroed struct may be freed. */
int budgets_init(struct budgets *b, const char *root, uint64_t asked, uint64_t context_bytes,
		 struct context_budget *contexts, struct err *e);
/* From now on controls the budget of this pager, which was created with b->in_force. */
void budgets_govern(struct budgets *b, struct pager *pager);
int budgets_watch(struct budgets *b, struct err *e); /* starts the thread */
void budgets_free(struct budgets *b);		     /* ends it; the pager outlives this */

/* ERANGE below the largest expert, in the pager's words; then nothing has changed. Either size may
 * be BUDGET_AUTOMATIC. */
int budgets_ask(struct budgets *b, uint64_t bytes, struct err *e);
void budgets_ask_contexts(struct budgets *b, uint64_t bytes);

/* A model is mounted, changes its state, or is removed; or memory is needed for a while, which
 * begins as NEED_COMING: room is made for it at once. The caller owns the need. Removing a need
 * that was never added does nothing. */
void budgets_add(struct budgets *b, struct budget_need *n);
void budgets_need(struct budgets *b, struct budget_need *n, enum need_state state);
void budgets_remove(struct budgets *b, struct budget_need *n);

/* Bytes that could be taken now without lowering the budget in force. */
uint64_t budgets_beside(struct budgets *b);

/* One look of the thread: true if memory is disappearing fast, so that the next look should be
 * soon. */
bool budgets_look(struct budgets *b, enum pressure_signal signal, uint64_t now_ns);

#endif
