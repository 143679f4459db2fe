/* All kernels of cards in one module. */
#include "kernels/cuda/cuda_attention.cu"
#include "kernels/cuda/cuda_prepare.cu"
#include "kernels/cuda/cuda_product.cu"
#include "kernels/cuda/cuda_router.cu"
#include "kernels/cuda/cuda_vectors.cu"
