/* Products of TQ and TC matrices for NEON with the dot product instructions of ARMv8.2. */
#if defined(__aarch64__)

#define TABLE(function) neondot_##function
#define NEON_DOT

#include "kernels/neon_tq.h"

#endif
