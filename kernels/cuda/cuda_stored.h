/* Numbers of the rows of a table, which lie as they do in the file: floats, blocks as in GGUF
 * files, or MLX's affine codes (block.c). */
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

/* Q4_0 to Q5_1: a scale, perhaps an offset, and perhaps fifth bits before the others. */
struct cuda_stored_fields {
	bool offset, fifth;
};

CUDA_THREAD uint32_t cuda_stored_small_bytes(struct cuda_stored_fields f)
{
	return 2 + (f.offset ? 2 : 0) + (f.fifth ? 4 : 0) + 16;
}

CUDA_THREAD float cuda_stored_small(const uint8_t *at, struct cuda_stored_fields f, uint32_t i)
{
	const uint8_t *codes = at + cuda_stored_small_bytes(f) - 16, *fifths = codes - 4;
	const uint32_t fifth = f.fifth ? fifths[i / 8] >> i % 8 & 1 : 0;
	const int32_t code = (int32_t)((codes[i % 16] >> i / 16 * 4 & 15) | fifth << 4);

	return f.offset ? cuda_fma((float)code, cuda_stored_half(at), cuda_stored_half(at + 2))
			: cuda_fma((float)(code - (f.fifth ? 16 : 8)), cuda_stored_half(at), 0);
}

/* block_iq4_values */
CUDA_THREAD float cuda_stored_iq4(uint32_t code)
{
	const uint32_t quarter = code < 4 ? 0xbfad9881 : code < 8 ? 0xf6eaddcf : code < 12 ? 0x26190d01
											      : 0x71594535;
	return (float)(int8_t)(quarter >> 8 * (code % 4));
}

CUDA_THREAD float cuda_stored_iq4_nl(const uint8_t *at, uint32_t i)
{
	return cuda_fma(cuda_stored_iq4(at[2 + i % 16] >> i / 16 * 4 & 15), cuda_stored_half(at), 0);
}

CUDA_THREAD float cuda_stored_iq4_xs(const uint8_t *at, uint32_t b, uint32_t i)
{
	const int32_t low = at[4 + b / 2] >> b % 2 * 4 & 15, high = at[2 + b / 4] >> b % 4 * 2 & 3;
	const float scale = cuda_stored_half(at) * (float)((low | high << 4) - 32);

	return cuda_fma(cuda_stored_iq4(at[8 + b * 16 + i % 16] >> i / 16 * 4 & 15), scale, 0);
}

CUDA_THREAD float cuda_stored_q2_k(const uint8_t *at, uint32_t b, uint32_t i)
{
	const uint32_t both = at[2 * b + i / 16], code = at[16 + b / 4 * 32 + i] >> b % 4 * 2 & 3;

	return cuda_fma((float)code, cuda_stored_half(at + 80) * (float)(both & 15),
			-(cuda_stored_half(at + 82) * (float)(both >> 4)));
}

CUDA_THREAD float cuda_stored_q3_k(const uint8_t *at, uint32_t b, uint32_t i)
{
	const uint8_t *scales = at + 96;
	const uint32_t h = 2 * b + i / 16;
	const int32_t low = scales[h % 8] >> h / 8 * 4 & 15, high = scales[8 + h % 4] >> h / 4 * 2 & 3;
	const int32_t code = (at[32 + b / 4 * 32 + i] >> b % 4 * 2 & 3) | (at[i] >> b & 1) << 2;

	return cuda_fma((float)(code - 4),
			cuda_stored_half(at + 108) * (float)((low | high << 4) - 32), 0);
}

CUDA_THREAD float cuda_stored_affine(const struct cuda_embedding *p, uint32_t row, uint32_t column)
{
	const struct cuda_table_groups *g = &p->groups;
	const uint32_t chunk = row / g->chunk_rows, first = chunk * g->chunk_rows;
	const uint32_t rows = g->rows - first < g->chunk_rows ? g->rows - first : g->chunk_rows;
	const size_t codes = p->width / 8 * g->bits, groups = p->width / g->group,
		     norms = groups * (g->norms == CUDA_F32 ? 4 : 2);
	const uint8_t *at = (const uint8_t *)p->table + first * (codes + 2 * norms);
	const uint8_t *scales = at + rows * codes, *biases = scales + rows * norms;
	const uint8_t *own = at + (row - first) * codes + column / 8 * g->bits;
	const uint32_t bit = column % 8 * g->bits, last = (bit + g->bits - 1) / 8;
	const uint32_t code = (uint32_t)(own[bit / 8] | own[last] << 8) >> bit % 8 &
			      ((1U << g->bits) - 1);
	const size_t group = (row - first) * groups + column / g->group;

	return cuda_fma((float)code, cuda_number_at(scales, g->norms, group),
			cuda_number_at(biases, g->norms, group));
}

/* Number `column` of a row. */
CUDA_THREAD float cuda_stored_number(const struct cuda_embedding *p, size_t row, uint32_t column)
{
	const uint8_t *table = (const uint8_t *)p->table;
	const enum cuda_number type = p->type;
	const uint32_t width = p->width;
	const uint32_t b = column / 32 % 8, i = column % 32;
	const size_t small = row * (width / 32) + column / 32,
		     large = row * (width / 256) + column / 256;
	const struct cuda_stored_fields f = {type == CUDA_TABLE_Q4_1 || type == CUDA_TABLE_Q5_1,
					    type == CUDA_TABLE_Q5_0 || type == CUDA_TABLE_Q5_1};

	switch (type) {
	case CUDA_TABLE_Q8_0:
		return cuda_stored_q8_0(table + small * 34, i);
	case CUDA_TABLE_Q4_0:
	case CUDA_TABLE_Q4_1:
	case CUDA_TABLE_Q5_0:
	case CUDA_TABLE_Q5_1:
		return cuda_stored_small(table + small * cuda_stored_small_bytes(f), f, i);
	case CUDA_TABLE_IQ4_NL:
		return cuda_stored_iq4_nl(table + small * 18, i);
	case CUDA_TABLE_Q2_K:
		return cuda_stored_q2_k(table + large * 84, b, i);
	case CUDA_TABLE_Q3_K:
		return cuda_stored_q3_k(table + large * 110, b, i);
	case CUDA_TABLE_Q4_K:
		return cuda_stored_q4_k(table + large * 144, b, i);
	case CUDA_TABLE_Q5_K:
		return cuda_stored_q5_k(table + large * 176, b, i);
	case CUDA_TABLE_Q6_K:
		return cuda_stored_q6_k(table + large * 210, b, i);
	case CUDA_TABLE_IQ4_XS:
		return cuda_stored_iq4_xs(table + large * 136, b, i);
	case CUDA_TABLE_AFFINE:
		return cuda_stored_affine(p, (uint32_t)row, column);
	default:
		return cuda_number_at(table, type, row * width + column);
	}
}

#endif
