/* The attention of the AVX-512 table without VNNI. */
#if defined(__x86_64__)

#include "kernels/avx512_attention.h"

#endif
