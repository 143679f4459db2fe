/* Looks for a GPU in a process of its own, which is this program, run again (/proc/self/exe).
 *
 * Why a process: the driver starts threads, takes memory, and does not survive a fork; a daemon
 * that only answers what GPU there is must not keep it open. Why run again: the process that asks
 * has threads, so after a fork the child could only call async-signal-safe functions, and dlopen is
 * none. Why /proc/self/exe: it is this very program, also after another one was installed in its
 * place, so that the answer needs no format of its own. */
#ifndef MOEFS_ENGINE_GPU_CARD_FIND_H
#define MOEFS_ENGINE_GPU_CARD_FIND_H

#include "engine/gpu/card.h"

#include <pthread.h>
#include <stdbool.h>

/* Seconds after which a process that looks is ended. Without NVIDIA's persistence daemon, the
 * driver starts each GPU of the machine for it, one after the other. */
enum { CARD_FIND_SECONDS = 30 };

struct card_found {
	bool there;
	struct card_facts facts;
	char why[256]; /* if there is no GPU, or it cannot be used: why, as a sentence */
};

enum card_find_how {
	CARD_FIND_LOOK, /* reads the properties */
	CARD_FIND_OPEN, /* also opens the GPU and loads the kernels, to see that it can be used */
};

/* Looks in this process. For programs that end soon, and for card_find_serve. */
void card_find_here(int ordinal, enum card_find_how how, struct card_found *found);
/* Looks in a process of its own, and waits for its end. Blocks. Callable from any thread of a
 * program whose main calls card_find_serve first. */
void card_find_apart(int ordinal, enum card_find_how how, struct card_found *found);
/* Whether these are the arguments of a process that looks. If so, looks and writes the answer to
 * standard output; main ends with *status. */
bool card_find_serve(int argc, char **argv, int *status);

/* What is known of a GPU: looks at most once. */
struct card_find {
	pthread_mutex_t lock; /* protects `known` and `found`; held while a process looks */
	int ordinal;
	bool known;
	struct card_found found;
};

/* never: looks for nothing, for this reason; NULL: looks when asked to. */
void card_find_init(struct card_find *f, int ordinal, const char *never);
void card_find_free(struct card_find *f);
/* Looks, unless that has been done. Blocks. */
void card_find_look(struct card_find *f);
/* What is known now. Does not wait. Both are callable from any thread. */
void card_find_answer(struct card_find *f, struct card_found *found);

/* Print one line without its newline, as snprintf does: the modules in the program; the GPU. */
int card_print_modules(char *text, size_t size);
int card_print_found(const struct card_found *found, char *text, size_t size);

#endif
