/* Feed-forwards with experts. Where the GPU holds all of a layer's experts, the router's choice never leaves
 * it, and is told after the step. Else the choice goes to main memory, and the CPU computes the other experts
 * meanwhile. The sum takes each output from where it is; its order does not depend on that. See
 * cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

#include <string.h>

/* ---- the router ---- */

/* For which format a layer's norm also makes codes: the router's, or, where that multiplies floats, the
 * experts'. */
static enum format cuda_router_codes(const struct step *s, uint32_t layer)
{
	enum format router = s->env->weights->layer[layer].m[TENSOR_ROUTER].shape.format;
	return format_is_float(router)
		       ? s->env->plan->record[s->env->plan->routed_of[layer]]
				 .computed[s->env->plan->first_part]
				 .format
		       : router;
}

/* input = that of the layer's router and experts; logits = the router's. */
static void cuda_run_router(struct step *s, uint32_t layer, const struct cuda_input *input)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const enum tensor_role norm = s->env->config->feed_forwards_apart ? TENSOR_ROUTER_SCALE
									  : TENSOR_FEED_FORWARD_NORM;
	cuda_enter_part(s, layer, norm, input, cuda_router_codes(s, layer));
	cuda_multiply(k->model, layer, TENSOR_ROUTER, input, s->n, k->logits);
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
	struct routing *r = s->routing;
	struct step cpus = cuda_as_cpus(s);
	for (uint32_t e = 0; e < s->env->config->experts; e++)
		r->rank[e] = UINT32_MAX;
	if (!cuda_runs(s, later, PART_FEED_FORWARD)) {
		if (cuda_rows_to_cpu(s))
			cpu_backend.guess(&cpus, later);
		return;
	}
	cuda_run_router(s, later, &cuda_scratch_of(s)->guess);
	if (cuda_bring_logits(s))
		router_rank_experts(s, later);
}

/* ---- experts on the GPU ---- */

/* Where a layer's choice lies on the GPU: [n][top_k] each. */
struct cuda_choice_at {
	gpu_address chosen, weight, rank;
};

/* A choice between the GPU and main memory: three arrays that follow each other. */
static struct cuda_choice_at cuda_choice_sent(const struct cuda_scratch *k, uint32_t n)
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

/* Gives the choice of the step's routing to the GPU. */
static void cuda_upload_choice(struct step *s, uint32_t layer)
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
}

/* Tokens of an expert that its products compute at once. */
static uint32_t cuda_expert_tokens(const struct step *s, uint32_t layer)
{
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const struct config *c = s->env->config;
	uint32_t mean = (s->n * c->experts_per_token + c->experts - 1) / c->experts, least = UINT32_MAX;
	if (s->n == 1)
		return 1;
	for (uint32_t part = s->env->plan->first_part; part < EXPERT_PARTS; part++) {
		uint32_t most = cuda_tokens_together(record->computed[part].format,
						     mean > 1 ? mean : 2);
		least = most < least ? most : least;
	}
	return least;
}

/* What the products of a layer's experts have in common. most: tokens of an expert at once. */
static struct cuda_product cuda_expert_product(const struct cuda_scratch *k, const struct step *s,
					       uint32_t layer, uint32_t part, uint32_t most)
{
	const struct cuda_model *m = k->model;
	uint32_t routed = s->env->plan->routed_of[layer];
	const struct plan_record *record = &s->env->plan->record[routed];
	struct cuda_product p = {.slots = cuda_at(cuda_experts_slots(m, routed)),
				 .offset = record->slot_offset[part],
				 .items = cuda_at(k->items),
				 .item_count = cuda_at(k->item_count),
				 .order = cuda_at(k->order),
				 .n = s->n * k->top_k,
				 .most = most,
				 .parts = 1};
	cuda_describe(m, &p, &record->computed[part]);
	p.ldy = p.rows;
	return p;
}

/* How many items to expect of so many assignments: the GPU alone knows. Half of few assignments have an expert for
 * themselves. */
static size_t cuda_items_expected(uint32_t experts, uint32_t n, uint32_t most)
{
	uint32_t alone = (n < experts ? n : experts) / 2;
	return n / most > alone ? n / most : alone;
}

static void cuda_run_expert_product(const struct cuda_scratch *k, struct cuda_product *p,
				    enum format format, const struct cuda_input *x)
{
	uint32_t experts = k->model->config->experts, items = cuda_most_items(experts, p->n, p->most);
	const size_t tiles = cuda_items_expected(experts, p->n, p->most) * p->parts *
			     ((p->rows + TILE_ROWS - 1) / TILE_ROWS);
	p->x = cuda_at(x->f);
	p->q = cuda_at(x->q);
	p->scale = cuda_at(x->scale);
	p->sum = cuda_at(x->sum);
	const struct cuda_room room = cuda_room_of(k->model);
	const enum cuda_kernel kernel = cuda_kernel_for(format, p->most, tiles, &room);
	const struct cuda_grid g = cuda_product_grid(kernel, p, items, &room);
	cuda_do(k->model, kernel, &g, p);
}

