/* The TC weight format: TQ's rotation, groups and norms, and codes from a trellis in the same
 * bytes.
 *
 * A bit-shift trellis (Tseng et al., "QTIP: Quantization with Trellises and Incoherence
 * Processing", NeurIPS 2024): a group is a stream of 128 symbols of `bits` bits, and a weight
 * depends on the last `window` bits of it, not on its own symbol alone. What it is, is the sum of
 * two small tables, one looked up with the newest four bits of the window, one with the oldest
 * four, so that every instruction set decodes it with shuffles of 16 entries. The stream closes to
 * a ring: the first weights' windows begin in the last symbols, and a group stands by itself.
 *
 * This file is the definition, in plain scalar code: what bytes mean, and which bytes a group gets.
 */
#ifndef MOEFS_KERNELS_TC_H
#define MOEFS_KERNELS_TC_H

#include "kernels/tq.h"

enum { TC_NIBBLE = 16, TC_CODE_MOST = 63, TC_BEFORE_MOST = 37 };

struct tc_codebook {
	uint32_t bits, window;
	uint32_t seam; /* weights on either side of it that settle the state there */
	/* A weight's code is newest[a] + before[b], at most TC_CODE_MOST in magnitude: with 64
	 * added two products with 8-bit inputs fit in 16 bits. */
	int8_t newest[TC_NIBBLE], before[TC_NIBBLE];
	float gain; /* code · gain has about variance 1/128 */
};
const struct tc_codebook *tc_codebook(uint32_t bits); /* 2, 3 or 4 */

/* The window's oldest four bits were its newest so many positions before. */
static inline uint32_t tc_back(uint32_t bits)
{
	return bits == 2 ? 2 : 1;
}

/* The code at a window of the stream, whose newest bit is the highest. */
static inline int32_t tc_code(const struct tc_codebook *book, uint32_t window)
{
	return book->newest[window >> (book->window - 4)] + book->before[window % TC_NIBBLE];
}

/* The column of a group at position t of the ring: units of eight columns in the order 0, 4, 8, 12,
 * 1, 5 …, as they follow each other in one byte lane of an arranged matrix (format.h). */
static inline size_t tc_column(size_t t)
{
	const size_t unit = t / TQ_UNIT;
	return (unit % SLABS * SLAB_UNITS + unit / SLABS) * TQ_UNIT + t % TQ_UNIT;
}

/* The codes of a packed group's columns. */
void tc_codes(int8_t code[TQ_GROUP], const uint8_t *packed, uint32_t bits);

/* Encodes groups of rotated weights that are normalised to about 1: y is [groups][128] and finite,
 * packed receives groups · 16 · bits bytes, and factor[g] what codes · gain times it have the least
 * squared error with, near 1. The codes are those of the least squared error among the streams that
 * tc.c describes; numbers beyond 90 codes, about four standard deviations, count as that. Allocates
 * nothing and may be called from any thread; vector code takes up to 64 groups in the time of one.
 */
void tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);

/* Quantises one row of `cols` floats as tq_quantise_row does, the norms being ‖x‖ · factor. False:
 * NaN, infinity or values above 1e18. Where rows are whole groups and lie together, several of them
 * may be given as one. */
bool tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits);

#endif
