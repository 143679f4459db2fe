/* Looks for cards without becoming a process that has opened the driver: a child does, and tells what
 * it found. The driver begins threads, takes memory, and does not survive a fork. */
#ifndef MOEFS_ENGINE_GPU_CARD_FIND_H
#define MOEFS_ENGINE_GPU_CARD_FIND_H

#include "engine/gpu/card.h"

#include <stdbool.h>
#include <sys/types.h>

struct card_found {
	bool there;
	struct card_facts facts; /* of card 0 */
	char why[256];		 /* there is none: a sentence */
};

/* A child that is looking. */
struct card_find {
	pid_t child;
	int answer; /* reads its answer; -1: none */
};

/* Begins to look. */
void card_find_begin(struct card_find *f);
/* Waits for the answer, for some seconds at most, and ends the child. Once for each begin. */
void card_find_end(struct card_find *f, struct card_found *found);

/* Lines for info/kernels and --check, without a newline at the end: which kernels of cards the
 * program has, and which card was found. */
int card_print(const struct card_found *found, char *text, size_t size);

#endif
