/* Who looks at what matrices are multiplied with, to learn what their inputs are like. */
#ifndef MOEFS_ENGINE_COMPUTE_OBSERVER_H
#define MOEFS_ENGINE_COMPUTE_OBSERVER_H

#include "engine/compute/product.h"
#include "engine/family/role.h"

struct observer {
	/* Inputs of a tensor: x[rows[i]][cols] for n of them, or the first n if rows is NULL, in
	 * the order of the text. Of experts' gates and downs those of the whole layer come by
	 * themselves, for expert UINT32_MAX; up has what gate has. In the thread that computes the
	 * step, between its products. */
	void (*saw)(void *ctx, struct tensor_id id, const float *x, uint32_t cols,
		    const uint32_t *rows, uint32_t n);
	void *ctx;
};

/* Shows the inputs of dense matrices, a product each. */
void observe_products(const struct environment *env, const struct product *products, uint32_t count,
		      const struct activation *a, uint32_t n);

#endif
