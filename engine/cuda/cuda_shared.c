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

size_t cuda_inputs_of_down(const struct step *s, uint32_t layer)
{
	const size_t routed = (size_t)s->n * cuda_scratch_of(s)->top_k;
	return routed + (cuda_shared_is_beside(s, layer) ? s->n : 0);
}

/* The input of the shared expert's down, of which the first row is `first` rows behind the beginning of `hidden`. */
static struct cuda_input cuda_shared_hidden(const struct step *s, uint32_t layer, size_t *first)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	*first = cuda_shared_is_beside(s, layer) ? (size_t)s->n * k->top_k : 0;
	return cuda_hidden_of(k, s->env->config->shared_size);
}

struct cuda_input cuda_shared_input(const struct step *s, uint32_t layer)
{
	size_t first;
	const struct cuda_input hidden = cuda_shared_hidden(s, layer, &first);
	return cuda_input_from(&hidden, cuda_format_of(s, layer, TENSOR_SHARED_DOWN), (uint32_t)first);
}

/* Gate and up, and the number whose sigmoid is the expert's gate. */
static uint32_t cuda_shared_products(const struct step *s, uint32_t layer, struct cuda_projection *to)
{
	const struct config *c = s->env->config;
	size_t first;
	const struct cuda_input hidden = cuda_shared_hidden(s, layer, &first);
	const size_t inputs = first ? cuda_inputs_of_down(s, layer) : s->n;
	uint32_t count = cuda_gate_and_up(c, TENSOR_SHARED_GATE, TENSOR_SHARED_UP, &hidden, inputs, to);
	for (uint32_t i = 0; i < count; i++)
		to[i].to += first * hidden.k * sizeof(float);
	if (c->shared_gate)
		to[count++] = (struct cuda_projection){TENSOR_SHARED_SCALE, cuda_scratch_of(s)->shared_gate};
	return count;
}

/* The router's product, then the shared expert's, if one launch computes all; else the router's alone. */
static uint32_t cuda_router_products(const struct step *s, uint32_t layer, struct cuda_projection *to)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	to[0] = (struct cuda_projection){TENSOR_ROUTER, k->logits};
	if (!c->layer[layer].shared || c->feed_forwards_apart)
		return 1;
	const uint32_t count = 1 + cuda_shared_products(s, layer, to + 1);
	return cuda_multiplies_together(k->model, layer, to, count, s->n) ? count : 1;
}

void cuda_run_router_products(const struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_projection products[1 + SHARED_PRODUCTS];
	const uint32_t count = cuda_router_products(s, layer, products);
	(void)cuda_multiply_all(k->model, layer, products, count, &k->normed, s->n, now);
}

enum format cuda_begin_shared(const struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_projection products[1 + SHARED_PRODUCTS];
	if (cuda_router_products(s, layer, products) > 1) /* begun with the router */
		return now;
	const uint32_t count = cuda_shared_products(s, layer, products);
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