/* Gate and up: one launch where they are alike. Without a gate up alone, in its place. */
static void cuda_run_gate_up(struct step *s, uint32_t layer, uint32_t most, const struct cuda_input *x)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const uint32_t first = s->env->plan->first_part;
	const struct shape *gate = &record->computed[first], *up = &record->computed[1];
	bool alike = first == 0 && gate->format == up->format && gate->norms == up->norms &&
		     gate->group == up->group;
	const struct cuda_input hidden = cuda_hidden_of(k, gate->rows);
	size_t all = (size_t)s->n * k->top_k;
	for (uint32_t part = first; part < (alike ? 1 : 2); part++) {
		struct cuda_product p = cuda_expert_product(k, s, layer, part, most);
		p.divide = k->top_k;
		p.y = cuda_at(part > first ? cuda_up_of(&hidden, all) : hidden.f);
		p.parts = alike ? 2 : 1;
		p.part_bytes = record->slot_offset[1] - record->slot_offset[0];
		p.y_part = all * gate->rows;
		if (part > first && format_input(gate->format) != format_input(up->format))
			cuda_prepare_input(k->model, x, s->n, up->format);
		cuda_run_expert_product(k, &p, record->computed[part].format, x);
	}
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

/* Adds each expert's bias to its outputs, if the family has biases. */
static void cuda_add_expert_bias(const struct step *s, uint32_t layer, enum tensor_role role,
				 gpu_address chosen, gpu_address y)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	const struct cuda_expert_bias p = {.y = cuda_at(y),
					   .bias = cuda_at(cuda_weight(k->model, layer, role)),
					   .chosen = cuda_at(chosen),
					   .n = s->n * k->top_k,
					   .width = cuda_matrix(k->model, layer, role)->shape.cols,
					   .experts = c->experts};
	const struct cuda_grid g = cuda_items_grid((size_t)p.n * p.width);
	if (c->expert_bias)
		cuda_do(k->model, cuda_add_expert_bias_number, &g, &p);
}

/* normed = another norm of the stream, with codes for `format`, which is returned. */
static enum format cuda_norm_again(const struct step *s, uint32_t layer, enum tensor_role norm,
				   enum format format)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_norm(k->model, k->normed.f, cuda_stream_of(s)->x, cuda_weight(k->model, layer, norm), s->n,
		  k->normed.k);
	cuda_prepare_input(k->model, &k->normed, s->n, format);
	return format;
}

/* The projection of normed, which has codes for `now`, with codes for `gate`. `out` has room for its numbers
 * until the layer's end, and `normed`, once it is multiplied, for its codes. */
static struct cuda_input cuda_project_normed(const struct step *s, uint32_t layer, enum format now,
					     enum format gate)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_projection in = {TENSOR_EXPERTS_IN, k->out};
	struct cuda_input latent = k->normed;
	(void)cuda_multiply_all(k->model, layer, &in, 1, &k->normed, s->n, now);
	latent.k = s->env->config->expert_latent;
	latent.f = k->out;
	cuda_prepare_input(k->model, &latent, s->n, gate);
	return latent;
}

/* shared = the output of the shared expert. Returns what the others read, with codes for `gate`: `normed`, which
 * has the codes of cuda_router_codes, another norm of the stream, or a projection. */
static struct cuda_input cuda_begin_shared(struct step *s, uint32_t layer, enum format gate)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	enum format now = cuda_router_codes(s, layer);
	if (c->feed_forwards_apart && c->layer[layer].shared)
		now = cuda_norm_again(s, layer, TENSOR_FEED_FORWARD_NORM,
				      cuda_format_of(s, layer, TENSOR_SHARED_UP));
	if (c->layer[layer].shared)
		now = cuda_run_shared(s, layer, now);
	if (c->feed_forwards_apart)
		now = cuda_norm_again(s, layer, TENSOR_EXPERTS_NORM, gate);
	if (c->expert_latent)
		return cuda_project_normed(s, layer, now, gate);
	if (format_input(now) != format_input(gate))
		cuda_prepare_input(k->model, &k->normed, s->n, gate);
	return k->normed;
}

