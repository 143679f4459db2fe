/* Decides how much memory experts and contexts may take, from what the user asked for and what is
 * available. Decides again while the engine runs.
 *
 * The expert budget *in force* is the one that the pager uses. It is the smaller of two numbers:
 *     asked for      the user's size; if there is none, everything that is available
 *     available      the memory of experts now, plus the spare memory without its margin, of the
 *                    machine or the control group that has the least (memory.h)
 *
 * If no size was asked for, room is also left for memory that will be needed: the growth of
 * contexts, and the weights of models that are mounted but not loaded. The budget is at least what
 * a token needs in one layer, or the size asked for if that is less.
 *
 * The budget changes at once when the user sets a size, or when a model is mounted, loaded or
 * removed. In between, a thread watches for notifications (pressure.h) and looks at the numbers
 * four times a second. If memory is short, it lowers the budget at once by the missing bytes. When
 * memory has been available for a while, it raises the budget again, by a sixteenth of the
 * difference at each look. So memory is freed before the kernel kills a process, unless other
 * processes take more than the margin between two looks.
 *
 * Contexts get the size asked for, or an eighth of the memory that models, experts and contexts
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
	NEED_AHEAD,  /* mounted: no memory is taken yet */
	NEED_COMING, /* being loaded: some is taken */
	NEED_TAKEN,
};

/* The memory that one model needs besides its experts, in bytes. */
struct budget_need {
	uint64_t bytes; /* weights, activations, tokenizer; an estimate until it is taken */
	uint64_t least; /* least expert budget: a token's experts in one layer */
	enum need_state state;
	struct budget_need *next;
};

struct budgets {
	struct context_budget *contexts;
	_Atomic uint64_t asked; /* for experts, or BUDGET_AUTOMATIC. Written with the lock held. */

	pthread_mutex_t lock; /* of the fields below; the pager's lock may be taken under it */
	struct pager *pager;  /* NULL: none yet */
	struct memory memory;
	struct memory_room room; /* at the last look */
	struct budget_need *needs;
	bool contexts_asked;
	uint64_t in_force;
	uint64_t calm_ns;    /* when in_force may rise again */
	uint64_t doubted_ns; /* when a signal without an explanation in the numbers may lower
				in_force again */

	int wake; /* eventfd that ends the thread */
	_Atomic bool quit;
	bool watching;
	pthread_t thread;
};

/* Makes the first decision. context_bytes 0: no size was asked for. contexts and root (memory.h)
 * must outlive b. A zero-initialised struct may be freed. */
int budgets_init(struct budgets *b, const char *root, uint64_t asked, uint64_t context_bytes,
		 struct context_budget *contexts, struct err *e);
/* From now on, b sets the budget of this pager, which was created with b->in_force. */
void budgets_govern(struct budgets *b, struct pager *pager);
int budgets_watch(struct budgets *b, struct err *e); /* starts the thread */
void budgets_free(struct budgets *b);		     /* ends the thread; the pager must outlive b */

/* Set the sizes asked for; either may be BUDGET_AUTOMATIC. -ERANGE: less than the largest expert
 * (the pager's error); then nothing has changed. */
int budgets_ask(struct budgets *b, uint64_t bytes, struct err *e);
void budgets_ask_contexts(struct budgets *b, uint64_t bytes);

/* Add, change and remove a need: when a model is mounted, loaded or removed, or when memory is
 * needed for a while. Such temporary memory starts as NEED_COMING, so room is made for it at once.
 * The caller owns the need. Removing a need that was never added does nothing. */
void budgets_add(struct budgets *b, struct budget_need *n);
void budgets_need(struct budgets *b, struct budget_need *n, enum need_state state);
void budgets_remove(struct budgets *b, struct budget_need *n);

/* Bytes that can be allocated now without lowering the budget in force. */
uint64_t budgets_beside(struct budgets *b);

/* One look of the thread. True: free memory shrinks fast, so look again soon. */
bool budgets_look(struct budgets *b, enum pressure_signal signal, uint64_t now_ns);

#endif
