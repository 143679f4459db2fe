/* Feed-forwards with experts: the GPU computes those that it holds, and the CPU the others meanwhile. The sum takes
 * each output from where it is; its order does not depend on that. Who chooses them is cuda_choice.c's. See
 * cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

#include <string.h>

/* ---- experts on the GPU ---- */

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

/* The shared expert begins, and ends if it is not beside the others. Returns the input of the routed experts, with
 * codes for `gate`: `normed`, which has the codes of cuda_router_codes, another norm of the stream, or a projection. */
static struct cuda_input cuda_enter_experts(struct step *s, uint32_t layer, enum format gate)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	enum format now = cuda_router_codes(s, layer);
	if (c->feed_forwards_apart && c->layer[layer].shared)
		now = cuda_norm_again(s, layer, TENSOR_FEED_FORWARD_NORM,
				      cuda_format_of(s, layer, TENSOR_SHARED_UP));
	if (c->layer[layer].shared)
		now = cuda_begin_shared(s, layer, now);
	if (c->layer[layer].shared && !cuda_shared_is_beside(s, layer))
		cuda_end_shared(s, layer);
	if (c->feed_forwards_apart)
		now = cuda_norm_again(s, layer, TENSOR_EXPERTS_NORM, gate);
	if (c->expert_latent)
		return cuda_project_normed(s, layer, now, gate);
	if (format_input(now) != format_input(gate))
		cuda_prepare_input(k->model, &k->normed, s->n, gate);
	return k->normed;
}

/* found = the outputs of the grouped experts that the GPU holds, and shared = that of the shared expert. */
static void cuda_run_experts(struct step *s, uint32_t layer, gpu_address chosen, uint32_t most,
			     bool all_here)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct plan_record *record = &s->env->plan->record[s->env->plan->routed_of[layer]];
	const struct cuda_input hidden = cuda_hidden_of(k, s->env->config->expert_size);
	enum format gate = record->computed[s->env->plan->first_part].format,
		    down = record->computed[EXPERT_PARTS - 1].format;
	const struct cuda_input input = cuda_enter_experts(s, layer, gate);
	cuda_run_gate_up(s, layer, most, all_here, &input);
	cuda_add_expert_bias(s, layer, TENSOR_EXPERT_GATE_BIAS, chosen, hidden.f);
	cuda_add_expert_bias(s, layer, TENSOR_EXPERT_UP_BIAS, chosen,
			     cuda_up_of(&hidden, s->n * k->top_k));
	cuda_gate(k, &hidden, cuda_inputs_of_down(s, layer), down);
	cuda_run_down(s, layer, most, all_here);
	cuda_add_expert_bias(s, layer, TENSOR_EXPERT_DOWN_BIAS, chosen, k->found);
}

/* ---- some elsewhere ---- */

/* Whether the CPU leaves outputs right where the GPU reads them: the assignments of a single row ascend by
 * expert, as a choice of the GPU does. */
static bool cuda_finds_in_place(const struct step *s)
{
	return s->n == 1 && cuda_scratch_of(s)->progress != CHOSEN_BY_CPU;
}

void cuda_begin_experts(struct step *s, uint32_t layer)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	struct step cpus = cuda_as_cpus(s);
	if (!cuda_runs(s, layer, PART_FEED_FORWARD)) {
		cpu_backend.begin_experts(&cpus, layer);
		return;
	}
	const uint32_t most = cuda_expert_tokens(s, layer);
	if (k->progress == CHOSEN_BY_CPU)
		cuda_upload_choice(s, layer, most);
	if (k->progress != EXPERTS_BEGUN)
		cuda_run_experts(s, layer, k->chosen, most, false);
	if (k->some_elsewhere && s->env->config->feed_forwards_apart)
		(void)cuda_rows_to_cpu(s); /* whose norm its experts read */
	if (k->some_elsewhere)
		moe_begin_experts(&cpus, layer, k->normed_out,
				  cuda_finds_in_place(s) ? k->found_here : NULL);
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

/* The CPU's next experts come when the GPU has reached the next layer's choice, some 60 µs later for one row. */
enum { CUDA_AWAKE_NS = 500000 };

void cuda_end_experts(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	if (!cuda_runs(s, layer, PART_FEED_FORWARD)) {
		cuda_run_on_cpu(s, layer, cpu_backend.end_experts);
		cuda_run_on_cpu(s, layer, cpu_backend.finish);
		return;
	}
	if (k->some_elsewhere) {
		threads_stay_awake(s->env->threads, CUDA_AWAKE_NS);
		if (!cuda_finds_in_place(s))
			cuda_give_found(s, layer);
	}
	const struct cuda_choice_at sent = cuda_choice_sent(k, s->n);
	cuda_leave_experts(s, layer, sent.chosen, sent.weight, true);
}

/* ---- all of them on the GPU ---- */

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
	cuda_choose_rows(s, layer, &left, most, false);
	cuda_run_experts(s, layer, left.chosen, most, true);
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

/* ---- who chooses where some are elsewhere ---- */

/* The GPU chooses, and goes on with the experts that it holds, while main memory gets the choice and the
 * experts' input. Where later layers' experts are guessed next, which waits for the GPU, its experts come after
 * that, and run beside the CPU's. False: something has failed. */
static bool cuda_choose_and_begin(struct step *s, uint32_t layer)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_choice_at sent = cuda_choice_sent(k, s->n);
	const uint32_t most = cuda_expert_tokens(s, layer);
	cuda_choose_rows(s, layer, &sent, most, true);
	k->progress = s->n <= PREDICT_MOST && pager_predicts(s->env->experts) ? CHOSEN_BY_GPU
										 : EXPERTS_BEGUN;
	if (k->progress == EXPERTS_BEGUN)
		cuda_run_experts(s, layer, sent.chosen, most, false);
	return cuda_receive_choice(s, layer);
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
	cuda_scratch_of(s)->progress = CHOSEN_BY_CPU;
	if (!cuda_find_choice(s, layer)) /* nothing is computed any more */
		memset(s->routing->kept, 0, s->n * sizeof *s->routing->kept);
}
