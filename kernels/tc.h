/* The TC weight format: TQ's rotation, groups and norms, and codes from a trellis in the same
 * number of bytes.
 *
 * A bit-shift trellis (Tseng et al., "QTIP: Quantization with Trellises and Incoherence
 * Processing", NeurIPS 2024): a group is a stream of 128 symbols of `bits` bits. A weight depends
 * on the last `window` bits of the stream, not only on its own symbol. A weight's code is the sum
 * of two entries of small tables, one looked up with the newest four bits of the window, one with
 * the oldest four. So every instruction set decodes it with shuffles of 16 entries. The stream
 * closes to a ring: the first weights' windows begin in the last symbols, so a group is decoded
 * without its neighbours.
 *
 * tc.c is the definition, in plain scalar code: decoding and encoding. The second half of this file
 * is for kernels/ only. */
#ifndef MOEFS_KERNELS_TC_H
#define MOEFS_KERNELS_TC_H

#include "kernels/tq.h"

#include <math.h>

enum { TC_NIBBLE = 16, TC_CODE_MOST = 63, TC_BEFORE_MOST = 37 };

struct tc_codebook {
	uint32_t bits, window;
	uint32_t seam; /* weights on each side of the seam that settle the state there */
	/* A weight's code is newest[a] + before[b], at most TC_CODE_MOST in magnitude: with 64
	 * added to the codes, the sum of two products with 8-bit inputs fits in 16 bits. */
	int8_t newest[TC_NIBBLE], before[TC_NIBBLE];
	float gain; /* code · gain has about variance 1/128 */
};
const struct tc_codebook *tc_codebook(uint32_t bits); /* 2, 3 or 4 */

/* The number of positions after which a window's newest four bits are its oldest four. */
static inline uint32_t tc_back(uint32_t bits)
{
	return bits == 2 ? 2 : 1;
}

/* The code for a window of the stream; the window's newest bit is its highest. */
static inline int32_t tc_code(const struct tc_codebook *book, uint32_t window)
{
	return book->newest[window >> (book->window - 4)] + book->before[window % TC_NIBBLE];
}

/* The column of a group at position t of the ring: units of eight columns in the order 0, 4, 8, 12,
 * 1, 5 …, the order in which one byte lane of an arranged matrix has them (format.h). */
static inline size_t tc_column(size_t t)
{
	const size_t unit = t / TQ_UNIT;
	return (unit % SLABS * SLAB_UNITS + unit / SLABS) * TQ_UNIT + t % TQ_UNIT;
}

/* Decodes the codes of a packed group's columns. */
void tc_codes(int8_t code[TQ_GROUP], const uint8_t *packed, uint32_t bits);

/* Encodes groups of rotated weights that are normalised to about 1. y is [groups][128] and finite;
 * packed receives groups · 16 · bits bytes. factor[g], near 1, is the number for which factor ·
 * gain · code has the least squared error. The codes have the least squared error among the streams
 * that tc.c describes; y beyond 90 codes (about four standard deviations) counts as 90. Allocates
 * nothing and may be called from any thread. Vector code encodes up to 64 groups in the time of
 * one. */
void tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits);

/* Quantises one row of `cols` floats like tq_quantise_row, with the norms ‖x‖ · factor. False: a
 * NaN, an infinity or values above 1e18. Adjacent rows of whole groups may be passed as one row. */
bool tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits);

/* ---- the encoder's numbers, shared by tc.c and trellis_lanes.h ----
 *
 * A path costs Σ 2 (x - code)², x the targets, in saturating 16-bit integers. For a code a + b this
 * is the sum of 2 (x - b)², which depends on the old state, 2 a (a + 2 b), which depends on the
 * transition, and -4 x a, which depends on the new state. */

enum {
	TC_ONE = 256, /* the target for code 1 */
	TC_MOST = (127 - TC_BEFORE_MOST) *
		  TC_ONE,	 /* the largest target; minus any `before` it fits in 16 bits */
	TC_STATES = 64,		 /* at most */
	TC_WINDOW_MOST = 8,	 /* bits */
	TC_LEAST = -20000,	 /* the initial cost of the cheapest path: leaves room below for
				    negative terms, and above for paths that cost 26000 more */
	TC_FAR = 10000,		 /* the initial cost of a state that no path may begin with */
	TC_THROUGH_MOST = 26000, /* the highest cost through a state: with a transition, at most
				    6138, the sum fits in 16 bits */
	TC_LOWERED = 8,		 /* weights after which costs are lowered to TC_LEAST again */
};

/* The encoder's target for a rotated weight; scale is TC_ONE / gain. */
static inline int16_t tc_target(float y, float scale)
{
	float x = y * scale;

	x = x < -TC_MOST ? -TC_MOST : x;
	x = x > TC_MOST ? TC_MOST : x;
	return (int16_t)(int32_t)rintf(x);
}

static inline int16_t tc_transition(const struct tc_codebook *book, uint32_t window)
{
	/* NOLINTNEXTLINE(bugprone-signed-char-misuse,cert-str34-c): a number, not a character */
	const int32_t a = book->newest[window >> (book->window - 4)];
	return (int16_t)(2 * a * (a + 2 * book->before[window % TC_NIBBLE]));
}

/* -4 x a = x · tc_slope(a) / 2^15. */
static inline int16_t tc_slope(int32_t newest)
{
	return (int16_t)(-512 * newest);
}

/* tc_encode's factor, from Σ target · code and Σ code². */
static inline float tc_factor(int32_t with_target, int32_t with_itself)
{
	return with_itself == 0 ? 0 : (float)with_target / (float)(TC_ONE * with_itself);
}

/* ---- the order of nibbles for the products of all vector tables ----
 *
 * Position i of a unit ends with bit (i + 1) · bits - 1 of the unit. If its nibble begins in the
 * previous byte, the older bits are moved above the newer ones, which stay in place. So the nibble
 * is rotated, and the products look it up in a table that is rotated in the same way. This takes
 * one shift less than ordering the nibble. It takes no shift if the previous position ended that
 * byte, since its nibble has the older bits in place. */

enum {
	TC_OFFSET = 64,	  /* added to codes, so that they are unsigned */
	TC_MOST_BACK = 2, /* the largest tc_back */
	TC_TURNS = 4,	  /* a nibble is rotated by 0 … 3 bits */
};

/* The place of position i's newest bit in its byte: 1 … 8. */
static inline size_t tc_bits_here(size_t i, size_t bits)
{
	return ((i + 1) * bits - 1) % 8 + 1;
}

/* How many of the lowest bits of position i's nibble, as it is read, are its newest bits; 0: the
 * nibble is in order. */
static inline size_t tc_turn(size_t i, size_t bits)
{
	const size_t here = tc_bits_here(i, bits);
	return here < 4 ? here : 0;
}

/* Whether the nibble of position i - 1 ends a byte. */
static inline bool tc_follows_byte(size_t i, size_t bits)
{
	return i * bits % 8 == 0;
}

/* tc_turn for the older nibble that position i looks up. */
static inline size_t tc_turn_back(size_t i, size_t bits)
{
	return tc_turn((i + TQ_UNIT - tc_back((uint32_t)bits)) % TQ_UNIT, bits);
}

/* Makes a table for nibbles with `turn` newest bits below the older ones. */
static inline void tc_turn_table(int8_t to[16], const int8_t from[16], size_t turn, int8_t offset)
{
	for (size_t i = 0; i < 16; i++)
		to[i] = (int8_t)(from[(i << (4 - turn) | i >> turn) & 15] + offset);
}

#endif
