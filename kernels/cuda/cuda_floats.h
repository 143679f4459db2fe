/* How products of matrices of floats divide them: what a block of threads has at once in shared
 * memory. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_FLOATS_H
#define MOEFS_KERNELS_CUDA_CUDA_FLOATS_H

#include "kernels/cuda/cuda_vectors.h"

/* The tokens of a thread: several use a weight that is read once. */
CUDA_THREAD uint32_t cuda_float_tokens(uint32_t tokens)
{
	return tokens == 1 ? 1 : 4;
}
/* Rows of a block of threads: of one token, or of a small matrix, few, so that a router of 128 rows is loaded by
 * many processors. */
enum { CUDA_FLOAT_FEW = 4, CUDA_FLOAT_MANY = 16 };
/* Columns, a multiple of CUDA_LANES: of few rows all usual ones, so that they are loaded before the kernel ahead
 * ends. */
CUDA_THREAD uint32_t cuda_float_columns(uint32_t rows)
{
	return rows == CUDA_FLOAT_FEW ? 2048 : 512;
}
/* Elements from a row to the next one: the lanes of two rows are in different banks. */
CUDA_THREAD uint32_t cuda_float_stride(uint32_t rows)
{
	return cuda_float_columns(rows) + CUDA_LANES;
}
CUDA_THREAD uint32_t cuda_float_bytes(enum cuda_number type)
{
	return type == CUDA_F32 ? 4 : 2;
}
CUDA_THREAD uint32_t cuda_float_shared(uint32_t rows, uint32_t tokens, enum cuda_number type)
{
	return cuda_float_stride(rows) * (rows * cuda_float_bytes(type) + tokens * 4);
}

#endif
