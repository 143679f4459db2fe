/* The gated delta net (Yang, Kautz and Hatamizadeh 2024, as in Qwen3-Next): a mixer whose state
 * does not grow with the text. See layers.h; recurrent.h has the state's layout.
 *
 * One projection gives queries, keys and values, another the gate of the output, two small ones the
 * gates of the state. Queries, keys and values pass a short causal convolution and silu; queries
 * and keys are brought to length 1. Each value head then lets its state fade, corrects what the key
 * finds in the state, and asks the state with the query (kernels.h, delta_steps). The result is
 * normalised head by head and multiplied by silu, or the sigmoid, of its gate.
 *
 * tests/bench/spent.c puts a clock around delta_run (--wrap), which works only from other files:
 * its caller stays outside of this one. */
#include "engine/cpu/layers.h"
#include "engine/cpu/recurrent_rows.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

void delta_take(struct delta_scratch *d, struct arena *arena, const struct config *c, size_t rows)
{
	size_t channels = config_delta_channels(c), heads = c->delta_net.value_heads,
	       values = heads * c->delta_net.value_dim;
	d->in = arena_take(arena, rows * channels, sizeof *d->in);
	d->mixed = arena_take(arena, rows * channels, sizeof *d->mixed);
	d->a = arena_take(arena, rows * heads, sizeof *d->a);
	d->b = arena_take(arena, rows * heads, sizeof *d->b);
	d->decay = arena_take(arena, rows * heads, sizeof *d->decay);
	d->beta = arena_take(arena, rows * heads, sizeof *d->beta);
	d->out = arena_take(arena, rows * values, sizeof *d->out);
	activation_take(arena, &d->gated, rows, (uint32_t)values);
}

/* Queries, keys and values of rows [begin, end), and their gates. */
static void delta_mix_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct environment *env = rows->step->env;
	const struct kernels *k = env->kernels;
	const struct delta_net *net = &env->config->delta_net;
	const struct delta_scratch *d = &rows->step->scratch->delta;
	uint32_t channels = rows->shape.channels, keys = net->key_heads, dim = net->key_dim;
	float scale = (float)(1 / sqrt(dim));
	for (uint32_t r = begin; r < end; r++) {
		const float *taps[CONV_WIDTH];
		float *row = d->mixed + (size_t)r * channels;
		recurrent_rows_taps(rows, r, taps);
		k->conv_silu(row, weights_vector(rows->weights, TENSOR_DELTA_CONV), NULL, taps,
			     net->width, channels, 0, channels);
		for (uint32_t h = 0; h < 2 * keys; h++, row += dim) /* queries, then keys */
			k->l2norm(row, row, dim, DELTA_LENGTH_EPS, h < keys ? scale : 1);
		size_t gates = (size_t)r * net->value_heads;
		delta_gates(d->decay + gates, d->beta + gates, d->a + gates, d->b + gates,
			    weights_vector(rows->weights, TENSOR_DELTA_A_LOG),
			    weights_vector(rows->weights, TENSOR_DELTA_DT_BIAS), net->value_heads);
	}
}

/* Normalises and gates the outputs of rows [begin, end): the output projection's input. */
static void delta_gate_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct kernels *k = rows->step->env->kernels;
	const struct config *c = rows->step->env->config;
	const struct delta_scratch *d = &rows->step->scratch->delta;
	uint32_t dim = c->delta_net.value_dim, heads = c->delta_net.value_heads;
	const float *norm = weights_vector(rows->weights, TENSOR_DELTA_NORM);
	for (size_t i = (size_t)begin * heads; i < (size_t)end * heads; i++) {
		float *out = d->out + i * dim;
		k->rmsnorm(out, out, norm, dim, c->rms_eps);
		if (c->delta_net.sigmoid)
			k->sigmoid_mul(out, d->gated.f + i * dim, dim);
		else
			k->silu_mul(d->gated.f + i * dim, out, dim);
		if (c->delta_net.sigmoid)
			memcpy(d->gated.f + i * dim, out, dim * sizeof *out);
	}
}

void delta_run(struct step *s, uint32_t layer)
{
	struct delta_scratch *d = &s->scratch->delta;
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct product in[] = {{d->in, &l->m[TENSOR_DELTA_QKV]},
				     {d->gated.f, &l->m[TENSOR_DELTA_Z]},
				     {d->a, &l->m[TENSOR_DELTA_A]},
				     {d->b, &l->m[TENSOR_DELTA_B]}};
	product_run(env, in, 4, &s->scratch->normed, s->n);

	const struct delta_net *net = &c->delta_net;
	const float *const parts[RECURRENT_PARTS] = {d->in, d->mixed, d->decay, d->beta};
	struct recurrent_rows rows = recurrent_rows_of(s, layer, parts);
	uint32_t keys = net->key_heads * net->key_dim;
	threads_run(env->threads, s->n, 1, delta_mix_rows, &rows);
	recurrent_heads_run(&(struct recurrent_heads){
		.rows = &rows,
		.rule = DELTA_REPLACES,
		.heads = net->value_heads,
		.key_heads = net->key_heads,
		.key_dim = net->key_dim,
		.value_dim = net->value_dim,
		.tiled = net->tiled,
		.k = keys,
		.v = 2 * keys,
		.out = d->out,
	});
	recurrent_rows_keep(&rows);
	threads_run(env->threads, s->n, 1, delta_gate_rows, &rows);
	activation_changed(&d->gated);

	product_run(env, &(struct product){s->scratch->out, &l->m[TENSOR_DELTA_OUT]}, 1, &d->gated,
		    s->n);
}
