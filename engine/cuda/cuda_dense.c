/* Feed-forwards of dense layers, and what all feed-forwards have in common: down · (gate ⊙ up) by the family's gated
 * linear unit (Shazeer 2020), or down · f(up) in families without gates. See cuda_arrays.h. */
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

uint32_t cuda_gate_and_up(const struct config *c, enum tensor_role gate, enum tensor_role up,
			  const struct cuda_input *hidden, uint32_t n, struct cuda_projection *to)
{
	if (!config_gated(c)) {
		to[0] = (struct cuda_projection){up, hidden->f};
		return 1;
	}
	to[0] = (struct cuda_projection){gate, hidden->f};
	to[1] = (struct cuda_projection){up, cuda_up_of(hidden, n)};
	return 2;
}

/* gate = the family's function of gate and up. */
static void cuda_activate(const struct cuda_scratch *k, const struct cuda_input *hidden, uint32_t n)
{
	static const enum cuda_glu kinds[GLUS] = {[GLU_GELU] = CUDA_GELU,
						  [GLU_NONE] = CUDA_RELU_SQUARED,
						  [GLU_CLAMPED] = CUDA_CLAMPED,
						  [GLU_LIMITED] = CUDA_LIMITED};
	const struct config *c = k->model->config;
	size_t count = (size_t)n * hidden->k;
	float *gate = cuda_at(hidden->f),
	      *up = config_gated(c) ? cuda_at(cuda_up_of(hidden, n)) : NULL;
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
		cuda_do(k->model, cuda_gate_kernel(&inputs), &both, &inputs);
		return;
	}
	cuda_activate(k, hidden, n);
	cuda_prepare_input(k->model, hidden, n, format);
}

/* ---- dense layers ---- */

void cuda_run_dense(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct matrix *up = &s->env->weights->layer[layer].m[TENSOR_UP];
	const struct cuda_input hidden = cuda_hidden_of(k, up->shape.rows);
	struct cuda_projection products[2];
	uint32_t count = cuda_gate_and_up(s->env->config, TENSOR_GATE, TENSOR_UP, &hidden, s->n,
					  products);
	const enum format now = cuda_format_of(s, layer, products[0].role);
	cuda_enter_part(s, layer, TENSOR_FEED_FORWARD_NORM, &k->normed, now);
	(void)cuda_multiply_all(k->model, layer, products, count, &k->normed, s->n, now);
	cuda_gate(k, &hidden, s->n, cuda_format_of(s, layer, TENSOR_DOWN));
	cuda_multiply(k->model, layer, TENSOR_DOWN, &hidden, s->n, k->out);
	cuda_leave_rows(s, layer, PART_FEED_FORWARD);
}

void cuda_feed(struct step *s, uint32_t layer)
{
	if (cuda_stream_of(s)->ahead)
		return;
	if (cuda_runs(s, layer, PART_FEED_FORWARD)) {
		cuda_run_dense(s, layer);
		return;
	}
	cuda_run_on_cpu(s, layer, cpu_backend.feed);
	cuda_run_on_cpu(s, layer, cpu_backend.finish); /* else cuda_leave_rows ends the layer */
}
