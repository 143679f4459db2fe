/* The AVX-512 tables' attention: the shape of a tile, for attention_lanes.h. */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"

/* Tiles of up to 4 queries have 4 registers for each, larger ones 2: 16 sums. */
enum { ATTENTION_TILE = 8, ATTENTION_REGISTERS = 4, ATTENTION_SIDE_BY_SIDE = 1 };
#define attention_registers(queries) ((queries) > ATTENTION_TILE / 2 ? 2 : ATTENTION_REGISTERS)
#define attention_ask(p) _mm_prefetch(p, _MM_HINT_T1)
#define ATTENTION_CASES(CASE) CASES_TO_8(CASE)

#include "kernels/attention_lanes.h"

#endif
