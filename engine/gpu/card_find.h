/* Looks for a GPU in a child process, since the driver starts threads, takes memory and does not
 * survive a fork. */
#ifndef MOEFS_ENGINE_GPU_CARD_FIND_H
#define MOEFS_ENGINE_GPU_CARD_FIND_H

#include "engine/gpu/card.h"

#include <pthread.h>
#include <stdbool.h>

struct card_found {
	bool there;
	struct card_facts facts; /* of GPU 0 */
	char why[256];		 /* if there is no GPU: why, as a sentence */
};

/* A search that is running or has ended. */
struct card_find {
	pthread_mutex_t lock; /* protects the other members */
	int answer;	      /* a pipe from the child; -1: the answer was read, or there is no child */
	struct card_found found;
};

/* Starts the child; if `look` is false, no child. The child has none of this process's files open,
 * need not be waited for, and ends after CARD_FIND_SECONDS at the latest. */
enum { CARD_FIND_SECONDS = 10 };
void card_find_begin(struct card_find *f, bool look);
/* Returns what was found. If the child is still looking: waits for it, or, if `wait` is false, says
 * that the answer is not known yet. Callable from any thread. */
void card_find_answer(struct card_find *f, bool wait, struct card_found *found);
/* Frees a search that card_find_begin made. */
void card_find_close(struct card_find *f);

/* Print one line without its newline, as snprintf does: the modules in the program; the GPU. */
int card_print_modules(char *text, size_t size);
int card_print_found(const struct card_found *found, char *text, size_t size);

#endif
