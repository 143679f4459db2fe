/* Makes checkpoints in MLX' affine codes. Fails the test on any error. */
#ifndef MOEFS_TESTS_UNIT_AFFINE_HELP_H
#define MOEFS_TESTS_UNIT_AFFINE_HELP_H

#include <stdint.h>

/* Writes the fixture to a folder under the fixture's tensor names. Matrices are written in codes
 * of `bits` bits, except routers and matrices whose rows are not whole groups. */
void test_affine_make(const char *fixture, uint32_t bits, uint32_t group, const char *to);

#endif
