/* The numbers of TC's encoder, which its fast variants share; within kernels/ only.
 *
 * A path costs Σ 2 (x - code)², x the targets, in whole numbers of 16 bits that saturate. With a
 * code a + b that is 2 (x - b)², of the state that is left, 2 a (a + 2 b), of the transition, and
 * -4 x a, of the state that is reached.
 */
#ifndef MOEFS_KERNELS_TC_TABLES_H
#define MOEFS_KERNELS_TC_TABLES_H

#include "kernels/tc.h"

#include <math.h>

enum {
	TC_ONE = 256, /* a target of code 1 */
	TC_MOST = (127 - TC_BEFORE_MOST) *
		  TC_ONE,	 /* the largest target; less each `before` it is in 16 bits */
	TC_STATES = 64,		 /* at most */
	TC_WINDOW_MOST = 8,	 /* bits */
	TC_LEAST = -20000,	 /* what the cheapest path costs to begin with; below it is room for
				       what is in between, above it for others that are dearer by 26000 */
	TC_FAR = 10000,		 /* what a state costs that a path may not begin with */
	TC_THROUGH_MOST = 26000, /* what the way through a state costs at most: with a transition,
				    at most 6138, it is in 16 bits */
	TC_LOWERED = 8,		 /* after so many weights costs are lowered to TC_LEAST anew */
};

/* What a rotated weight is to the encoder; scale is TC_ONE / gain. */
static inline int16_t tc_target(float y, float scale)
{
	float x = y * scale;

	x = x < -TC_MOST ? -TC_MOST : x;
	x = x > TC_MOST ? TC_MOST : x;
	return (int16_t)(int32_t)rintf(x);
}

static inline int16_t tc_transition(const struct tc_codebook *book, uint32_t window)
{
	const int32_t a = book->newest[window >> (book->window - 4)];
	return (int16_t)(2 * a * (a + 2 * book->before[window % TC_NIBBLE]));
}

/* -4 x a is the product of x and this, divided by 2^15. */
static inline int16_t tc_slope(int32_t newest)
{
	return (int16_t)(-512 * newest);
}

/* Of Σ target · code and Σ code². */
static inline float tc_factor(int32_t with_target, int32_t with_itself)
{
	return with_itself == 0 ? 0 : (float)with_target / (float)(TC_ONE * with_itself);
}

#endif
