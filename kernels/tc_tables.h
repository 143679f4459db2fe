/* The constants of TC's encoder, which its fast variants share; within kernels/ only. */
#ifndef MOEFS_KERNELS_TC_TABLES_H
#define MOEFS_KERNELS_TC_TABLES_H

#include "kernels/tc.h"

#include <math.h>

enum {
	TC_ONE = 16,	/* a target of code 1 */
	TC_MOST = 6143, /* the largest target: see below */
	TC_STATES = 64, /* at most */
	/* What a state costs that a path may not begin with: more than the costs of any two paths
	 * can differ by in three weights, after which every state can be reached from any. */
	TC_FAR = 1 << 23,
};
/* A code costs at most 16 · 63² + 2 · 63 · 6143 < 2^19.7 in magnitude, so a path of 128 weights
 * less than 2^27 - TC_FAR: in 32 bits four remain for the symbol dropped. */

/* What a rotated weight is to the encoder; scale is TC_ONE / gain. */
static inline int32_t tc_target(float y, float scale)
{
	float x = y * scale;

	x = x < -TC_MOST ? -TC_MOST : x;
	x = x > TC_MOST ? TC_MOST : x;
	return (int32_t)rintf(x);
}

/* Of Σ target · code and Σ code². */
static inline float tc_factor(int32_t with_target, int32_t with_itself)
{
	return with_itself == 0 ? 0 : (float)with_target / (float)(TC_ONE * with_itself);
}

#endif
