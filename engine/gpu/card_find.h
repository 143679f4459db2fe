/* Looks for cards without becoming a process that has opened the driver: a child does, and tells what
 * it found. The driver begins threads, takes memory, and does not survive a fork. */
#ifndef MOEFS_ENGINE_GPU_CARD_FIND_H
#define MOEFS_ENGINE_GPU_CARD_FIND_H

#include "engine/gpu/card.h"

#include <pthread.h>
#include <stdbool.h>

struct card_found {
	bool there;
	struct card_facts facts; /* of card 0 */
	char why[256];		 /* there is none: a sentence */
};

/* A child that is looking, or what it found. */
struct card_find {
	pthread_mutex_t lock; /* of the rest */
	int answer;	      /* reads its answer; -1: it is read, or nobody looks */
	struct card_found found;
};

/* Begins to look, or, if `look` is false, does not. The child has none of this process's files open,
 * is nobody's zombie, and ends after CARD_FIND_SECONDS at the latest. */
enum { CARD_FIND_SECONDS = 10 };
void card_find_begin(struct card_find *f, bool look);
/* Any thread: what was found. While the child is looking, and nobody is to wait for it: not known
 * yet. */
void card_find_answer(struct card_find *f, bool wait, struct card_found *found);
/* Of one that was begun. */
void card_find_close(struct card_find *f);

/* In one line without its end: the modules in the program, and the card. Both as snprintf. */
int card_print_modules(char *text, size_t size);
int card_print_found(const struct card_found *found, char *text, size_t size);

#endif
