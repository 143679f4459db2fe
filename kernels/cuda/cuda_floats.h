/* How products of matrices of floats divide them: what a block of threads has at once in shared
 * memory. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_FLOATS_H
#define MOEFS_KERNELS_CUDA_CUDA_FLOATS_H

#include "kernels/cuda/cuda_vectors.h"

/* Rows; and columns, a multiple of CUDA_LANES. Of one token few rows, so that a router of 128 rows
 * is loaded by many processors, and all usual columns, so that it is loaded before the kernel ahead
 * ends. */
CUDA_THREAD uint32_t cuda_float_rows(uint32_t tokens)
{
	return tokens == 1 ? 4 : 16;
}
CUDA_THREAD uint32_t cuda_float_columns(uint32_t tokens)
{
	return tokens == 1 ? 2048 : 512;
}
/* Elements from a row to the next one: the lanes of two rows are in different banks. */
CUDA_THREAD uint32_t cuda_float_stride(uint32_t tokens)
{
	return cuda_float_columns(tokens) + CUDA_LANES;
}
CUDA_THREAD uint32_t cuda_float_bytes(enum cuda_number type)
{
	return type == CUDA_F32 ? 4 : 2;
}
CUDA_THREAD uint32_t cuda_float_shared(uint32_t tokens, enum cuda_number type)
{
	return cuda_float_stride(tokens) *
	       (cuda_float_rows(tokens) * cuda_float_bytes(type) + tokens * 4);
}

#endif
