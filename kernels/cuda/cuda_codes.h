/* Codes of weights in registers, and their exact dots with inputs of 8 bits: one row of a tile, one
 * group of 128 columns or one block of 32, as one thread computes them. format.h, tc.h and
 * block_layout.h say how arranged matrices lie in memory. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_CODES_H
#define MOEFS_KERNELS_CUDA_CUDA_CODES_H

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_launch.h"

enum {
	CUDA_ROWS = 16,	     /* of a tile */
	CUDA_GROUP_QUADS = 8, /* of 16 inputs */
	CUDA_SLABS = 4,	     /* of a group */
};

/* ---- rings of TC ----
 *
 * Word w of a slab's plane has byte w of four units, 8 columns each. A ring goes through one byte of
 * the four slabs' planes, then through the next. */

/* Four bytes of two words, alternating: the lower two of each, or the upper two. */
CUDA_THREAD uint32_t cuda_mix_lower(uint32_t a, uint32_t b)
{
	return cuda_permute(a, b, 0x5140);
}
CUDA_THREAD uint32_t cuda_mix_upper(uint32_t a, uint32_t b)
{
	return cuda_permute(a, b, 0x7362);
}

/* to[k]: byte k of the four words, the first one's lowest. */
CUDA_THREAD void cuda_transpose(uint32_t to[4], uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	const uint32_t ab = cuda_mix_lower(a, b), cd = cuda_mix_lower(c, d);
	const uint32_t above_ab = cuda_mix_upper(a, b), above_cd = cuda_mix_upper(c, d);

	to[0] = cuda_permute(ab, cd, 0x5410);
	to[1] = cuda_permute(ab, cd, 0x7632);
	to[2] = cuda_permute(above_ab, above_cd, 0x5410);
	to[3] = cuda_permute(above_ab, above_cd, 0x7632);
}

/* The last plane of the slab before the first: a ring's bytes follow those of the ring before. */
CUDA_THREAD uint32_t cuda_ring_before(uint32_t last)
{
	return last << 8 | last >> 24;
}

/* ---- inputs ---- */

/* Sixteen inputs, or codes, four in a word. */
struct cuda_quad {
	uint32_t word[4];
} __attribute__((aligned(16)));

/* Adds to sum[t] the dot of four words of codes with n inputs, `stride` quads apart. */
CUDA_THREAD void cuda_quad_dots(int32_t *sum, uint32_t n, const uint32_t code[4],
				const struct cuda_quad *q, size_t stride)
{
	CUDA_UNROLL
	for (uint32_t t = 0; t < n; t++) {
		const struct cuda_quad input = q[t * stride];
		CUDA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			sum[t] = cuda_dot4(code[i], input.word[i], sum[t]);
	}
}

/* ---- TC3 ---- */

/* A unit's eight codes. ring has the byte before the unit and its three. pairs: the copy of a
 * thread's own bank, in which the numbers i and i + 512 share a word. */
CUDA_THREAD void cuda_tc3_codes(uint32_t code[2], uint32_t ring, const uint16_t *pairs)
{
	CUDA_UNROLL
	for (uint32_t i = 0; i < 2; i++) {
		const uint32_t first = ring >> (4 + 12 * i), second = ring >> (10 + 12 * i);
		const uint32_t low = pairs[first % 512 * 2 * CUDA_COPIES + first / 512 % 2];
		const uint32_t high = pairs[second % 512 * 2 * CUDA_COPIES + second / 512 % 2];
		code[i] = low | high << 16;
	}
}

/* Adds to sum[t] the dots of a row's group with n inputs; `tile` is the row's first word in it. */
CUDA_THREAD void cuda_tc3_group(int32_t *sum, uint32_t n, const uint32_t *tile,
				const uint16_t *pairs, const struct cuda_quad *q, size_t stride)
{
	uint32_t word[3 * CUDA_SLABS], before;

	CUDA_UNROLL
	for (uint32_t i = 0; i < 3 * CUDA_SLABS; i++)
		word[i] = tile[i * CUDA_ROWS];
	before = cuda_ring_before(word[3 * CUDA_SLABS - 1]);
	CUDA_UNROLL
	for (uint32_t s = 0; s < CUDA_SLABS; s++) {
		uint32_t ring[4];
		cuda_transpose(ring, before, word[3 * s], word[3 * s + 1], word[3 * s + 2]);
		CUDA_UNROLL
		for (uint32_t half = 0; half < 2; half++) {
			uint32_t code[4];
			cuda_tc3_codes(code, ring[2 * half], pairs);
			cuda_tc3_codes(code + 2, ring[2 * half + 1], pairs);
			cuda_quad_dots(sum, n, code, q + 2 * s + half, stride);
		}
		before = word[3 * s + 2];
	}
}

/* ---- TC4 ---- */

/* Four bytes of a table of sixteen, by four nibbles. */
CUDA_THREAD uint32_t cuda_look_up(const uint32_t table[4], uint32_t nibbles)
{
	const uint32_t low = nibbles & 0x7777, high = nibbles & 0x8888;
	/* Where a nibble's highest bit is set, copies of the sign of byte 0; else byte 1, zeros. */
	const uint32_t upper = cuda_permute(0x0080, 0, high | (high >> 3 ^ 0x1111));

	return (cuda_permute(table[0], table[1], low) & ~upper) |
	       (cuda_permute(table[2], table[3], low) & upper);
}

