/* Kimi's delta attention (Kimi Team 2025, Kimi Linear): a gated delta net whose decay each row of the
 * state has for itself. See layers.h; recurrent.h has the state's layout.
 *
 * Three projections give queries, keys and values, which pass convolutions of their own and silu;
 * queries and keys are brought to length 1. Two products, one behind the other, give the decays,
 * two others the gate of the output. The state moves on as delta_steps says (kernels.h), by row.
 * The result is normalised head by head and multiplied by the sigmoid of its gate. */
#include "engine/cpu/layers.h"
#include "engine/cpu/recurrent_rows.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

static const float length_eps = 1e-6F; /* of the squared length of queries and keys */

void kimi_take(struct kimi_scratch *k, struct arena *arena, const struct config *c, size_t rows)
{
	const struct delta_net *n = &c->delta_net;
	size_t width = (size_t)n->key_heads * n->key_dim, heads = n->key_heads;
	for (int i = 0; i < 3; i++)
		k->projected[i] = arena_take(arena, rows * width, sizeof *k->projected[i]);
	k->in = arena_take(arena, rows * 3 * width, sizeof *k->in);
	k->mixed = arena_take(arena, rows * 3 * width, sizeof *k->mixed);
	activation_take(arena, &k->decay_low, rows, n->key_dim);
	activation_take(arena, &k->gate_low, rows, n->key_dim);
	k->decay = arena_take(arena, rows * width, sizeof *k->decay);
	k->b = arena_take(arena, rows * heads, sizeof *k->b);
	k->beta = arena_take(arena, rows * heads, sizeof *k->beta);
	k->gate = arena_take(arena, rows * width, sizeof *k->gate);
	activation_take(arena, &k->out, rows, (uint32_t)width);
}

/* Queries, keys and values of rows [begin, end) side by side: the convolutions' inputs. */
static void kimi_join_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct kimi_scratch *x = &rows->step->scratch->kimi;
	size_t width = rows->shape.channels / 3;
	for (size_t r = begin; r < end; r++)
		for (size_t i = 0; i < 3; i++)
			memcpy(x->in + (3 * r + i) * width,
			       x->projected[i] + r * width,
			       width * sizeof *x->in);
}

/* Queries, keys and values of a row after their convolutions. */
static void kimi_convolve_row(const struct recurrent_rows *rows, uint32_t r)
{
	const struct kimi_scratch *x = &rows->step->scratch->kimi;
	static const enum tensor_role roles[] = {TENSOR_KIMI_Q_CONV, TENSOR_KIMI_K_CONV,
						 TENSOR_KIMI_V_CONV};
	const struct kernels *k = rows->step->env->kernels;
	const struct delta_net *net = &rows->step->env->config->delta_net;
	uint32_t width = net->key_heads * net->key_dim, heads = net->key_heads, dim = net->key_dim;
	float *row = x->mixed + (size_t)r * 3 * width, scale = (float)(1 / sqrt(dim));
	const float *taps[CONV_WIDTH];
	recurrent_rows_taps(rows, r, taps);
	for (uint32_t i = 0; i < 3; i++) {
		k->conv_silu(row + (size_t)i * width, weights_vector(rows->weights, roles[i]), NULL,
			     taps, net->width, width, 0, width);
		for (uint32_t tap = 0; tap < net->width; tap++)
			taps[tap] += width;
	}
	for (uint32_t h = 0; h < 2 * heads; h++, row += dim) /* queries, then keys */
		k->l2norm(row, row, dim, length_eps, h < heads ? scale : 1);
}

