/* What the files of the program compare share. */
#ifndef MOEFS_TESTS_CROSS_COMPARE_H
#define MOEFS_TESTS_CROSS_COMPARE_H

#include "kernels/kernels.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum {
	GUARD = 9,   /* elements behind a result that must stay untouched */
	TOKENS = 13, /* at once, at most, of nearly all calls */
};

/* One function of a table: true if it agrees; otherwise what differs is printed. */
typedef bool check_fn(const struct kernels *k, enum format format);

check_fn check_delta_steps, check_delta_gates, check_index_scores, check_latent_rows;

/* The program ends where there is no memory. Freed by free(). */
void *allocate(size_t bytes);

#endif
