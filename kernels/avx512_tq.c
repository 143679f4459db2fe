/* Products of TQ and TC matrices for AVX-512 without VNNI and VBMI (Skylake-X). */
#if defined(__x86_64__)

#include "kernels/avx512_tq.h"

#endif
