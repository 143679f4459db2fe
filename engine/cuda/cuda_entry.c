/* Adding a part's output to the stream. The sum waits for the next part, whose norm reads what it gives.
 * And the stream's rows between the GPU and the CPU's stream. See cuda_arrays.h.
 *
 * Outputs lie in the scratch, which passes share: before another pass writes there, the stream that they
 * belong to gets them (cuda_flush). */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

/* The sums of experts, of those that are noted. */
static struct cuda_sums cuda_sums_of(const struct cuda_scratch *k, const struct cuda_pending *p, gpu_address y)
{
	const struct cuda_model *m = k->model;
	return (struct cuda_sums){.y = cuda_at(y),
				  .x = cuda_at(k->found),
				  .other = k->found_here,
				  .weight = cuda_at(p->weight),
				  .chosen = cuda_at(p->chosen),
				  .slots = cuda_at(cuda_experts_slots(m, p->routed)),
				  .rows = p->n,
				  .top_k = k->top_k,
				  .width = config_expert_width(m->config),
				  .experts = m->config->experts};
}

/* The sums of pending experts; x NULL: there are none. */
static struct cuda_sums cuda_pending_sums(const struct cuda_scratch *k)
{
	const struct cuda_pending *p = &k->pending;
	const struct config *c = k->model->config;
	struct cuda_sums sums = {0};
	if (p->kind != PENDING_EXPERTS)
		return sums;
	sums = cuda_sums_of(k, p, p->of->x);
	sums.shared = p->shared ? cuda_at(k->shared) : NULL;
	sums.gate = c->shared_gate ? cuda_at(k->shared_gate) : NULL;
	sums.add = 1;
	sums.factor = c->residual_multiplier;
	return sums;
}

void cuda_flush(struct cuda_scratch *k)
{
	const struct cuda_sums sums = cuda_pending_sums(k);
	size_t count = (size_t)k->pending.n * k->model->config->hidden_size;
	const struct cuda_grid g = cuda_items_grid(count);
	if (k->pending.kind == PENDING_ROWS)
		cuda_add_rows(k->model, k->pending.of->x, k->out, count,
			      k->model->config->residual_multiplier);
	else if (k->pending.kind == PENDING_EXPERTS)
		cuda_do(k->model, cuda_sum_experts_number, &g, &sums);
	k->pending.kind = PENDING_NONE;
}

/* ---- rows on both sides ---- */

static size_t cuda_rows_bytes(const struct step *s)
{
	return (size_t)s->n * s->env->config->hidden_size * sizeof(float);
}

void cuda_rows_to_gpu(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	if (x->on_gpu)
		return;
	x->x = x->rows_at;
	cuda_copy_in(x->model, x->x, cpu_stream_rows(x->cpus), cuda_rows_bytes(s));
	x->on_gpu = true;
}

bool cuda_rows_to_cpu(struct step *s)
{
	struct cuda_stream *x = cuda_stream_of(s);
	if (x->in_cpus)
		return !x->model->failure.code;
	cuda_flush(cuda_scratch_of(s));
	cuda_copy_out(x->model, cpu_stream_rows(x->cpus), x->x, cuda_rows_bytes(s));
	x->in_cpus = cuda_wait(x->model);
	return x->in_cpus;
}

/* ---- parts ---- */

/* The layer ends: its stream is multiplied by a number. */
static void cuda_scale_rows(struct step *s, uint32_t layer)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_vectors p = {cuda_at(cuda_stream_of(s)->x),
				       cuda_at(cuda_weight(k->model, layer, TENSOR_LAYER_SCALE)),
				       (size_t)s->n * s->env->config->hidden_size};
	const struct cuda_grid g = cuda_items_grid(p.n);
	cuda_flush(k);
	cuda_do(k->model, cuda_scale_number, &g, &p);
}

void cuda_leave_rows(struct step *s, uint32_t layer, enum layer_part part)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	enum tensor_role norm = part == PART_MIXER ? TENSOR_MIXER_POST_NORM
						   : TENSOR_FEED_FORWARD_POST_NORM;
	if (s->env->config->post_norms)
		cuda_norm(k->model, k->out, k->out, cuda_weight(k->model, layer, norm), s->n,
			  s->env->config->hidden_size);
	cuda_stream_of(s)->in_cpus = false;
	cuda_scratch_of(s)->pending =
		(struct cuda_pending){.kind = PENDING_ROWS, .of = cuda_stream_of(s), .n = s->n};
	if (part == PART_FEED_FORWARD && s->env->config->layer_scale)
		cuda_scale_rows(s, layer);
}

