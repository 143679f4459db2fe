/* The NEON tables' attention: the shape of a tile, for attention_lanes.h. */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"

enum { ATTENTION_TILE = 4, ATTENTION_REGISTERS = 4, ATTENTION_SIDE_BY_SIDE = 0 };
#define attention_registers(queries) ATTENTION_REGISTERS
#define attention_ask(p) (void)(p) /* no request has been measured to help */
#define ATTENTION_CASES(CASE) CASES_TO_4(CASE)

#include "kernels/attention_lanes.h"

#endif
