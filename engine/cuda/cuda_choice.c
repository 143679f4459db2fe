/* The choice of experts: by the GPU, or, where a session has an influence on it, by the CPU from the router's
 * logits. Where the GPU holds all of a layer's experts, its choice stays there and is told after the step. Else
 * it goes to main memory. See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

/* ---- the router ---- */

enum format cuda_router_codes(const struct step *s, uint32_t layer)
{
	enum format router = s->env->weights->layer[layer].m[TENSOR_ROUTER].shape.format;
	return format_is_float(router)
		       ? s->env->plan->record[s->env->plan->routed_of[layer]]
				 .computed[s->env->plan->first_part]
				 .format
		       : router;
}

/* input = that of the layer's router and experts. */
static void cuda_enter_router(struct step *s, uint32_t layer, const struct cuda_input *input)
{
	const enum tensor_role norm = s->env->config->feed_forwards_apart ? TENSOR_ROUTER_SCALE
									  : TENSOR_FEED_FORWARD_NORM;
	cuda_enter_part(s, layer, norm, input, cuda_router_codes(s, layer));
}

/* logits = the router's; a shared expert may begin, too. */
static void cuda_run_router(struct step *s, uint32_t layer)
{
	cuda_enter_router(s, layer, &cuda_scratch_of(s)->normed);
	cuda_run_router_products(s, layer, cuda_router_codes(s, layer));
}

/* The router's logits, in main memory. */
static bool cuda_bring_logits(struct step *s)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_copy_out(k->model, s->routing->router_logits, k->logits,
		      (size_t)s->n * s->env->config->experts * sizeof(float));
	return cuda_wait(k->model);
}

void cuda_reweigh(struct step *s, uint32_t layer, size_t row)
{
	cpu_backend.reweigh(s, layer, row);
}

void cuda_guess(struct step *s, uint32_t later)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct routing *r = s->routing;
	struct step cpus = cuda_as_cpus(s);
	for (uint32_t e = 0; e < s->env->config->experts; e++)
		r->rank[e] = UINT32_MAX;
	if (!cuda_runs(s, later, PART_FEED_FORWARD)) {
		if (cuda_rows_to_cpu(s))
			cpu_backend.guess(&cpus, later);
		return;
	}
	cuda_enter_router(s, later, &k->guess);
	cuda_multiply(k->model, later, TENSOR_ROUTER, &k->guess, s->n, k->logits);
	if (cuda_bring_logits(s))
		router_rank_experts(s, later);
}

/* ---- where a choice lies ---- */

struct cuda_choice_at cuda_choice_sent(const struct cuda_scratch *k, uint32_t n)
{
	const size_t bytes = (size_t)n * k->top_k * sizeof(uint32_t);
	return (struct cuda_choice_at){k->chosen, k->chosen + bytes, k->chosen + 2 * bytes};
}
static float *cuda_weights_here(const struct cuda_scratch *k, uint32_t n)
{
	return (float *)(void *)(k->chosen_here + (size_t)n * k->top_k);
}
static const uint32_t *cuda_ranks_here(const struct cuda_scratch *k, uint32_t n)
{
	return k->chosen_here + 2 * (size_t)n * k->top_k;
}

struct cuda_choice_at cuda_choice_left_at(const struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	uint32_t routed = s->env->plan->routed_of[layer];
	return (struct cuda_choice_at){x->left + cuda_chosen_at(x, routed) * sizeof(uint32_t),
				       x->left + cuda_weight_at(x, routed) * sizeof(float),
				       x->left + cuda_rank_at(x, routed) * sizeof(uint32_t)};
}

/* ---- chosen by the GPU ---- */

bool cuda_loses_some(const struct step *s)
{
	bool loses = false;
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		loses = loses || span->losses.substitute_window || span->losses.drop_missing > 0;
	return loses;
}

bool cuda_choice_is_free(const struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	bool is = !s->env->tap && !c->layer[layer].listed && c->experts_per_token <= CUDA_ROUTE_MOST;
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		is = is && !span->losses.steered && !span->losses.experts_per_token;
	return is;
}