/* out = the sums of experts, projected back where they worked on a projection: nobody reads `normed` any more,
 * so it has what is projected. */
static void cuda_sum_to_out(const struct step *s, uint32_t layer, const struct cuda_pending *p)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const uint32_t latent = s->env->config->expert_latent;
	struct cuda_input summed = k->normed;
	const struct cuda_sums sums = cuda_sums_of(k, p, latent ? summed.f : k->out);
	const struct cuda_grid g = cuda_items_grid((size_t)p->n * sums.width);
	cuda_do(k->model, cuda_sum_experts_number, &g, &sums);
	if (!latent)
		return;
	summed.k = latent;
	cuda_prepare_input(k->model, &summed, p->n, cuda_format_of(s, layer, TENSOR_EXPERTS_OUT));
	cuda_multiply(k->model, layer, TENSOR_EXPERTS_OUT, &summed, p->n, k->out);
}

/* The experts' sum does not wait, since something else is computed of it first. */
static void cuda_leave_sums(struct step *s, uint32_t layer, const struct cuda_pending *p)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	cuda_sum_to_out(s, layer, p);
	if (c->feed_forwards_apart)
		cuda_norm(k->model, k->out, k->out, cuda_weight(k->model, layer, TENSOR_EXPERTS_POST_NORM),
			  p->n, c->hidden_size);
	if (p->shared)
		cuda_add_rows(k->model, k->out, k->shared, (size_t)p->n * c->hidden_size, 1);
	cuda_leave_rows(s, layer, PART_FEED_FORWARD);
}

void cuda_leave_experts(struct step *s, uint32_t layer, gpu_address chosen, gpu_address weight,
			bool apart)
{
	const struct config *c = s->env->config;
	const struct cuda_pending experts = {.kind = PENDING_EXPERTS,
					     .of = cuda_stream_of(s),
					     .n = s->n,
					     .apart = apart,
					     .shared = c->layer[layer].shared,
					     .routed = s->env->plan->routed_of[layer],
					     .chosen = chosen,
					     .weight = weight};
	if (c->expert_latent || c->post_norms || c->feed_forwards_apart) {
		cuda_leave_sums(s, layer, &experts);
		return;
	}
	cuda_stream_of(s)->in_cpus = false;
	cuda_scratch_of(s)->pending = experts;
}

/* Where the stream goes when something is added to it: of few rows to the other place, since blocks of threads that
 * share a row still read it. */
static gpu_address cuda_next_rows(const struct cuda_stream *x, uint32_t n)
{
	if (n > CUDA_NORM_FEW)
		return x->x;
	return x->x == x->few_at ? x->rows_at : x->few_at;
}

/* The sum, the norm and its codes in one launch. Pending experts are all on the GPU and in ascending order,
 * and nothing is multiplied. */
static void cuda_enter_norm(struct step *s, const struct cuda_input *to, gpu_address weight,
			    enum input_form form)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_sums sums = cuda_pending_sums(k);
	struct cuda_norm_inputs p = {
		.x = cuda_at(x->x),
		.to = cuda_at(cuda_next_rows(x, s->n)),
		.added = k->pending.kind == PENDING_ROWS ? cuda_at(k->out) : NULL,
		.experts = {.outputs = sums.x,
			    .weight = sums.weight,
			    .shared = sums.shared,
			    .gate = sums.gate,
			    .top_k = sums.top_k},
		.w = cuda_at(weight),
		.y = cuda_at(to->f),
		.q = form == INPUT_FLOATS ? NULL : cuda_at(to->q),
		.scale = cuda_at(to->scale),
		.sum = form == INPUT_BLOCKS ? cuda_at(to->sum) : NULL,
		.rows = s->n,
		.n = to->k,
		.eps = s->env->config->rms_eps};
	cuda_fill_signs(&p.signs);
	const struct cuda_grid g = cuda_norm_inputs_grid(&p);
	cuda_do(k->model, cuda_norm_kernel(&p), &g, &p);
	x->x = cuda_next_rows(x, s->n);
}

void cuda_enter_part(struct step *s, uint32_t layer, enum tensor_role norm,
		     const struct cuda_input *to, enum format format)
{
	struct cuda_scratch *k = cuda_scratch_of(s);
	cuda_rows_to_gpu(s);
	if (k->pending.apart || s->env->config->residual_multiplier != 1 ||
	    k->pending.of != cuda_stream_of(s) || k->pending.n != s->n)
		cuda_flush(k);
	cuda_enter_norm(s, to, cuda_weight(k->model, layer, norm), format_input(format));
	k->pending.kind = PENDING_NONE;
}
