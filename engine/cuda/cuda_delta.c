/* Gated delta nets on the GPU (engine/cpu/delta.c has the mathematics). The states lie in the copies of their
 * contexts (cuda_context.c). See cuda_arrays.h. */
#include "engine/cuda/cuda_arrays.h"

#include <math.h>

/* What the kernels of a layer read and write. */
static struct cuda_delta cuda_delta_of(const struct step *s, uint32_t layer)
{
	const struct cuda_stream *x = cuda_stream_of(s);
	const struct cuda_model *m = x->model;
	const struct cuda_delta_arrays *d = &cuda_scratch_of(s)->delta;
	const struct delta_net *net = &m->config->delta_net;
	struct cuda_delta p = {.rows = cuda_at(x->in),
			       .contexts = cuda_at(x->in + cuda_states_at(x->n)),
			       .at = recurrent_layer_at(m->config, layer),
			       .n = s->n,
			       .most = x->contexts,
			       .key_heads = net->key_heads,
			       .value_heads = net->value_heads,
			       .key_dim = net->key_dim,
			       .value_dim = net->value_dim,
			       .width = net->width,
			       .tiled = net->tiled,
			       .query_scale = (float)(1 / sqrt(net->key_dim)),
			       .length_eps = DELTA_LENGTH_EPS,
			       .eps = m->config->rms_eps,
			       .conv = cuda_at(cuda_weight(m, layer, TENSOR_DELTA_CONV)),
			       .a_log = cuda_at(cuda_weight(m, layer, TENSOR_DELTA_A_LOG)),
			       .dt_bias = cuda_at(cuda_weight(m, layer, TENSOR_DELTA_DT_BIAS)),
			       .norm = cuda_at(cuda_weight(m, layer, TENSOR_DELTA_NORM)),
			       .in = cuda_at(d->in),
			       .gate = cuda_at(d->gate),
			       .a = cuda_at(d->a),
			       .b = cuda_at(d->b),
			       .mixed = cuda_at(d->mixed),
			       .decay = cuda_at(d->decay),
			       .beta = cuda_at(d->beta),
			       .out = cuda_at(d->out),
			       .y = cuda_at(d->gated.f),
			       .q = cuda_at(d->gated.q),
			       .scale = cuda_at(d->gated.scale)};
	p.counts = cuda_delta_is_short(&p) ? cuda_at(d->counts) : NULL;
	cuda_fill_signs(&p.signs);
	return p;
}

/* gated, in 8 bits = the heads' outputs. */
static void cuda_run_heads(struct step *s, uint32_t layer, enum format format)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	struct cuda_delta p = cuda_delta_of(s, layer);
	bool at_once = format_input(format) == INPUT_TQ && p.value_dim == TQ_GROUP;
	const struct cuda_grid mix = cuda_delta_mix_grid(&p), steps = cuda_delta_steps_grid(&p),
			       outputs = cuda_delta_outputs_grid(&p);
	if (at_once)
		p.y = NULL;
	cuda_do(k->model, cuda_delta_mix_number, &mix, &p);
	cuda_do(k->model, cuda_delta_steps_kernel(&p), &steps, &p);
	if (!p.counts)
		cuda_do(k->model, cuda_delta_outputs_number, &outputs, &p);
	if (!at_once)
		cuda_prepare_input(k->model, &k->delta.gated, s->n, format);
}

void cuda_run_delta(struct step *s, uint32_t layer)
{
	const struct cuda_scratch *k = cuda_scratch_of(s);
	const struct cuda_delta_arrays *d = &k->delta;
	const struct cuda_projection products[] = {{TENSOR_DELTA_QKV, d->in},
						   {TENSOR_DELTA_Z, d->gate},
						   {TENSOR_DELTA_A, d->a},
						   {TENSOR_DELTA_B, d->b}};
	enum { PRODUCTS = sizeof products / sizeof *products };
	const enum format now = cuda_format_of(s, layer, TENSOR_DELTA_QKV);
	cuda_enter_part(s, layer, TENSOR_MIXER_NORM, &k->normed, now);
	(void)cuda_multiply_all(k->model, layer, products, PRODUCTS, &k->normed, s->n, now);
	cuda_run_heads(s, layer, cuda_format_of(s, layer, TENSOR_DELTA_OUT));
	cuda_multiply(k->model, layer, TENSOR_DELTA_OUT, &d->gated, s->n, k->out);
	cuda_leave_rows(s, layer, PART_MIXER);
}
