/* What the program prepares for the kernels of cards: tables, and the shapes of launches. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_TABLES_H
#define MOEFS_KERNELS_CUDA_CUDA_TABLES_H

#include "kernels/cuda/cuda_launch.h"
#include "kernels/format.h"

/* The name under which a module has a kernel. */
const char *cuda_kernel_name(enum cuda_kernel k);

void cuda_fill_signs(struct cuda_signs *signs);

/* Two codes of TC3 that follow each other in a ring, by the ten bits of it that end with the second
 * one's: the first in the lower byte. */
void cuda_fill_pairs(uint16_t pairs[CUDA_PAIRS]);
/* All of a trellis of 3 or 4 bits but the address of its pairs. */
void cuda_fill_trellis(struct cuda_trellis *t, uint32_t bits);

/* The kernel for n = 1, 2, 4 or 8 tokens of a format (TC3, TC4 or Q4_K), or CUDA_KERNEL_COUNT. */
enum cuda_kernel cuda_product_kernel(enum format format, uint32_t n);
/* Groups of a row, as struct cuda_product counts them. */
uint32_t cuda_product_groups(enum format format, uint32_t cols);

/* Shapes of launches; a card has so many processors. */
struct cuda_grid cuda_prepare_grid(enum cuda_kernel k, const struct cuda_prepare *p);
/* Also sets p->tiles. */
struct cuda_grid cuda_product_grid(enum cuda_kernel k, struct cuda_product *p, uint32_t matrices,
				   uint32_t processors);
struct cuda_grid cuda_norms_grid(const struct cuda_norms *p);
/* Kernels of which each thread has an element. */
struct cuda_grid cuda_items_grid(size_t n);
struct cuda_grid cuda_choice_grid(const struct cuda_choice *p);
struct cuda_grid cuda_spans_grid(const struct cuda_attention *p, uint32_t spans);
struct cuda_grid cuda_join_grid(const struct cuda_attention *p);

#endif
