/* How much memory the experts may take, and the contexts: decided from what was asked for and what
 * there is, and decided again while the engine runs.
 *
 * The budget of experts *in force* is the pager's, and is the lesser of two:
 *     what was asked for     a size, or nothing: then all that is there
 *     what there is          what experts take now, and what is spare of the tightest of machine
 *                            and control groups besides its margin (memory.h)
 * Nothing was asked for: then two more things are left room, which are yet to be taken: what the
 * contexts may still grow by, and the weights of models that are mounted but not loaded. Never is
 * it less than a token needs in one layer, or than was asked for, if that is less.
 *
 * It is decided at once when something is asked for or a model comes, loads or goes. In between a
 * thread watches (pressure.h, and a look at the numbers four times a second): short memory lowers
 * the budget at once by what is missing, and when memory has been there for a while it rises
 * again, a sixteenth of the way at each look. So the pool has given memory back before the kernel
 * must kill, as long as others take it no faster than a margin between two looks.
 *
 * Contexts: a size that was asked for, or an eighth of what models, experts and contexts share.
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

/* What one model needs besides its experts; bytes. */
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

/* Decides for the first time. context_bytes 0: nothing was asked for. contexts and root (memory.h)
 * outlive it. A zeroed struct may be freed. */
int budgets_init(struct budgets *b, const char *root, uint64_t asked, uint64_t context_bytes,
		 struct context_budget *contexts, struct err *e);
/* From now on this pool, which was made with b->in_force, gets the budgets. */
void budgets_govern(struct budgets *b, struct pager *pager);
int budgets_watch(struct budgets *b, struct err *e); /* starts the thread */
void budgets_free(struct budgets *b);		     /* ends it; the pager outlives this */

/* ERANGE below the largest expert, in the pager's words; nothing has changed then. Either may be
 * BUDGET_AUTOMATIC. */
int budgets_ask(struct budgets *b, uint64_t bytes, struct err *e);
void budgets_ask_contexts(struct budgets *b, uint64_t bytes);

/* A model is mounted, changes, goes; or something is taken for a while, which begins as COMING:
 * then memory is made for it at once. The need is the caller's; removing one that was never added
 * does nothing. */
void budgets_add(struct budgets *b, struct budget_need *n);
void budgets_need(struct budgets *b, struct budget_need *n, enum need_state state);
void budgets_remove(struct budgets *b, struct budget_need *n);

/* What could be taken now and the budget in force stay as it is. */
uint64_t budgets_beside(struct budgets *b);

/* One look of the thread: true if memory goes fast, so that the next should be soon. */
bool budgets_look(struct budgets *b, enum pressure_signal signal, uint64_t now_ns);

#endif
