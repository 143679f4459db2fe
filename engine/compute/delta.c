#include "engine/compute/delta.h"
#include "engine/compute/delta_state.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

static const float length_eps = 1e-6F; /* of the squared length of queries and keys */

_Static_assert((int)DELTA_BEHIND >= (int)ANSWER_ROWS - 1, "a state may be behind by a draft");

static size_t head_floats(const struct config *c)
{
	return (size_t)c->delta_net.key_dim * c->delta_net.value_dim;
}

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

struct mix {
	const struct delta_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	uint32_t state; /* of the layer (config.h) */
};

/* A layer's state in a context (delta_state.h). */
struct state {
	float *matrices; /* [value_heads][key_dim][value_dim] */
	float *before;	 /* [width - 1][channels] */
	float *kept;	 /* [behind][row]: what is yet to be done */
	uint32_t behind;
};

static struct state state_of(const struct mix *m, const struct span *span)
{
	const struct config *c = m->step->env->config;
	float *at = span->context->recurrent.now + m->state * delta_layer_floats(c);
	float *before = at + delta_matrix_floats(c);
	return (struct state){
		.matrices = at,
		.before = before,
		.kept = before + (size_t)(c->delta_net.width - 1) * config_delta_channels(c),
		.behind = span->context->recurrent.behind,
	};
}

/* The input of the token `back` before a span's row t, which may be one of an earlier step. */
static const float *input_at(const struct mix *m, const struct span *span, const struct state *s,
			     uint32_t t, uint32_t back)
{
	const struct config *c = m->step->env->config;
	size_t channels = config_delta_channels(c);
	if (back <= t)
		return m->scratch->in + (size_t)(span->first + t - back) * channels;
	back -= t;
	if (back <= s->behind)
		return s->kept + (s->behind - back) * delta_row_floats(c);
	back -= s->behind;
	return s->before + (size_t)(c->delta_net.width - 1 - back) * channels;
}

/* Queries, keys and values of rows [begin, end), and their gates. */
static void mix_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct mix *m = ctx;
	const struct kernels *k = m->step->env->kernels;
	const struct config *c = m->step->env->config;
	const struct delta_net *net = &c->delta_net;
	const struct delta_scratch *d = m->scratch;
	uint32_t channels = config_delta_channels(c), keys = net->key_heads, dim = net->key_dim;
	float scale = (float)(1 / sqrt(dim));
	for (uint32_t r = begin; r < end; r++) {
		const struct span *span = step_span(m->step, r);
		struct state s = state_of(m, span);
		const float *taps[CONV_WIDTH];
		float *row = d->mixed + (size_t)r * channels;
		for (uint32_t i = 0; i < net->width; i++)
			taps[i] = input_at(m, span, &s, r - span->first, net->width - 1 - i);
		k->conv_silu(row, weights_vector(m->weights, TENSOR_DELTA_CONV), taps, net->width,
			     channels, 0, channels);
		for (uint32_t h = 0; h < 2 * keys; h++, row += dim) /* queries, then keys */
			k->l2norm(row, row, dim, length_eps, h < keys ? scale : 1);
		size_t gates = (size_t)r * net->value_heads;
		delta_gates(d->decay + gates, d->beta + gates, d->a + gates, d->b + gates,
			    weights_vector(m->weights, TENSOR_DELTA_A_LOG),
			    weights_vector(m->weights, TENSOR_DELTA_DT_BIAS), net->value_heads);
	}
}

/* Rows that follow each other: what their convolution gave, and their gates. */
struct mixed_rows {
	uint32_t n, commit; /* all, and those that the state moves on by */
	const float *mixed, *decay, *beta;
	size_t stride, gate_stride;
	float *out;
	size_t out_stride;
};

/* The key head that a value head shares with others: its neighbours, or those at a distance. */
static uint32_t key_head(const struct delta_net *net, uint32_t h)
{
	return net->tiled ? h % net->key_heads : h / (net->value_heads / net->key_heads);
}

/* A value head through rows. */
static void step_head(const struct mix *m, const struct state *s, const struct mixed_rows *r,
		      uint32_t h)
{
	const struct delta_net *net = &m->step->env->config->delta_net;
	size_t keys = (size_t)net->key_heads * net->key_dim;
	const float *q = r->mixed + (size_t)key_head(net, h) * net->key_dim;
	struct delta steps = {
		.key_dim = net->key_dim,
		.value_dim = net->value_dim,
		.n = r->n,
		.commit = r->commit,
		.state = s->matrices + h * head_floats(m->step->env->config),
		.q = q,
		.k = q + keys,
		.key_stride = r->stride,
		.v = r->mixed + 2 * keys + (size_t)h * net->value_dim,
		.value_stride = r->stride,
		.decay = r->decay + h,
		.beta = r->beta + h,
		.gate_stride = r->gate_stride,
		.out = r->out + (size_t)h * net->value_dim,
		.out_stride = r->out_stride,
	};
	m->step->env->kernels->delta_steps(&steps, 0, net->value_dim);
}

