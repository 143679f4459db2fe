/* The compiled kernels of cards, which the build puts into the program (images.sh): one module for
 * each compiler that was there, the better one first. An image without a name ends the list. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_IMAGES_H
#define MOEFS_KERNELS_CUDA_CUDA_IMAGES_H

#include <stddef.h>

struct cuda_image {
	const char *name; /* the compiler, and what for: "nvcc 13.0: sm_80 sm_90 compute_80" */
	const unsigned char *bytes; /* as the driver loads them; text ends with a zero */
	size_t size;
	/* The lowest compute capability's major number whose code waits itself for the kernel ahead of
	 * it (cuda_wait_for_ahead), so that it may be launched early; 0: none. */
	unsigned waits;
};
extern const struct cuda_image cuda_images[];

#endif
