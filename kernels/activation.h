/* The constants of activations, in every table; within kernels/ only. */
#ifndef MOEFS_KERNELS_ACTIVATION_H
#define MOEFS_KERNELS_ACTIVATION_H

#define GELU_LINE (-1.5957691216057308F)  /* -2 √(2/π) */
#define GELU_CUBE (-0.07135481627159623F) /* the same times .044715 */

#endif
