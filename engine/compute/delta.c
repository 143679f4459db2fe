#include "engine/compute/delta.h"
#include "engine/compute/delta_state.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

static const float length_eps = 1e-6F; /* of the squared length of queries and keys */

static size_t head_floats(const struct config *c)
{
	return (size_t)c->delta_net.key_dim * c->delta_net.value_dim;
}

void delta_take(struct delta_scratch *d, struct arena *arena, const struct config *c, size_t n)
{
	size_t rows = n + DELTA_BEHIND, heads = c->delta_net.value_heads,
	       values = heads * c->delta_net.value_dim;
	d->in = arena_take(arena, rows * config_delta_channels(c), sizeof *d->in);
	d->mixed = arena_take(arena, rows * config_delta_channels(c), sizeof *d->mixed);
	d->a = arena_take(arena, n * heads, sizeof *d->a);
	d->b = arena_take(arena, n * heads, sizeof *d->b);
	d->decay = arena_take(arena, rows * heads, sizeof *d->decay);
	d->beta = arena_take(arena, rows * heads, sizeof *d->beta);
	d->out = arena_take(arena, rows * values, sizeof *d->out);
	activation_take(arena, &d->gated, n, (uint32_t)values);
}

/* Rows of the scratch are the tokens that the state is behind, and then the step's; but of what is
 * projected for the gates, the step's alone. */
struct mix {
	const struct environment *env;
	const struct delta_scratch *scratch;
	const struct layer_weights *weights;
	float *matrices;    /* of the layer's state: [value_heads][key_dim][value_dim] */
	float *before;	    /* and [width - 1][channels] */
	float *kept;	    /* and rows that are yet to be done */
	uint32_t behind, n; /* rows that were behind, and all */
	uint32_t commit;    /* rows that the state moves on by; the others are kept */
};

/* The input of the row `back` before row t, which may be one of an earlier call. */
static const float *input_at(const struct mix *m, uint32_t t, uint32_t back)
{
	size_t channels = config_delta_channels(m->env->config);
	uint32_t width = m->env->config->delta_net.width;
	if (back <= t)
		return m->scratch->in + (t - back) * channels;
	return m->before + (width - 1 - (back - t)) * channels;
}

/* Queries, keys and values of the step's tokens [begin, end), and their gates. */
static void mix_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct mix *m = ctx;
	const struct kernels *k = m->env->kernels;
	const struct config *c = m->env->config;
	const struct delta_net *net = &c->delta_net;
	const struct delta_scratch *d = m->scratch;
	uint32_t channels = config_delta_channels(c), keys = net->key_heads, dim = net->key_dim;
	float scale = (float)(1 / sqrt(dim));
	for (uint32_t t = m->behind + begin; t < m->behind + end; t++) {
		const float *taps[CONV_WIDTH];
		float *row = d->mixed + (size_t)t * channels;
		for (uint32_t i = 0; i < net->width; i++)
			taps[i] = input_at(m, t, net->width - 1 - i);
		k->conv_silu(row, weights_vector(m->weights, TENSOR_DELTA_CONV), taps, net->width,
			     channels, 0, channels);
		for (uint32_t h = 0; h < 2 * keys; h++, row += dim) /* queries, then keys */
			k->l2norm(row, row, dim, length_eps, h < keys ? scale : 1);
		size_t gates = (size_t)t * net->value_heads,
		       own = gates - (size_t)m->behind * net->value_heads;
		delta_gates(d->decay + gates, d->beta + gates, d->a + own, d->b + own,
			    weights_vector(m->weights, TENSOR_DELTA_A_LOG),
			    weights_vector(m->weights, TENSOR_DELTA_DT_BIAS), net->value_heads);
	}
}

/* Value heads [begin, end), for all rows. Neighbours share a key head. */
static void step_heads(void *ctx, uint32_t begin, uint32_t end)
{
	const struct mix *m = ctx;
	const struct config *c = m->env->config;
	const struct delta_net *net = &c->delta_net;
	const struct delta_scratch *d = m->scratch;
	uint32_t channels = config_delta_channels(c), shared = net->value_heads / net->key_heads;
	for (uint32_t h = begin; h < end; h++) {
		const float *q = d->mixed + (size_t)(h / shared) * net->key_dim;
		struct delta steps = {
			.key_dim = net->key_dim,
			.value_dim = net->value_dim,
			.n = m->n,
			.commit = m->commit,
			.state = m->matrices + h * head_floats(c),
			.q = q,
			.k = q + (size_t)net->key_heads * net->key_dim,
			.key_stride = channels,
			.v = d->mixed + (size_t)2 * net->key_heads * net->key_dim +
			     (size_t)h * net->value_dim,
			.value_stride = channels,
			.decay = d->decay + h,
			.beta = d->beta + h,
			.gate_stride = net->value_heads,
			.out = d->out + (size_t)h * net->value_dim,
			.out_stride = (size_t)net->value_heads * net->value_dim,
		};
		m->env->kernels->delta_steps(&steps, 0, net->value_dim);
	}
}