/* found = the outputs of the grouped experts that the GPU holds, and shared = that of the shared expert. */
static void cuda_run_experts(struct step *s, uint32_t layer, gpu_address chosen, uint32_t most)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const struct cuda_input hidden = cuda_hidden_of(k, s->env->config->expert_size);
	enum format gate = record->computed[s->env->plan->first_part].format,
		    down = record->computed[EXPERT_PARTS - 1].format;
	const struct cuda_input input = cuda_begin_shared(s, layer, gate);
	cuda_run_gate_up(s, layer, most, &input);
	cuda_add_expert_bias(s, layer, TENSOR_EXPERT_GATE_BIAS, chosen, hidden.f);
	cuda_add_expert_bias(s, layer, TENSOR_EXPERT_UP_BIAS, chosen,
			     cuda_up_of(&hidden, s->n * k->top_k));
	cuda_gate(k, &hidden, s->n * k->top_k, down);
	struct cuda_product p = cuda_expert_product(k, s, layer, EXPERT_PARTS - 1, most);
	p.divide = 1;
	p.y = cuda_at(k->found);
	cuda_run_expert_product(k, &p, down, &hidden);
	cuda_add_expert_bias(s, layer, TENSOR_EXPERT_DOWN_BIAS, chosen, k->found);
}

/* ---- some elsewhere ---- */

void cuda_begin_experts(struct step *s, uint32_t layer)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	struct step cpus = cuda_as_cpus(s);
	if (!cuda_runs(s, layer, PART_FEED_FORWARD)) {
		cpu_backend.begin_experts(&cpus, layer);
		return;
	}
	const uint32_t most = cuda_expert_tokens(s, layer);
	if (!k->begun) {
		cuda_upload_choice(s, layer);
		cuda_group_rows(s, layer, k->chosen, most);
		cuda_run_experts(s, layer, k->chosen, most);
	}
	k->begun = false;
	if (k->some_elsewhere && s->env->config->feed_forwards_apart)
		(void)cuda_rows_to_cpu(s); /* whose norm its experts read */
	if (k->some_elsewhere)
		moe_begin_experts(&cpus, layer, k->normed_out);
}

void cuda_wave(struct step *s, uint32_t layer, const struct pager_ready *ready, uint32_t count)
{
	struct step cpus = cuda_as_cpus(s);
	cpu_backend.wave(&cpus, layer, ready, count);
}

/* Where the CPU has put a row's output of an expert that the row chose. */
static const float *cuda_output_of(const struct step *s, uint32_t row, uint32_t expert)
{
	const struct routing *r = s->routing;
	const uint32_t *chosen = r->chosen + (size_t)row * r->top_k;
	uint32_t i = 0;
	while (chosen[i] != expert)
		i++;
	return moe_experts_found(cuda_scratch_of(s)->cpu) +
	       (size_t)r->assignment[(size_t)row * r->top_k + i] *
		       config_expert_width(s->env->config);
}

/* The CPU's outputs, in the places of the choice on the GPU. */
static void cuda_give_found(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	uint32_t routed = s->env->plan->routed_of[layer];
	size_t width = config_expert_width(s->env->config);
	for (size_t i = 0; i < (size_t)s->n * k->top_k; i++) {
		uint32_t expert = k->chosen_here[i];
		if (expert != UINT32_MAX && !cuda_experts_held(k->model, routed, expert))
			memcpy(k->found_here + i * width,
			       cuda_output_of(s, (uint32_t)(i / k->top_k), expert),
			       width * sizeof(float));
	}
}

void cuda_end_experts(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	if (!cuda_runs(s, layer, PART_FEED_FORWARD)) {
		cuda_run_on_cpu(s, layer, cpu_backend.end_experts);
		cuda_run_on_cpu(s, layer, cpu_backend.finish);
		return;
	}
	if (k->some_elsewhere)
		cuda_give_found(s, layer);
	const struct cuda_choice_at sent = cuda_choice_sent(k, s->n);
	cuda_leave_experts(s, layer, sent.chosen, sent.weight, true);
}

/* ---- all of them on the GPU ---- */

/* Nobody sees or changes the choice before the experts are computed, and a kernel makes it: not of experts
 * that a table lists, nor of more than a warp weighs. */
static bool cuda_choice_is_free(const struct step *s, uint32_t layer)
{
	const struct config *c = s->env->config;
	bool is = !s->env->tap && !c->layer[layer].listed && c->experts_per_token <= CUDA_ROUTE_MOST;
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		is = is && !span->losses.steered && !span->losses.experts_per_token;
	return is;
}

