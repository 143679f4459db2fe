/* Products of TQ and TC matrices for NEON without dot product instructions. */
#if defined(__aarch64__)

#include "kernels/neon_tq.h"

#endif