/* What tokens [begin, end) have found, normalised and gated: the output projection's input. */
static void gate_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct mix *m = ctx;
	const struct kernels *k = m->env->kernels;
	const struct config *c = m->env->config;
	const struct delta_scratch *d = m->scratch;
	uint32_t dim = c->delta_net.value_dim, heads = c->delta_net.value_heads;
	const float *norm = weights_vector(m->weights, TENSOR_DELTA_NORM);
	for (size_t i = (size_t)begin * heads; i < (size_t)end * heads; i++) {
		float *out = d->out + ((size_t)m->behind * heads + i) * dim;
		k->rmsnorm(out, out, norm, dim, c->rms_eps);
		k->silu_mul(d->gated.f + i * dim, out, dim);
	}
}

/* The last inputs that the state has moved on by, of old and new ones together. */
static void keep_inputs(const struct mix *m)
{
	size_t channels = config_delta_channels(m->env->config);
	uint32_t kept = m->env->config->delta_net.width - 1;
	for (uint32_t i = 0; i < kept; i++) /* ascending: each is read before it is overwritten */
		memmove(m->before + i * channels, input_at(m, m->commit - 1, kept - 1 - i),
			channels * sizeof *m->before);
}

/* The four arrays of a row's remains, in the scratch. */
static void row_parts(const struct mix *m, uint32_t row, float *part[4])
{
	const struct delta_scratch *d = m->scratch;
	size_t channels = config_delta_channels(m->env->config),
	       heads = m->env->config->delta_net.value_heads;
	part[0] = d->in + row * channels;
	part[1] = d->mixed + row * channels;
	part[2] = d->decay + row * heads;
	part[3] = d->beta + row * heads;
}

/* Rows that are behind come before the step's; rows that are not to be done yet are kept. */
static void move_rows(const struct mix *m, uint32_t first, uint32_t count, bool keep)
{
	size_t channels = config_delta_channels(m->env->config),
	       heads = m->env->config->delta_net.value_heads;
	const size_t width[4] = {channels, channels, heads, heads};
	float *at = m->kept;
	for (uint32_t row = first; row < first + count; row++) {
		float *part[4];
		row_parts(m, row, part);
		for (int i = 0; i < 4; at += width[i++])
			memcpy(keep ? at : part[i], keep ? part[i] : at, width[i] * sizeof *at);
	}
}

void delta_run(struct delta_scratch *d, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[layer];
	size_t channels = config_delta_channels(c);
	uint32_t behind = s->context->recurrent.behind;
	const struct product in[] = {{d->in + behind * channels, &l->m[TENSOR_DELTA_QKV]},
				     {d->gated.f, &l->m[TENSOR_DELTA_Z]},
				     {d->a, &l->m[TENSOR_DELTA_A]},
				     {d->b, &l->m[TENSOR_DELTA_B]}};
	product_run(env, in, 4, s->normed, s->n);

	float *state = s->context->recurrent.now + c->layer[layer].state * delta_layer_floats(c);
	float *before = state + delta_matrix_floats(c);
	struct mix m = {
		.env = env,
		.scratch = d,
		.weights = l,
		.matrices = state,
		.before = before,
		.kept = before + (c->delta_net.width - 1) * channels,
		.behind = behind,
		.n = behind + s->n,
		.commit = behind + delta_commits(s),
	};
	move_rows(&m, 0, behind, false);
	threads_run(env->threads, s->n, 1, mix_tokens, &m);
	threads_run(env->threads, c->delta_net.value_heads, 1, step_heads, &m);
	keep_inputs(&m);
	move_rows(&m, m.commit, m.n - m.commit, true);
	threads_run(env->threads, s->n, 1, gate_tokens, &m);
	activation_changed(&d->gated);

	product_run(env, &(struct product){s->out, &l->m[TENSOR_DELTA_OUT]}, 1, &d->gated, s->n);
}

uint32_t delta_commits(const struct step *s)
{
	return s->kind == ROWS_ANSWER ? 1 : s->n;
}
