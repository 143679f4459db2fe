/* Numbers of the rows of a table, which lie as they do in the file: floats, or blocks as in GGUF
 * files (block.c). */
#ifndef MOEFS_KERNELS_CUDA_CUDA_STORED_H
#define MOEFS_KERNELS_CUDA_CUDA_STORED_H

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/cuda/cuda_vectors.h"

/* Block b of 32 columns, and column i of it; `at`: the bytes of the 32 or 256 columns. */
CUDA_THREAD float cuda_stored_half(const uint8_t *at)
{
	return cuda_from_half(*(const uint16_t *)(const void *)at);
}

CUDA_THREAD float cuda_stored_q8_0(const uint8_t *at, uint32_t i)
{
	return cuda_fma((float)(int8_t)at[2 + i], cuda_stored_half(at), 0);
}

/* code: of a block whose scales begin at byte 4. */
CUDA_THREAD float cuda_stored_k(const uint8_t *at, uint32_t b, uint32_t code)
{
	const uint8_t *p = at + 4 + b % 4;
	const uint32_t whole[3] = {p[0], p[4], p[b / 4 * 4 + 4]};
	uint32_t scale, offset;

	cuda_k_bytes(&scale, &offset, whole, b);
	return cuda_fma((float)code, cuda_stored_half(at) * (float)scale,
			-(cuda_stored_half(at + 2) * (float)offset));
}

CUDA_THREAD float cuda_stored_q4_k(const uint8_t *at, uint32_t b, uint32_t i)
{
	return cuda_stored_k(at, b, at[16 + b / 2 * 32 + i] >> 4 * (b % 2) & 15);
}

CUDA_THREAD float cuda_stored_q5_k(const uint8_t *at, uint32_t b, uint32_t i)
{
	const uint32_t lower = at[48 + b / 2 * 32 + i] >> 4 * (b % 2) & 15;

	return cuda_stored_k(at, b, lower | (at[16 + i] >> b & 1) << 4);
}

CUDA_THREAD float cuda_stored_q6_k(const uint8_t *at, uint32_t b, uint32_t i)
{
	const uint32_t half = b / 4, in = b % 4;
	const uint32_t lower = at[half * 64 + in % 2 * 32 + i] >> 4 * (in / 2) & 15,
		       upper = at[128 + half * 32 + i] >> 2 * in & 3;
	const float scale = cuda_stored_half(at + 208) * (float)(int8_t)at[192 + 2 * b + i / 16];

	return cuda_fma((float)((int32_t)(lower | upper << 4) - 32), scale, 0);
}

/* Number `column` of a row of so many. */
CUDA_THREAD float cuda_stored_number(const uint8_t *table, enum cuda_number type, size_t row,
				     uint32_t width, uint32_t column)
{
	const uint32_t b = column / 32 % 8, i = column % 32;
	const size_t small = row * (width / 32) + column / 32,
		     large = row * (width / 256) + column / 256;

	switch (type) {
	case CUDA_TABLE_Q8_0:
		return cuda_stored_q8_0(table + small * 34, i);
	case CUDA_TABLE_Q4_K:
		return cuda_stored_q4_k(table + large * 144, b, i);
	case CUDA_TABLE_Q5_K:
		return cuda_stored_q5_k(table + large * 176, b, i);
	case CUDA_TABLE_Q6_K:
		return cuda_stored_q6_k(table + large * 210, b, i);
	default:
		return cuda_number_at(table, type, row * width + column);
	}
}

#endif
