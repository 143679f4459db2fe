/* What the scalar functions on vectors and those of vector_lanes.h share; within kernels/ only. */
#ifndef MOEFS_KERNELS_VECTOR_H
#define MOEFS_KERNELS_VECTOR_H

#include <math.h>

#define GELU_LINE (-1.5957691216057308F)  /* -2 √(2/π) */
#define GELU_CUBE (-0.07135481627159623F) /* the same times .044715 */

/* What l2norm multiplies by. An infinite sum would make zeros of all elements that are not infinite
 * themselves. */
static inline float vector_l2norm_factor(float squares, float eps, float scale)
{
	return isinf(squares) ? NAN : scale / sqrtf(squares + eps);
}

#endif