/* A unit's eight codes; before: the nibble before the unit. 64 is in each number of the tables, so
 * no byte carries into the next; the 128 of a sum becomes a sign. */
CUDA_THREAD void cuda_tc4_codes(uint32_t code[2], uint32_t unit, uint32_t before,
				const struct cuda_trellis *c)
{
	const uint32_t back = unit << 4 | before;

	CUDA_UNROLL
	for (uint32_t i = 0; i < 2; i++)
		code[i] = (cuda_look_up(c->newest, unit >> 16 * i & 0xffff) +
			   cuda_look_up(c->before, back >> 16 * i & 0xffff)) ^
			  0x80808080;
}

/* As cuda_tc3_group. */
CUDA_THREAD void cuda_tc4_group(int32_t *sum, uint32_t n, const uint32_t *tile,
				const struct cuda_trellis *c, const struct cuda_quad *q,
				size_t stride)
{
	uint32_t word[4 * CUDA_SLABS], before;

	CUDA_UNROLL
	for (uint32_t i = 0; i < 4 * CUDA_SLABS; i++)
		word[i] = tile[i * CUDA_ROWS];
	before = cuda_ring_before(word[4 * CUDA_SLABS - 1]);
	CUDA_UNROLL
	for (uint32_t s = 0; s < CUDA_SLABS; s++) {
		uint32_t unit[4];
		cuda_transpose(unit, word[4 * s], word[4 * s + 1], word[4 * s + 2],
			       word[4 * s + 3]);
		CUDA_UNROLL
		for (uint32_t k = 0; k < 4; k += 2) {
			uint32_t code[4];
			cuda_tc4_codes(code, unit[k], before >> (8 * k + 4) & 15, c);
			cuda_tc4_codes(code + 2, unit[k + 1], before >> (8 * k + 12) & 15, c);
			cuda_quad_dots(sum, n, code, q + 2 * s + k / 2, stride);
		}
		before = word[4 * s + 3];
	}
}

/* ---- a group's norm ---- */

/* The norm of a row of a tile: `norms` are its 16. */
CUDA_THREAD float cuda_norm(const uint8_t *norms, uint32_t row, uint32_t bytes)
{
	return bytes == 4 ? ((const float *)(const void *)norms)[row]
			  : cuda_from_half(((const uint16_t *)(const void *)norms)[row]);
}

/* y with one more group. */
CUDA_THREAD float cuda_group_added(float y, float dot, float norm, float scale, float gain)
{
	return cuda_fma(dot, norm * (scale * gain), y);
}

/* ---- Q4_K ---- */

enum {
	CUDA_K_BLOCKS = 8,    /* of 32 columns in a tile */
	CUDA_BLOCK_QUADS = 2,
	CUDA_K_PLANES = 4,    /* words of a row's codes in a block */
	/* Words of the codes of a tile, then its halves and its whole scales. */
	CUDA_K_CODES = CUDA_K_BLOCKS * CUDA_K_PLANES * CUDA_ROWS,
	CUDA_K_HALVES = CUDA_K_CODES * 4,
	CUDA_K_SCALES = CUDA_K_HALVES + 2 * 2 * CUDA_ROWS,
	CUDA_K_TILE = CUDA_K_SCALES + 12 * CUDA_ROWS,
};

/* Adds to sum[t] the dots of a row's block; `block` is the row's first word in it. A word has the
 * codes of four columns, and above them those of the columns 16 farther. */
CUDA_THREAD void cuda_q4_block(int32_t *sum, uint32_t n, const uint32_t *block,
			       const struct cuda_quad *q, size_t stride)
{
	uint32_t low[CUDA_K_PLANES], high[CUDA_K_PLANES];

	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_K_PLANES; i++) {
		const uint32_t word = block[i * CUDA_ROWS];
		low[i] = word & 0x0f0f0f0f;
		high[i] = word >> 4 & 0x0f0f0f0f;
	}
	cuda_quad_dots(sum, n, low, q, stride);
	cuda_quad_dots(sum, n, high, q + 1, stride);
}

/* Scale and offset of block b of a row of a tile. */
struct cuda_scales {
	float scale, offset;
};
CUDA_THREAD struct cuda_scales cuda_k_scales(const uint8_t *tile, uint32_t row, uint32_t b)
{
	const uint16_t *half = (const uint16_t *)(const void *)(tile + CUDA_K_HALVES);
	const uint8_t *p = tile + CUDA_K_SCALES + row;
	const uint32_t lower = p[b % 4 * CUDA_ROWS], upper = p[(b % 4 + 4) * CUDA_ROWS];
	uint32_t scale = lower & 63, offset = upper & 63;
	struct cuda_scales s;

	if (b >= 4) { /* four bits together, two above those of b - 4 */
		const uint32_t both = p[(b + 4) * CUDA_ROWS];
		scale = (both & 15) | lower >> 6 << 4;
		offset = both >> 4 | upper >> 6 << 4;
	}
	s.scale = cuda_from_half(half[row]) * (float)scale;
	s.offset = -(cuda_from_half(half[CUDA_ROWS + row]) * (float)offset);
	return s;
}

/* y with one more block: a is its input's scale, total the sum of its codes. */
CUDA_THREAD float cuda_block_added(float y, float dot, struct cuda_scales w, float a, int32_t total)
{
	y = cuda_fma(dot, w.scale * a, y);
	return cuda_fma(w.offset, a * (float)total, y);
}

#endif
