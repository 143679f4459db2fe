/* Inputs in 8 bits: the rotation of a group and the rounding, as each thread does its part of them.
 */
#ifndef MOEFS_KERNELS_CUDA_CUDA_ROUNDING_H
#define MOEFS_KERNELS_CUDA_CUDA_ROUNDING_H

#include "kernels/cuda/cuda_device.h"

#define CUDA_SQRT_GROUP 0x1.6a09e6p+3F /* TQ_SQRT_GROUP */

/* A sign of cuda_signs. */
CUDA_THREAD float cuda_signed(float x, uint32_t word, uint32_t bit)
{
	return x * (word >> bit & 1 ? 1.0F : -1.0F);
}

/* What becomes of an element of a butterfly; upper: of the one at the higher place. */
CUDA_THREAD float cuda_butterfly(float own, float other, bool upper)
{
	return upper ? other - own : own + other;
}

/* A magnitude, to be compared as an integer: infinities and then NaNs come last. */
CUDA_THREAD uint32_t cuda_magnitude(float y)
{
	return cuda_bits(y) & 0x7fffffff;
}

/* Both by the largest magnitude of a group or block. */
CUDA_THREAD float cuda_input_scale(uint32_t largest)
{
	return largest < 0x7f800000 ? cuda_divide(cuda_float(largest), 127) : cuda_nan();
}
CUDA_THREAD int8_t cuda_input_code(float y, uint32_t largest)
{
	if (largest >= 0x7f800000)
		return 0;
	return (int8_t)cuda_round(cuda_divide(y, largest == 0 ? 1 : cuda_float(largest)) * 127);
}

#endif
