/* The gated delta net (Yang, Kautz and Hatamizadeh 2024, as in Qwen3-Next): a mixer whose state
 * does not grow with the text. See layers.h; recurrent.h has the state's layout.
 *
 * One projection gives queries, keys and values, another the gate of the output, two small ones the
 * gates of the state. Queries, keys and values pass a short causal convolution and silu; queries
 * and keys are brought to length 1. Each value head then lets its state fade, corrects what the key
 * finds in the state, and asks the state with the query (kernels.h, delta_steps). The result is
 * normalised head by head and multiplied by silu of its gate.
 *
 * Tokens are taken one by one in their order, so cutting a text into chunks changes nothing.
 * Threads share heads, which do not influence each other.
 *
 * tests/bench/spent.c puts a clock around delta_run (--wrap), which works only from other files:
 * its caller stays outside of this one. */
#include "engine/compute/layers.h"
#include "kernels/delta.h"

#include <math.h>
#include <string.h>

static const float length_eps = 1e-6F; /* of the squared length of queries and keys */

_Static_assert((int)RECURRENT_BEHIND >= (int)ANSWER_ROWS - 1, "a state may be behind by a draft");

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

struct delta_task {
	const struct delta_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	uint32_t state; /* the layer's, among a context's states (config.h) */
};

/* A layer's state in a context. */
struct delta_state {
	float *matrices; /* [value_heads][key_dim][value_dim] */
	float *before;	 /* [width - 1][channels]: the convolution's last inputs */
	float *kept;	 /* [behind][row]: rows that the state has yet to move on by */
	uint32_t behind;
};

static struct delta_state delta_state_of(const struct delta_task *m, const struct step_span *span)
{
	const struct config *c = m->step->env->config;
	float *at = span->context->recurrent.now + m->state * recurrent_layer_floats(c);
	float *before = at + recurrent_matrix_floats(c);
	return (struct delta_state){
		.matrices = at,
		.before = before,
		.kept = before + (size_t)(c->delta_net.width - 1) * config_delta_channels(c),
		.behind = span->context->recurrent.behind,
	};
}

/* ---- the convolution, and the gates ---- */

/* The input `back` tokens before a span's row t, which may be one of an earlier step. */
static const float *delta_input(const struct delta_task *m, const struct step_span *span,
				const struct delta_state *s, uint32_t t, uint32_t back)
{
	const struct config *c = m->step->env->config;
	size_t channels = config_delta_channels(c);
	if (back <= t)
		return m->scratch->in + (size_t)(span->first + t - back) * channels;
	back -= t;
	if (back <= s->behind)
		return s->kept + (s->behind - back) * recurrent_row_floats(c);
	back -= s->behind;
	return s->before + (size_t)(c->delta_net.width - 1 - back) * channels;
}

