/* The NEON tables' products of float matrices: the shape of a block; the rest is in
 * multiply_lanes.h. */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"

/* 24 registers of sums; weights and inputs need 5 more. */
enum { MULTIPLY_ROWS = 2, MULTIPLY_TOKENS = 3, MULTIPLY_AHEAD = 0 };
#define multiply_rows(tokens) MULTIPLY_ROWS
#define MULTIPLY_CASES(CASE) CASES_TO_3(CASE)

#include "kernels/multiply_lanes.h"

#endif
