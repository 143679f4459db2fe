/* TC's encoder for the case that errors cost more in some directions than in others, and that later
 * weights compensate for errors of earlier ones (engine/convert/rounding.h).
 *
 * A group's errors e cost e' U D U' e, U unit upper triangular. Positions are those of the ring
 * (tc.h). tc_errors.c is the definition; the tables' functions (tc_errors_lanes.h) give the same
 * symbols. */
#ifndef MOEFS_KERNELS_TC_ERRORS_H
#define MOEFS_KERNELS_TC_ERRORS_H

#include "kernels/tc.h"

struct tc_group {
	uint32_t bits;
	const float *upper; /* [TQ_GROUP] rows of U, each from the group's first position on */
	size_t stride;	    /* between these rows */
	const float *cost;  /* [TQ_GROUP]: D */
	const float *pairs; /* [TQ_GROUP][TQ_GROUP]: U D U' */
};

/* Chooses the symbols of a group by the Viterbi algorithm. Each path carries the corrections that
 * its errors require of later weights (per-survivor processing: Raheli, Polydoros and Tzou 1995).
 * weight: the weights to store; aimed: the best values to store, given the errors before this
 * group. First the state at the seam of the ring is chosen from `target` on both sides of the seam,
 * as in tc_encode; target: the weights that would compensate for all errors before. All are finite,
 * norm > 0. */
void tc_choose(uint8_t symbol[TQ_GROUP], const struct tc_group *g, const float weight[TQ_GROUP],
	       const float aimed[TQ_GROUP], const float target[TQ_GROUP], float norm);
/* Chooses each symbol again, given all others, in the order of the ring. True: one changed. pull:
 * pairs · (target - norm · levels), updated with each change. A change that gains no more than
 * `least` is not made. */
bool tc_improve(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP], const struct tc_group *g,
		float norm, float least);
/* Computes each position's level, gain · code. */
void tc_levels(float level[TQ_GROUP], const uint8_t symbol[TQ_GROUP], uint32_t bits);

/* ---- within kernels/ ---- */

enum { TC_TOUCHED = 4 }; /* most weights that one symbol affects */

/* Symbols in a window, which is the number of weights that one symbol affects. */
static inline uint32_t tc_touched(uint32_t bits)
{
	return bits == 2 ? 4 : bits == 3 ? 3 : 2;
}

/* The bits of a symbol in the window `ago` positions after its own. */
static inline uint32_t tc_symbol_part(uint32_t symbol, uint32_t ago, uint32_t bits)
{
	const uint32_t window = bits == 3 ? 7 : 8, moved = bits * (ago + 1);
	return moved <= window ? symbol << (window - moved) : symbol >> (moved - window);
}

/* The window at a position, which may be beyond the ring's end. */
static inline uint32_t tc_window_at(const uint8_t symbol[TQ_GROUP], size_t position, uint32_t bits)
{
	uint32_t window = 0;

	for (uint32_t ago = 0; ago < tc_touched(bits); ago++)
		window |= tc_symbol_part(symbol[(TQ_GROUP + position - ago) % TQ_GROUP], ago, bits);
	return window;
}

#endif