/* Queries, keys and values of rows [begin, end), and their gates. */
static void delta_mix_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct delta_task *m = ctx;
	const struct kernels *k = m->step->env->kernels;
	const struct config *c = m->step->env->config;
	const struct delta_net *net = &c->delta_net;
	const struct delta_scratch *d = m->scratch;
	uint32_t channels = config_delta_channels(c), keys = net->key_heads, dim = net->key_dim;
	float scale = (float)(1 / sqrt(dim));
	for (uint32_t r = begin; r < end; r++) {
		const struct step_span *span = step_span_of(m->step, r);
		struct delta_state s = delta_state_of(m, span);
		const float *taps[CONV_WIDTH];
		float *row = d->mixed + (size_t)r * channels;
		for (uint32_t i = 0; i < net->width; i++)
			taps[i] = delta_input(m, span, &s, r - span->first, net->width - 1 - i);
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

/* ---- the state ---- */

/* Adjacent rows after the convolution, with their gates. */
struct delta_rows {
	uint32_t n, commit; /* all rows, and the first of them, by which the state moves on */
	const float *mixed, *decay, *beta;
	size_t stride, gate_stride;
	float *out;
	size_t out_stride;
};

/* Moves a value head through rows. */
static void delta_step_head(const struct delta_task *m, const struct delta_state *s,
			    const struct delta_rows *r, uint32_t h)
{
	const struct delta_net *net = &m->step->env->config->delta_net;
	/* Value heads share key heads: with their neighbours, or with heads at a distance. */
	uint32_t key_head =
		net->tiled ? h % net->key_heads : h / (net->value_heads / net->key_heads);
	size_t keys = (size_t)net->key_heads * net->key_dim;
	const float *q = r->mixed + (size_t)key_head * net->key_dim;
	struct delta steps = {
		.key_dim = net->key_dim,
		.value_dim = net->value_dim,
		.n = r->n,
		.commit = r->commit,
		.state = s->matrices + (size_t)h * net->key_dim * net->value_dim,
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

/* The rows that the state is behind. Their outputs were used when they were new: all of them are
 * written where the step's first row writes its own afterwards. */
static struct delta_rows delta_rows_behind(const struct delta_task *m, const struct delta_state *s,
					   float *out)
{
	const struct config *c = m->step->env->config;
	size_t channels = config_delta_channels(c), stride = recurrent_row_floats(c);
	const float *mixed = s->kept + channels, *decay = mixed + channels;
	return (struct delta_rows){
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

static struct delta_rows delta_rows_of(const struct delta_task *m, const struct step_span *span)
{
	const struct delta_net *net = &m->step->env->config->delta_net;
	size_t channels = config_delta_channels(m->step->env->config), heads = net->value_heads;
	return (struct delta_rows){
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
static void delta_step_heads(void *ctx, uint32_t begin, uint32_t end)
{
	const struct delta_task *m = ctx;
	uint32_t heads = m->step->env->config->delta_net.value_heads;
	for (uint32_t i = begin; i < end; i++) {
		const struct step_span *span = &m->step->spans[i / heads];
		struct delta_state s = delta_state_of(m, span);
		struct delta_rows rows = delta_rows_of(m, span),
				  behind = delta_rows_behind(m, &s, rows.out);
		if (behind.n)
			delta_step_head(m, &s, &behind, i % heads);
		delta_step_head(m, &s, &rows, i % heads);
	}
}

/* Keeps the last inputs of the convolution by which the state has moved on, old and new ones. */
static void delta_keep_inputs(const struct delta_task *m, const struct step_span *span,
			      const struct delta_state *s)
{
	size_t channels = config_delta_channels(m->step->env->config);
	uint32_t kept = m->step->env->config->delta_net.width - 1;
	for (uint32_t i = 0; i < kept; i++) /* ascending: each is read before it is overwritten */
		memmove(s->before + i * channels,
			delta_input(m, span, s, span->certain - 1, kept - 1 - i),
			channels * sizeof *s->before);
}

/* Keeps the drafted rows, by which the state is behind from now on. */
static void delta_keep_drafts(const struct delta_task *m, const struct step_span *span,
			      const struct delta_state *s)
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

/* ---- the mixer ---- */

/* Normalises and gates the outputs of rows [begin, end): the output projection's input. */
static void delta_gate_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct delta_task *m = ctx;
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

	struct delta_task m = {d, s, l, c->layer[layer].state};
	threads_run(env->threads, s->n, 1, delta_mix_rows, &m);
	threads_run(env->threads, s->span_count * c->delta_net.value_heads, 1, delta_step_heads,
		    &m);
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++) {
		struct delta_state state = delta_state_of(&m, span);
		delta_keep_inputs(&m, span, &state);
		delta_keep_drafts(&m, span, &state);
	}
	threads_run(env->threads, s->n, 1, delta_gate_rows, &m);
	activation_changed(&d->gated);

	product_run(env, &(struct product){s->out, &l->m[TENSOR_DELTA_OUT]}, 1, &d->gated, s->n);
}
