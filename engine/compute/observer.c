#include "engine/compute/observer.h"

/* Where a matrix is among a model's weights. */
static struct tensor_id id_of(const struct environment *env, const struct matrix *w)
{
	const struct weights *all = env->weights;
	bool once = w >= all->once.m && w < all->once.m + TENSOR_ROLES;
	size_t at = once ? (size_t)(w - all->once.m) : (size_t)(w - all->layer->m);
	return (struct tensor_id){(enum tensor_role)(at % TENSOR_ROLES),
				  (uint32_t)(at / TENSOR_ROLES), 0};
}

void observe_products(const struct environment *env, const struct product *products, uint32_t count,
		      const struct activation *a, uint32_t n)
{
	for (uint32_t i = 0; i < count; i++)
		env->observer->saw(env->observer->ctx, id_of(env, products[i].w), a->f, a->k, NULL,
				   n);
}
