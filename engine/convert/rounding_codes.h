/* The inside of rounding.h: a group and the codes that it gets, by a codebook of levels
 * (rounding_tq.c) or by a trellis (rounding_tc.c). Positions are in the order in which they are
 * rounded, which for a trellis is that of its stream. */
#ifndef MOEFS_ENGINE_CONVERT_ROUNDING_CODES_H
#define MOEFS_ENGINE_CONVERT_ROUNDING_CODES_H

#include "kernels/kernels.h"

#include <stdbool.h>

struct group {
	const struct kernels *kernels;
	uint32_t bits;
	const float *upper; /* [TQ_GROUP] rows of U, from the group's first position on */
	size_t stride;	    /* of these rows */
	const float *cost;  /* D */
	const float *pairs; /* [TQ_GROUP][TQ_GROUP]: U D U' of the group alone */
	const float *weight, *brought;
	/* The weights that would make up for all that was brought: the targets as a whole. */
	float target[TQ_GROUP];
};

struct coded {
	uint8_t symbol[TQ_GROUP];
	float level[TQ_GROUP]; /* what each stands for, times the norm */
	float norm;
	double cost;
};

/* Codes, and their levels, for that norm: position by position, each making up for those before. */
typedef void rounding_choose_fn(const struct group *g, float norm, struct coded *c);
/* Each position once more, now that all others have their codes; whether any was changed. */
typedef bool rounding_sweep_fn(const struct group *g, struct coded *c);

rounding_choose_fn rounding_tq_choose, rounding_tc_choose;
rounding_sweep_fn rounding_tq_sweep, rounding_tc_sweep;

#endif