/* The rows that the state is behind, where they are kept. What they find was asked for when they
 * were new: each writes it where the step's first row will. */
static struct mixed_rows rows_behind(const struct mix *m, const struct state *s, float *out)
{
	const struct config *c = m->step->env->config;
	size_t channels = config_delta_channels(c), stride = delta_row_floats(c);
	const float *mixed = s->kept + channels, *decay = mixed + channels;
	return (struct mixed_rows){
		.n = s->behind,
		.commit = s->behind,
		.mixed = mixed,
		.decay = decay,
		.beta = decay + c->delta_net.value_heads,
		.stride = stride,
		.gate_stride = stride,
		.out = out,
	};
}

static struct mixed_rows rows_of(const struct mix *m, const struct span *span)
{
	const struct delta_net *net = &m->step->env->config->delta_net;
	size_t channels = config_delta_channels(m->step->env->config), heads = net->value_heads;
	return (struct mixed_rows){
		.n = span->n,
		.commit = span->certain,
		.mixed = m->scratch->mixed + span->first * channels,
		.decay = m->scratch->decay + span->first * heads,
		.beta = m->scratch->beta + span->first * heads,
		.stride = channels,
		.gate_stride = heads,
		.out = m->scratch->out + span->first * heads * net->value_dim,
		.out_stride = heads * net->value_dim,
	};
}

/* Items are (span, value head). */
static void step_heads(void *ctx, uint32_t begin, uint32_t end)
{
	const struct mix *m = ctx;
	uint32_t heads = m->step->env->config->delta_net.value_heads;
	for (uint32_t i = begin; i < end; i++) {
		const struct span *span = &m->step->spans[i / heads];
		struct state s = state_of(m, span);
		struct mixed_rows rows = rows_of(m, span), behind = rows_behind(m, &s, rows.out);
		if (behind.n)
			step_head(m, &s, &behind, i % heads);
		step_head(m, &s, &rows, i % heads);
	}
}

/* What rows [begin, end) have found, normalised and gated: the output projection's input. */
static void gate_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct mix *m = ctx;
	const struct kernels *k = m->step->env->kernels;
	const struct config *c = m->step->env->config;
	const struct delta_scratch *d = m->scratch;
	uint32_t dim = c->delta_net.value_dim, heads = c->delta_net.value_heads;
	const float *norm = weights_vector(m->weights, TENSOR_DELTA_NORM);
	for (size_t i = (size_t)begin * heads; i < (size_t)end * heads; i++) {
		float *out = d->out + i * dim;
		k->rmsnorm(out, out, norm, dim, c->rms_eps);
		k->silu_mul(d->gated.f + i * dim, out, dim);
	}
}

/* The last inputs that the state has moved on by, of old and new ones together. */
static void keep_inputs(const struct mix *m, const struct span *span, const struct state *s)
{
	size_t channels = config_delta_channels(m->step->env->config);
	uint32_t kept = m->step->env->config->delta_net.width - 1;
	for (uint32_t i = 0; i < kept; i++) /* ascending: each is read before it is overwritten */
		memmove(s->before + i * channels,
			input_at(m, span, s, span->certain - 1, kept - 1 - i),
			channels * sizeof *s->before);
}

/* Rows that were drafted are yet to be done. Those before them have been. */
static void keep_rows(const struct mix *m, const struct span *span, const struct state *s)
{
	const struct delta_scratch *d = m->scratch;
	size_t channels = config_delta_channels(m->step->env->config),
	       heads = m->step->env->config->delta_net.value_heads;
	float *at = s->kept;
	for (size_t row = span->first + span->certain; row < span->first + span->n; row++) {
		const float *parts[] = {d->in + row * channels, d->mixed + row * channels,
					d->decay + row * heads, d->beta + row * heads};
		const size_t width[] = {channels, channels, heads, heads};
		for (int i = 0; i < 4; at += width[i++])
			memcpy(at, parts[i], width[i] * sizeof *at);
	}
}

void delta_run(struct delta_scratch *d, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct product in[] = {{d->in, &l->m[TENSOR_DELTA_QKV]},
				     {d->gated.f, &l->m[TENSOR_DELTA_Z]},
				     {d->a, &l->m[TENSOR_DELTA_A]},
				     {d->b, &l->m[TENSOR_DELTA_B]}};
	product_run(env, in, 4, s->normed, s->n);

	struct mix m = {d, s, l, c->layer[layer].state};
	threads_run(env->threads, s->n, 1, mix_rows, &m);
	threads_run(env->threads, s->span_count * c->delta_net.value_heads, 1, step_heads, &m);
	for (const struct span *span = s->spans; span < s->spans + s->span_count; span++) {
		struct state state = state_of(&m, span);
		keep_inputs(&m, span, &state);
		keep_rows(&m, span, &state);
	}
	threads_run(env->threads, s->n, 1, gate_rows, &m);
	activation_changed(&d->gated);

	product_run(env, &(struct product){s->out, &l->m[TENSOR_DELTA_OUT]}, 1, &d->gated, s->n);
}
