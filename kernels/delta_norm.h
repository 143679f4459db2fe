/* What l2norm multiplies by, in every table; within kernels/ only. */
#ifndef MOEFS_KERNELS_DELTA_NORM_H
#define MOEFS_KERNELS_DELTA_NORM_H

#include <math.h>

/* An infinite sum would make zeros of all elements that are not infinite themselves. */
static inline float l2norm_factor(float squares, float eps, float scale)
{
	return isinf(squares) ? NAN : scale / sqrtf(squares + eps);
}

#endif