/* The same of rows [begin, end), and their gates. */
static void kimi_mix_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct kimi_scratch *x = &rows->step->scratch->kimi;
	const struct kernels *k = rows->step->env->kernels;
	const struct delta_net *net = &rows->step->env->config->delta_net;
	uint32_t heads = net->key_heads, dim = net->key_dim;
	const float *a_log = weights_vector(rows->weights, TENSOR_KIMI_A_LOG),
		    *bias = weights_vector(rows->weights, TENSOR_KIMI_DT_BIAS);
	for (uint32_t r = begin; r < end; r++) {
		size_t gates = (size_t)r * heads;
		float *decay = x->decay + gates * dim;
		kimi_convolve_row(rows, r);
		for (size_t h = 0; h < heads; h++)
			if (net->lower < 0)
				delta_bounded_decay(decay + h * dim, decay + h * dim,
						    bias + h * dim, a_log[h], net->lower, dim);
			else
				k->delta_decay(decay + h * dim, decay + h * dim, bias + h * dim,
					       delta_decay_factor(a_log[h]), dim);
		delta_betas(x->beta + gates, x->b + gates, heads);
	}
}

/* Normalises and gates the outputs of rows [begin, end): the output projection's input. */
static void kimi_gate_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct kimi_scratch *x = &rows->step->scratch->kimi;
	const struct kernels *k = rows->step->env->kernels;
	const struct config *c = rows->step->env->config;
	uint32_t dim = c->delta_net.value_dim, heads = c->delta_net.value_heads;
	const float *norm = weights_vector(rows->weights, TENSOR_KIMI_NORM);
	for (size_t i = (size_t)begin * heads; i < (size_t)end * heads; i++) {
		float *out = x->out.f + i * dim;
		k->rmsnorm(out, out, norm, dim, c->rms_eps);
		k->sigmoid_mul(out, x->gate + i * dim, dim);
	}
}

/* All that is computed of a row alone. */
static void kimi_project(struct kimi_scratch *k, struct step *s, const struct layer_weights *l)
{
	const struct product in[] = {
		{k->projected[0], &l->m[TENSOR_KIMI_Q]},  {k->projected[1], &l->m[TENSOR_KIMI_K]},
		{k->projected[2], &l->m[TENSOR_KIMI_V]},  {k->b, &l->m[TENSOR_KIMI_B]},
		{k->decay_low.f, &l->m[TENSOR_KIMI_DECAY_LOW]},
		{k->gate_low.f, &l->m[TENSOR_KIMI_GATE_LOW]},
	};
	product_run(s->env, in, sizeof in / sizeof *in, &s->scratch->normed, s->n);
	activation_changed(&k->decay_low);
	activation_changed(&k->gate_low);
	product_run(s->env, &(struct product){k->decay, &l->m[TENSOR_KIMI_DECAY]}, 1,
		    &k->decay_low, s->n);
	product_run(s->env, &(struct product){k->gate, &l->m[TENSOR_KIMI_GATE]}, 1, &k->gate_low,
		    s->n);
}

void kimi_run(struct step *s, uint32_t layer)
{
	struct kimi_scratch *k = &s->scratch->kimi;
	const struct environment *env = s->env;
	const struct delta_net *net = &env->config->delta_net;
	const struct layer_weights *l = &env->weights->layer[layer];
	const float *const parts[RECURRENT_PARTS] = {k->in, k->mixed, k->decay, k->beta};
	struct recurrent_rows rows = recurrent_rows_of(s, layer, parts);
	uint32_t width = net->key_heads * net->key_dim;
	kimi_project(k, s, l);
	threads_run(env->threads, s->n, 1, kimi_join_rows, &rows);
	threads_run(env->threads, s->n, 1, kimi_mix_rows, &rows);
	recurrent_heads_run(&(struct recurrent_heads){
		.rows = &rows,
		.rule = DELTA_REPLACES_BY_ROW,
		.heads = net->value_heads,
		.key_heads = net->key_heads,
		.key_dim = net->key_dim,
		.value_dim = net->value_dim,
		.k = width,
		.v = 2 * width,
		.out = k->out.f,
	});
	recurrent_rows_keep(&rows);
	threads_run(env->threads, s->n, 1, kimi_gate_rows, &rows);
	activation_changed(&k->out);

	product_run(env, &(struct product){s->scratch->out, &l->m[TENSOR_KIMI_OUT]}, 1, &k->out,
		    s->n);
}
