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

/* Gate and up; without a gate up alone. Returns how many. */
static uint32_t cuda_gate_up_products(const struct step *s, uint32_t layer, struct cuda_projection *to)
{
	const struct config *c = s->env->config;
	const struct cuda_input hidden = cuda_hidden_of(cuda_scratch_of(s), c->shared_size);
	const uint32_t first = cuda_shared_first(s, layer);
	uint32_t count =
		cuda_gate_and_up(c, TENSOR_SHARED_GATE, TENSOR_SHARED_UP, &hidden, first + s->n, to);
	for (uint32_t i = 0; i < count; i++)
		to[i].to += (size_t)first * hidden.k * sizeof(float);
	return count;
}

/* The router's product, then those of the shared expert: its scale, which usually has the router's format, gate and up.
 * Returns how many; begun: how many of them the router's launch computes. */
enum { ROUTER_PRODUCTS = 4 };
static uint32_t cuda_router_products(const struct step *s, uint32_t layer,
				     struct cuda_projection to[ROUTER_PRODUCTS], uint32_t *begun)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	uint32_t count = 1;
	to[0] = (struct cuda_projection){TENSOR_ROUTER, k->logits};
	if (c->layer[layer].shared && c->shared_gate)
		to[count++] = (struct cuda_projection){TENSOR_SHARED_SCALE, k->shared_gate};
	if (c->layer[layer].shared)
		count += cuda_gate_up_products(s, layer, to + count);
	*begun = c->feed_forwards_apart ? 1 : cuda_products_together(k->model, layer, to, count, s->n);
	return count;
}

void cuda_run_router_products(const struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_projection products[ROUTER_PRODUCTS];
	uint32_t begun;
	(void)cuda_router_products(s, layer, products, &begun);
	(void)cuda_multiply_all(k->model, layer, products, begun, &k->normed, s->n, now);
}

enum format cuda_begin_shared(const struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_projection products[ROUTER_PRODUCTS];
	uint32_t begun;
	const uint32_t count = cuda_router_products(s, layer, products, &begun);
	return cuda_multiply_all(k->model, layer, products + begun, count - begun, &k->normed, s->n, now);
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
