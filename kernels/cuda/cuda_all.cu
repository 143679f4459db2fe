/* All kernels of cards in one module. */
#include "kernels/cuda/cuda_prepare.cu"
#include "kernels/cuda/cuda_product.cu"
