/* The attention of the NEON table without dot products. */
#if defined(__aarch64__)

#include "kernels/neon_attention.h"

#endif