/* The family's router. Corrections and groups are of scores that are not logits. */
static struct cuda_choice cuda_choice_of(const struct step *s, uint32_t layer,
					 const struct cuda_choice_at *to)
{
	static const enum cuda_router_order orders[] = {
		[SOFTMAX_THEN_TOP_K] = CUDA_SOFTMAX_FIRST,
		[TOP_K_THEN_SOFTMAX] = CUDA_SOFTMAX_LAST,
		[SIGMOID_THEN_TOP_K] = CUDA_SIGMOIDS,
		[SOFTPLUS_THEN_TOP_K] = CUDA_SOFTPLUS_ROOTS,
	};
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_model *m = k->model;
	const struct config *c = s->env->config;
	bool apart = c->router_order >= SIGMOID_THEN_TOP_K;
	gpu_address correction = apart ? cuda_weight(m, layer, TENSOR_ROUTER_CORRECTION) : 0;
	return (struct cuda_choice){.logits = cuda_at(k->logits),
				    .bias = cuda_at(cuda_weight(m, layer, TENSOR_ROUTER_BIAS)),
				    .correction = cuda_at(correction),
				    .scale = cuda_at(cuda_weight(m, layer, TENSOR_EXPERT_SCALE)),
				    .chosen = cuda_at(to->chosen),
				    .weight = cuda_at(to->weight),
				    .rank = cuda_at(to->rank),
				    .rows = s->n,
				    .experts = c->experts,
				    .top_k = k->top_k,
				    .groups = apart ? c->router_groups : 1,
				    .top_groups = c->router_top_groups,
				    .order = orders[c->router_order],
				    .normalise = c->normalise_top_k,
				    .multiplier = c->router_multiplier,
				    .eps = c->top_k_eps,
				    .scaling = c->routed_scaling};
}

static struct cuda_groups cuda_groups_of(const struct step *s, uint32_t layer, gpu_address chosen,
					 uint32_t most)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	uint32_t routed = s->env->plan->routed_of[layer];
	return (struct cuda_groups){.chosen = cuda_at(chosen),
				    .slots = cuda_at(cuda_experts_slots(k->model, routed)),
				    .rows = s->n,
				    .top_k = k->top_k,
				    .experts = s->env->config->experts,
				    .most = most,
				    .order = cuda_at(k->order),
				    .items = cuda_at(k->items),
				    .item_count = cuda_at(k->item_count)};
}

static void cuda_group_rows(struct step *s, uint32_t layer, gpu_address chosen, uint32_t most)
{
	struct cuda_groups p = cuda_groups_of(s, layer, chosen, most);
	const struct cuda_grid g = cuda_groups_grid(&p);
	cuda_do(cuda_scratch_of(s)->model, cuda_group_number, &g, &p);
}

/* Starts to copy the choice in the scratch, and the experts' input, to main memory. */
static void cuda_send_choice(struct step *s)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_copy_out(k->model, k->chosen_here, k->chosen,
		      CHOICE_ARRAYS * (size_t)s->n * k->top_k * sizeof(uint32_t));
	cuda_copy_out(k->model, k->normed_out, k->normed.f,
		      (size_t)s->n * k->normed.k * sizeof(float));
	cuda_mark(k->model, cuda_stream_of(s)->arrival);
}

/* What main memory is told of the step's only row. */
static struct cuda_told cuda_told_of(const struct cuda_scratch *k)
{
	return (struct cuda_told){.choice = k->chosen_here,
				  .input = cuda_at(k->normed.f),
				  .copy = k->normed_out,
				  .width = k->normed.k,
				  .flag = (uint32_t *)(void *)k->told};
}

void cuda_choose_rows(struct step *s, uint32_t layer, const struct cuda_choice_at *to, uint32_t most,
		      bool tells)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_model *m = k->model;
	struct cuda_route p = {.choice = cuda_choice_of(s, layer, to),
			       .groups = cuda_groups_of(s, layer, to->chosen, most)};
	const struct cuda_grid choice = cuda_choice_grid(&p.choice),
			       groups = cuda_groups_grid(&p.groups);
	cuda_run_router(s, layer);
	if (s->n == 1) {
		if (tells) {
			p.told = cuda_told_of(k);
			atomic_store_explicit(k->told, 0, memory_order_relaxed);
		}
		cuda_do(m, cuda_route_kernel(&p.choice), &choice, &p);
		return;
	}
	cuda_do(m, cuda_choice_kernel(&p.choice), &choice, &p.choice);
	cuda_do(m, cuda_group_number, &groups, &p.groups);
	if (tells)
		cuda_send_choice(s);
}

/* ---- in main memory ---- */

