/* Attention for NEON with the dot product instructions of ARMv8.2: that to codes is other. */
#if defined(__aarch64__)

#define TABLE(function) neondot_##function
#define NEON_DOT

#include "kernels/neon_attention.h"

#endif
