/* Shared experts, which every row of a layer with routed experts passes. Each launch takes a GPU some microseconds
 * however little it computes, so theirs are put together with others: gate and up with the router, if one kernel
 * multiplies all of these formats; the activation and down with the routed experts', if both are as wide. See
 * cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"

bool cuda_shared_is_beside(const struct step *s, uint32_t layer)
{
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const struct config *c = s->env->config;
	return c->layer[layer].shared && c->shared_size == c->expert_size && !c->feed_forwards_apart &&
	       !c->expert_bias &&
	       format_input(cuda_format_of(s, layer, TENSOR_SHARED_DOWN)) ==
		       format_input(record->computed[EXPERT_PARTS - 1].format);
}

uint32_t cuda_inputs_of_down(const struct step *s, uint32_t layer)
{
	const uint32_t routed = s->n * cuda_scratch_of(s)->top_k;
	return routed + (cuda_shared_is_beside(s, layer) ? s->n : 0);
}

/* The first row of `hidden` that is the shared expert's. */
static uint32_t cuda_shared_first(const struct step *s, uint32_t layer)
{
	return cuda_shared_is_beside(s, layer) ? s->n * cuda_scratch_of(s)->top_k : 0;
}

struct cuda_input cuda_shared_input(const struct step *s, uint32_t layer)
{
	const struct cuda_input hidden = cuda_hidden_of(cuda_scratch_of(s), s->env->config->shared_size);
	return cuda_input_from(&hidden, cuda_format_of(s, layer, TENSOR_SHARED_DOWN),
			       cuda_shared_first(s, layer));
}

/* ---- products ---- */

/* Gate and up; without a gate up alone. */
static uint32_t cuda_gate_up_products(const struct step *s, uint32_t layer, struct cuda_projection *to)
{
	const struct config *c = s->env->config;
	const struct cuda_input hidden = cuda_hidden_of(cuda_scratch_of(s), c->shared_size);
	const size_t first = cuda_shared_first(s, layer);
	const uint32_t inputs = cuda_shared_is_beside(s, layer) ? cuda_inputs_of_down(s, layer) : s->n;
	uint32_t count = cuda_gate_and_up(c, TENSOR_SHARED_GATE, TENSOR_SHARED_UP, &hidden, inputs, to);
	for (uint32_t i = 0; i < count; i++)
		to[i].to += first * hidden.k * sizeof(float);
	return count;
}

static struct cuda_projection cuda_scale_product(const struct step *s)
{
	return (struct cuda_projection){TENSOR_SHARED_SCALE, cuda_scratch_of(s)->shared_gate};
}

/* What the router's launch computes: the router alone; also the shared expert's scale, which usually has its format;
 * or all of these products, if one kernel takes their formats. */
enum cuda_router_launch { ROUTER_ALONE, ROUTER_AND_SCALE, ROUTER_AND_SHARED };

/* The router, the scale if there is one, gate and up. */
enum { ROUTER_PRODUCTS = 4 };
_Static_assert((int)ROUTER_PRODUCTS <= (int)CUDA_PRODUCTS_MOST, "one launch has all products of a router and a shared expert");
static enum cuda_router_launch cuda_router_products(const struct step *s, uint32_t layer,
						    struct cuda_projection to[ROUTER_PRODUCTS], uint32_t *count)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	to[0] = (struct cuda_projection){TENSOR_ROUTER, k->logits};
	*count = 1;
	if (!c->layer[layer].shared || c->feed_forwards_apart)
		return ROUTER_ALONE;
	const uint32_t small = c->shared_gate ? 2 : 1;
	if (c->shared_gate)
		to[1] = cuda_scale_product(s);
	*count = small + cuda_gate_up_products(s, layer, to + small);
	if (cuda_multiplies_together(k->model, layer, to, *count, s->n))
		return ROUTER_AND_SHARED;
	*count = small;
	if (small > 1 && cuda_multiplies_together(k->model, layer, to, small, s->n))
		return ROUTER_AND_SCALE;
	*count = 1;
	return ROUTER_ALONE;
}

void cuda_run_router_products(const struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_projection products[ROUTER_PRODUCTS];
	uint32_t count;
	(void)cuda_router_products(s, layer, products, &count);
	(void)cuda_multiply_all(k->model, layer, products, count, &k->normed, s->n, now);
}

enum format cuda_begin_shared(const struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_projection scale = cuda_scale_product(s);
	struct cuda_projection products[ROUTER_PRODUCTS];
	uint32_t count;
	const enum cuda_router_launch begun = cuda_router_products(s, layer, products, &count);
	if (begun == ROUTER_AND_SHARED)
		return now;
	if (begun == ROUTER_ALONE && s->env->config->shared_gate)
		now = cuda_multiply_all(k->model, layer, &scale, 1, &k->normed, s->n, now);
	count = cuda_gate_up_products(s, layer, products);
	return cuda_multiply_all(k->model, layer, products, count, &k->normed, s->n, now);
}

void cuda_end_shared(const struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	const struct cuda_input hidden = cuda_shared_input(s, layer);
	if (!cuda_shared_is_beside(s, layer))
		cuda_gate(k, &hidden, s->n, cuda_format_of(s, layer, TENSOR_SHARED_DOWN));
	cuda_multiply(k->model, layer, TENSOR_SHARED_DOWN, &hidden, s->n, k->shared);
	if (c->feed_forwards_apart)
		cuda_norm(k->model, k->shared, k->shared,
			  cuda_weight(k->model, layer, TENSOR_SHARED_POST_NORM), s->n, c->hidden_size);
}
