/* The AVX-512 tables' products of float matrices: the shape of a block; the rest is in
 * multiply_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"

/* 24 sums, 4 weights and an input stay in registers. Few tokens are limited by memory, which is
 * fastest if few rows are read side by side. 6144 bytes are 96 cache lines. */
enum { MULTIPLY_ROWS = 4, MULTIPLY_TOKENS = 6, MULTIPLY_AHEAD = 6144 };
#define multiply_rows(tokens) ((tokens) <= 4 ? 2 : MULTIPLY_ROWS)
#define MULTIPLY_CASES(CASE) CASES_TO_6(CASE)

#include "kernels/multiply_lanes.h"

#endif