/* Counts the uses of experts on the GPU, and finds out whether others are elsewhere. */
static void cuda_use_experts(struct step *s, uint32_t layer)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	uint32_t routed = s->env->plan->routed_of[layer];
	k->some_elsewhere = false;
	for (size_t i = 0; i < (size_t)s->n * k->top_k; i++) {
		uint32_t expert = k->chosen_here[i];
		if (expert == UINT32_MAX)
			continue;
		if (cuda_experts_held(k->model, routed, expert))
			cuda_experts_used(k->model, routed, expert);
		else
			k->some_elsewhere = true;
	}
}

void cuda_upload_choice(struct step *s, uint32_t layer, uint32_t most)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct routing *r = s->routing;
	float *weight = cuda_weights_here(k, s->n);
	for (uint32_t t = 0; t < s->n; t++)
		for (uint32_t i = 0; i < k->top_k; i++) {
			size_t to = (size_t)t * k->top_k + i, from = (size_t)t * r->top_k + i;
			bool there = i < r->kept[t];
			k->chosen_here[to] = there ? r->chosen[from] : UINT32_MAX;
			weight[to] = there ? r->weight[from] : 0;
		}
	cuda_use_experts(s, layer);
	cuda_copy_in(k->model, k->chosen, k->chosen_here,
		     2 * (size_t)s->n * k->top_k * sizeof(uint32_t));
	cuda_group_rows(s, layer, k->chosen, most);
}

/* Where a row of the step was when the rows were placed: rows only move up. */
static uint32_t cuda_placed_row(const struct step *s, uint32_t row)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct step_span *span = step_span_of(s, row);
	uint32_t position = span->position + row - span->first, was = row;
	if (x->n == s->n) /* none has died */
		return row;
	while (was < x->n && (x->place[was].context != span->context ||
			      x->place[was].position != position))
		was++;
	return was;
}

/* What the GPU has chosen for the step's row t, as the CPU would have it: in the order of the choice, then by
 * weight. */
static void cuda_take_choice(struct step *s, uint32_t t, const void *chosen, const float *weight,
			     const void *rank)
{
	struct routing *r = s->routing;
	size_t to = (size_t)t * r->top_k;
	uint32_t expert[CUDA_ROUTE_MOST], place[CUDA_ROUTE_MOST];
	memcpy(expert, chosen, r->top_k * sizeof *expert);
	memcpy(place, rank, r->top_k * sizeof *place);
	for (uint32_t i = 0; i < r->top_k; i++) {
		r->chosen[to + place[i]] = expert[i];
		r->weight[to + place[i]] = weight[i];
	}
	router_sort_by_weight(r->chosen + to, r->weight + to, r->top_k);
	r->kept[t] = r->top_k;
}

void cuda_tell_choice(struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	struct routing *r = s->routing;
	uint32_t top_k = cuda_scratch_of(s)->top_k, routed = s->env->plan->routed_of[layer];
	const float *chosen = x->left_out + cuda_chosen_at(x, routed),
		    *weight = x->left_out + cuda_weight_at(x, routed),
		    *rank = x->left_out + cuda_rank_at(x, routed);
	bool there = cuda_receive_left(s);
	r->top_k = top_k;
	for (uint32_t t = 0; t < s->n; t++) {
		size_t was = cuda_placed_row(s, t), from = was * top_k;
		r->kept[t] = 0;
		if (!there || was >= x->n)
			continue;
		cuda_take_choice(s, t, chosen + from, weight + from, rank + from);
		for (uint32_t i = 0; i < top_k; i++)
			cuda_experts_used(x->model, routed, r->chosen[(size_t)t * top_k + i]);
	}
}

bool cuda_choose_by_cpu(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_run_router(s, layer);
	cuda_copy_out(k->model, k->normed_out, k->normed.f,
		      (size_t)s->n * k->normed.k * sizeof(float));
	if (!cuda_bring_logits(s))
		return false;
	router_choose_experts(s, layer);
	return true;
}

bool cuda_receive_choice(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	if (s->n == 1 ? !cuda_wait_to_be_told(k->model, k->told)
		      : !cuda_wait_for(k->model, cuda_stream_of(s)->arrival))
		return false;
	for (uint32_t t = 0; t < s->n; t++) {
		size_t at = (size_t)t * k->top_k;
		cuda_take_choice(s, t, k->chosen_here + at, cuda_weights_here(k, s->n) + at,
				 cuda_ranks_here(k, s->n) + at);
	}
	cuda_use_experts(s, layer);
	return true;
}
