/* Weights in blocks: groups of columns of one row that share a scale, and perhaps an offset. Codes
 * are integers. Every format reduces to 32 columns with a scale and an offset for each 16 of them:
 *
 *     weight = fmaf(code, scale, offset)
 *
 * README.md describes each format's bytes. */
#ifndef MOEFS_KERNELS_BLOCK_H
#define MOEFS_KERNELS_BLOCK_H

#include "kernels/format.h"

enum { BLOCK = 32, HALVES = 2, HALF_BLOCK = BLOCK / HALVES };

struct block {
	int16_t code[BLOCK];
	float scale[HALVES], offset[HALVES];
};

/* Reads columns 32 · b … 32 · b + 31 of the row whose canonical bytes begin at `row`. */
void block_read(struct block *to, const struct shape *s, const struct pieces *row, size_t b);

/* The F16 scales and offsets within a block of the file: returns their number (0 for MXFP4 and
 * affine), and sets *at to their byte positions in the block. */
enum { BLOCK_MOST_HALVES = 2 };
size_t block_halves(enum format f, const uint8_t **at);

/* ---- quantising (block_quantise.c) ---- */

/* Whether rows can be quantised to this format: true for Q8_0, Q5_0 and Q6_K. */
bool block_can_quantise(enum format f);
/* Quantises a row of whole blocks to one of these formats. Q8_0 is rounded to 1/127 of each block's
 * largest magnitude. In the others each scale is the best of a few, by the squared error. False: a
 * number is too large for an F16 scale. */
bool block_quantise(enum format f, uint8_t *packed, const float *row, uint32_t cols);

/* The values of codes of 4 bits. */
extern const int8_t block_iq4_values[16];
extern const int8_t block_fp4_values[16]; /* twice as large as MXFP4's */
extern const int8_t block_iq3_values[16];
extern const uint16_t block_iq3_s_grid[512];
/* The scale for block_fp4_values: half the power of two that the byte represents. */
float block_e8m0_half(uint8_t e);

/* Integer scales in blocks of 256 columns: of Q4_K and Q5_K (scales and offsets), Q3_K, IQ4_XS,
 * IQ3_S. */
int block_k_scale(const uint8_t p[12], size_t b);
int block_k_offset(const uint8_t p[12], size_t b);
int block_q3_k_scale(const uint8_t p[12], size_t half);
int block_iq4_xs_scale(const uint8_t *block, size_t b);
int block_iq3_s_scale(const uint8_t *block, size_t b);

#endif
