/* Feed-forwards that every row passes: the one of a dense layer, and the shared expert of a layer with routed
 * ones; both down · (gate ⊙ up) by the family's gated linear unit (Shazeer 2020). See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"
#include "engine/cpu/cpu.h"

/* ---- for all feed-forwards ---- */

struct cuda_input cuda_hidden_of(const struct cuda_scratch *k, uint32_t width)
{
	struct cuda_input hidden = k->hidden;
	hidden.k = width;
	return hidden;
}

gpu_address cuda_up_of(const struct cuda_input *hidden, size_t n)
{
	return hidden->f + n * hidden->k * sizeof(float);
}

/* gate = the family's function of gate and up. */
static void cuda_activate(const struct cuda_scratch *k, const struct cuda_input *hidden, uint32_t n)
{
	static const enum cuda_glu kinds[GLUS] = {[GLU_GELU] = CUDA_GELU,
						  [GLU_CLAMPED] = CUDA_CLAMPED,
						  [GLU_LIMITED] = CUDA_LIMITED};
	const struct config *c = k->model->config;
	size_t count = (size_t)n * hidden->k;
	float *gate = cuda_at(hidden->f), *up = cuda_at(cuda_up_of(hidden, n));
	const struct cuda_vectors silu = {gate, up, count};
	const struct cuda_activation other = {gate, up, count, kinds[c->glu], c->glu_alpha,
					      c->glu_limit};
	const struct cuda_grid g = cuda_items_grid(count);
	if (c->glu == GLU_SILU)
		cuda_do(k->model, cuda_silu_mul_number, &g, &silu);
	else
		cuda_do(k->model, cuda_activate_number, &g, &other);
}

void cuda_gate(const struct cuda_scratch *k, const struct cuda_input *hidden, uint32_t n,
	       enum format format)
{
	struct cuda_gate_inputs inputs = {.gate = cuda_at(hidden->f),
					  .up = cuda_at(cuda_up_of(hidden, n)),
					  .q = cuda_at(hidden->q),
					  .scale = cuda_at(hidden->scale),
					  .sum = format_input(format) == INPUT_BLOCKS
							 ? cuda_at(hidden->sum)
							 : NULL,
					  .k = hidden->k,
					  .n = n};
	cuda_fill_signs(&inputs.signs);
	const struct cuda_grid both = cuda_gate_inputs_grid(&inputs);
	if (k->model->config->glu == GLU_SILU && !format_is_float(format)) {
		cuda_do(k->model, cuda_gate_inputs_number, &both, &inputs);
		return;
	}
	cuda_activate(k, hidden, n);
	cuda_prepare_input(k->model, hidden, n, format);
}

/* ---- shared experts ---- */

enum format cuda_run_shared(struct step *s, uint32_t layer, enum format now)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct config *c = s->env->config;
	const struct cuda_input hidden = cuda_hidden_of(k, c->shared_size);
	const struct cuda_projection products[] = {{TENSOR_SHARED_GATE, hidden.f},
						   {TENSOR_SHARED_UP, cuda_up_of(&hidden, s->n)},
						   {TENSOR_SHARED_SCALE, k->shared_gate}};
	now = cuda_multiply_all(k->model, layer, products, c->shared_gate ? 3 : 2, &k->normed, s->n,
				now);
	cuda_gate(k, &hidden, s->n, cuda_format_of(s, layer, TENSOR_SHARED_DOWN));
	cuda_multiply(k->model, layer, TENSOR_SHARED_DOWN, &hidden, s->n, k->shared);
	return now;
}

/* ---- dense layers ---- */

void cuda_run_dense(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct matrix *up = &s->env->weights->layer[layer].m[TENSOR_UP];
	const struct cuda_input hidden = cuda_hidden_of(k, up->shape.rows);
	const struct cuda_projection products[] = {{TENSOR_GATE, hidden.f},
						   {TENSOR_UP, cuda_up_of(&hidden, s->n)}};
	const enum format now = cuda_format_of(s, layer, TENSOR_GATE);
	cuda_enter_part(s, layer, TENSOR_FEED_FORWARD_NORM, &k->normed, now);
	(void)cuda_multiply_all(k->model, layer, products, 2, &k->normed, s->n, now);
	cuda_gate(k, &hidden, s->n, cuda_format_of(s, layer, TENSOR_DOWN));
	cuda_multiply(k->model, layer, TENSOR_DOWN, &hidden, s->n, k->out);
	cuda_leave_rows(s, layer, PART_FEED_FORWARD);
}

void cuda_feed(struct step *s, uint32_t layer)
{
	if (cuda_stream_of(s)->ahead)
		return;
	if (cuda_runs(s, layer, PART_FEED_FORWARD))
		cuda_run_dense(s, layer);
	else
		cuda_run_on_cpu(s, layer, cpu_backend.feed);
}
