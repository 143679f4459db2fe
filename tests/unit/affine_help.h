/* Checkpoints in MLX' affine codes, of a test's own making. Fails the test when it cannot do its
 * work. */
#ifndef MOEFS_TESTS_AFFINE_HELP_H
#define MOEFS_TESTS_AFFINE_HELP_H

#include <stdint.h>

/* Writes the fixture to a folder, each matrix in codes of so many bits, if its rows are whole
 * groups and it is no router; under the names that the fixture has for it. */
void test_affine_make(const char *fixture, uint32_t bits, uint32_t group, const char *to);

#endif
