/* The AVX2 table's products of float matrices: the shape of a block; the rest is in
 * multiply_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"

/* 12 registers of sums, 2 of weights and 1 of inputs. 6144 bytes are 96 lines. */
enum { MULTIPLY_ROWS = 2, MULTIPLY_TOKENS = 3, MULTIPLY_AHEAD = 6144 };
#define multiply_rows(tokens) MULTIPLY_ROWS
#define MULTIPLY_CASES(CASE) CASES_TO_3(CASE)

#include "kernels/multiply_lanes.h"

#endif
