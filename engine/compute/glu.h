/* Gated linear units (Shazeer 2020): what a feed-forward does between its projections. */
#ifndef MOEFS_ENGINE_COMPUTE_GLU_H
#define MOEFS_ENGINE_COMPUTE_GLU_H

#include "engine/compute/environment.h"

/* gate[n] = the family's function of gate and up, element by element. */
void glu_run(const struct environment *env, float *gate, const float *up, size_t n);

#endif