/* The choice of a layer whose experts are all on the GPU. */
static struct cuda_choice_at cuda_choice_left_at(const struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	uint32_t routed = s->env->plan->routed_of[layer];
	return (struct cuda_choice_at){x->left + cuda_chosen_at(x, routed) * sizeof(uint32_t),
				       x->left + cuda_weight_at(x, routed) * sizeof(float),
				       x->left + cuda_rank_at(x, routed) * sizeof(uint32_t)};
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

static void cuda_choose_rows(struct step *s, uint32_t layer, const struct cuda_choice_at *to,
			     uint32_t most)
{
	struct cuda_model *m = cuda_scratch_of(s)->model;
	struct cuda_route p = {.choice = cuda_choice_of(s, layer, to),
			       .groups = cuda_groups_of(s, layer, to->chosen, most)};
	const struct cuda_grid choice = cuda_choice_grid(&p.choice),
			       groups = cuda_groups_grid(&p.groups);
	if (s->n == 1) {
		cuda_do(m, cuda_route_kernel(&p.choice), &choice, &p);
		return;
	}
	cuda_do(m, cuda_choice_kernel(&p.choice), &choice, &p.choice);
	cuda_do(m, cuda_group_number, &groups, &p.groups);
}

bool cuda_can_feed(const struct step *s, uint32_t layer)
{
	const struct cuda_model *m = cuda_stream_of(s)->model;
	return !m->failure.code && cuda_runs(s, layer, PART_FEED_FORWARD) && cuda_choice_is_free(s, layer) &&
	       cuda_experts_all_held(m, s->env->plan->routed_of[layer]);
}

void cuda_run_routed(struct step *s, uint32_t layer)
{
	const struct cuda_choice_at left = cuda_choice_left_at(s, layer);
	uint32_t most = cuda_expert_tokens(s, layer);
	cuda_run_router(s, layer, &cuda_scratch_of(s)->normed);
	cuda_choose_rows(s, layer, &left, most);
	cuda_run_experts(s, layer, left.chosen, most);
	cuda_leave_experts(s, layer, left.chosen, left.weight, false);
}

bool cuda_feed_held(struct step *s, uint32_t layer)
{
	struct cuda_stream *x = cuda_stream_of(s);
	if (!x->ahead && !cuda_can_feed(s, layer))
		return false;
	if (!x->ahead) {
		cuda_place_rows(s);
		cuda_run_routed(s, layer);
	}
	x->unsent = true;
	return true;
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

/* ---- who chooses where some are elsewhere ---- */

/* Whether what is lost on purpose depends on where experts are. */
static bool cuda_loses_some(const struct step *s)
{
	bool loses = false;
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		loses = loses || span->losses.substitute_window || span->losses.drop_missing > 0;
	return loses;
}

/* The GPU chooses, and goes on with the experts that it holds, while main memory gets the choice and the
 * experts' input. False: something has failed. */
static bool cuda_choose_and_begin(struct step *s, uint32_t layer)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_model *m = k->model;
	const gpu_event arrival = cuda_stream_of(s)->arrival;
	const uint32_t most = cuda_expert_tokens(s, layer);
	const struct cuda_choice_at sent = cuda_choice_sent(k, s->n);
	const size_t all = (size_t)s->n * k->top_k;
	cuda_run_router(s, layer, &k->normed);
	cuda_choose_rows(s, layer, &sent, most);
	cuda_copy_out(m, k->chosen_here, k->chosen, CHOICE_ARRAYS * all * sizeof(uint32_t));
	cuda_copy_out(m, k->normed_out, k->normed.f, (size_t)s->n * k->normed.k * sizeof(float));
	cuda_mark(m, arrival);
	cuda_run_experts(s, layer, k->chosen, most);
	k->begun = true;
	if (!cuda_wait_for(m, arrival))
		return false;
	for (uint32_t t = 0; t < s->n; t++)
		cuda_take_choice(s, t, k->chosen_here + (size_t)t * k->top_k,
				 cuda_weights_here(k, s->n) + (size_t)t * k->top_k,
				 cuda_ranks_here(k, s->n) + (size_t)t * k->top_k);
	cuda_use_experts(s, layer);
	return true;
}

/* The CPU chooses by the router's logits. False: something has failed. */
static bool cuda_choose_by_cpu(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_run_router(s, layer, &k->normed);
	cuda_copy_out(k->model, k->normed_out, k->normed.f,
		      (size_t)s->n * k->normed.k * sizeof(float));
	if (!cuda_bring_logits(s))
		return false;
	router_choose_experts(s, layer);
	return true;
}

/* False: something has failed. */
static bool cuda_find_choice(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct step cpus = cuda_as_cpus(s);
	if (!cuda_runs(s, layer, PART_FEED_FORWARD)) {
		if (cuda_rows_to_cpu(s))
			cpu_backend.route(&cpus, layer);
		return !k->model->failure.code;
	}
	if (cuda_choice_is_free(s, layer) && !cuda_loses_some(s))
		return cuda_choose_and_begin(s, layer);
	return cuda_choose_by_cpu(s, layer);
}

void cuda_route(struct step *s, uint32_t layer)
{
	cuda_scratch_of(s)->begun = false;
	if (!cuda_find_choice(s, layer)) /* nothing is computed any more */
		memset(s->routing->kept, 0, s->n * sizeof *s->routing->kept);
}
