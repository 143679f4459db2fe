/* How results of a card are compared with those of the scalar table: bit for bit, any NaN equal to
 * any other. */
#ifndef MOEFS_TESTS_CUDA_COMPARE_H
#define MOEFS_TESTS_CUDA_COMPARE_H

#include "tests/unit/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both tell of the first elements that differ, under that name. */
bool compare_floats(const char *what, const float *got, const float *expected, size_t n);
bool compare_bytes(const char *what, const void *got, const void *expected, size_t element,
		   size_t n);

/* Normally distributed numbers; in every row but the first something hostile: zeros, subnormals, an
 * infinity, a NaN, or numbers so large that their sums overflow. */
void compare_fill_rows(struct random *r, float *x, size_t rows, size_t n);

#endif
