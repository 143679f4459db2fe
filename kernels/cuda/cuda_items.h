/* Whose inputs a product multiplies: items, and parts of their matrices (cuda_launch.h). */
#ifndef MOEFS_KERNELS_CUDA_CUDA_ITEMS_H
#define MOEFS_KERNELS_CUDA_CUDA_ITEMS_H

#include "kernels/cuda/cuda_codes.h"

/* Item i, which there is. */
CUDA_THREAD struct cuda_item cuda_item_of(const struct cuda_product *p, uint32_t i)
{
	struct cuda_item item = {0, i * p->most, 0, 0};

	if (p->items)
		return p->items[i];
	item.n = p->n - item.first < p->most ? p->n - item.first : p->most;
	return item;
}

CUDA_THREAD bool cuda_item_there(const struct cuda_product *p, uint32_t i)
{
	return p->items ? i < *p->item_count : i * p->most < p->n;
}

#endif
