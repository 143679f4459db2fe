/* Products of TQ and TC matrices for AVX-512 with VNNI and VBMI (Ice Lake, Zen 4 and later). */
#if defined(__x86_64__)

#define TABLE(function) avx512vnni_##function
#define AVX512_VNNI

#include "kernels/avx512_tq.h"

#endif
