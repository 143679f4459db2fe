/* Attention for AVX-512 with VNNI: that to codes is other. */
#if defined(__x86_64__)

#define TABLE(function) avx512vnni_##function
#define AVX512_VNNI

#include "kernels/avx512_attention.h"

#endif
