/* Rotary positions: the angles of a step's rows, for each of the rotations that a model's layers
 * have (family/rope.h). */
#ifndef MOEFS_ENGINE_COMPUTE_ROTATION_H
#define MOEFS_ENGINE_COMPUTE_ROTATION_H

#include "engine/compute/arena.h"
#include "engine/family/config.h"

struct rotation {
	uint32_t half;	   /* pairs of a head that are rotated; 0: no layer has this one */
	double *frequency; /* [half] */
	float *cos, *sin;  /* [rows][half], times the amplitude */
};

/* Arrays of all rotations for so many rows. */
void rotation_take(struct rotation all[CONFIG_ROPES], struct arena *a, const struct config *c,
		   size_t rows);
/* Fills in the frequencies. */
void rotation_begin(struct rotation all[CONFIG_ROPES], const struct config *c);
/* Rows [first, first + n) have the angles of `position` and what follows. */
void rotation_make(struct rotation all[CONFIG_ROPES], const struct config *c, uint32_t first,
		   uint32_t position, uint32_t n);

#endif
