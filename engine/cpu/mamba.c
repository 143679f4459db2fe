/* Mamba2 (Dao and Gu 2024, structured state space duality): a mixer whose state does not grow with
 * the text. See layers.h; recurrent.h has the state's layout.
 *
 * One projection gives the gate z, another values x, keys B and queries C, a third one number dt for
 * each head. x, B and C pass a short causal convolution and silu; softplus of dt is the time that
 * passes. A head lets its state fade by that time, adds its value times the time under the key of
 * its group, and asks the state with the group's query (kernels.h, delta_steps); D times the value
 * is added to the answer. The result times silu(z) is normalised group by group. */
#include "engine/cpu/layers.h"
#include "engine/cpu/recurrent_rows.h"
#include "kernels/delta.h"
#include "kernels/watch.h"

void mamba_take(struct mamba_scratch *m, struct arena *arena, const struct config *c, size_t rows)
{
	size_t channels = config_mamba_channels(c), heads = c->mamba.heads;
	m->in = arena_take(arena, rows * channels, sizeof *m->in);
	m->mixed = arena_take(arena, rows * channels, sizeof *m->mixed);
	m->dt = arena_take(arena, rows * heads, sizeof *m->dt);
	m->decay = arena_take(arena, rows * heads, sizeof *m->decay);
	m->time = arena_take(arena, rows * heads, sizeof *m->time);
	m->out = arena_take(arena, rows * config_mamba_inner(c), sizeof *m->out);
	activation_take(arena, &m->gated, rows, config_mamba_inner(c));
}

/* Values, keys and queries of rows [begin, end), and how far their states fade. */
static void mamba_mix_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct environment *env = rows->step->env;
	const struct mamba_scratch *x = &rows->step->scratch->mamba;
	uint32_t channels = rows->shape.channels, heads = env->config->mamba.heads;
	for (uint32_t r = begin; r < end; r++) {
		const float *taps[CONV_WIDTH];
		size_t times = (size_t)r * heads;
		recurrent_rows_taps(rows, r, taps);
		env->kernels->conv_silu(x->mixed + (size_t)r * channels,
					weights_vector(rows->weights, TENSOR_MAMBA_CONV),
					weights_vector(rows->weights, TENSOR_MAMBA_CONV_BIAS), taps,
					rows->shape.width, channels, 0, channels);
		delta_steps_of_time(x->decay + times, x->time + times, x->dt + times,
				    weights_vector(rows->weights, TENSOR_MAMBA_A_LOG),
				    weights_vector(rows->weights, TENSOR_MAMBA_DT_BIAS), heads);
	}
}

/* Adds D · x, gates and normalises the outputs of rows [begin, end): the output projection's input.
 */
static void mamba_gate_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct recurrent_rows *rows = ctx;
	const struct mamba_scratch *scratch = &rows->step->scratch->mamba;
	const struct kernels *k = rows->step->env->kernels;
	const struct config *c = rows->step->env->config;
	const float *skip = weights_vector(rows->weights, TENSOR_MAMBA_D),
		    *norm = weights_vector(rows->weights, TENSOR_MAMBA_NORM);
	uint32_t inner = config_mamba_inner(c), dim = c->mamba.head_dim,
		 group = inner / c->mamba.groups;
	for (size_t r = begin; r < end; r++) {
		const float *x = scratch->mixed + r * rows->shape.channels;
		float *out = scratch->out + r * inner, *gated = scratch->gated.f + r * inner;
		for (uint32_t h = 0; h < c->mamba.heads; h++)
			watch_add_scaled(k, out + (size_t)h * dim, skip[h], x + (size_t)h * dim,
					 dim);
		k->silu_mul(gated, out, inner);
		for (uint32_t at = 0; at < inner; at += group)
			k->rmsnorm(gated + at, gated + at, norm + at, group, c->rms_eps);
	}
}

void mamba_run(struct step *s, uint32_t layer)
{
	struct mamba_scratch *x = &s->scratch->mamba;
	const struct environment *env = s->env;
	const struct mamba *net = &env->config->mamba;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct product in[] = {{x->gated.f, &l->m[TENSOR_MAMBA_Z]},
				     {x->in, &l->m[TENSOR_MAMBA_XBC]},
				     {x->dt, &l->m[TENSOR_MAMBA_DT]}};
	product_run(env, in, 3, &s->scratch->normed, s->n);

	const float *const parts[RECURRENT_PARTS] = {x->in, x->mixed, x->decay, x->time};
	struct recurrent_rows rows = recurrent_rows_of(s, layer, parts);
	uint32_t keys = config_mamba_inner(env->config);
	threads_run(env->threads, s->n, 1, mamba_mix_rows, &rows);
	recurrent_heads_run(&(struct recurrent_heads){
		.rows = &rows,
		.rule = DELTA_ADDS,
		.heads = net->heads,
		.key_heads = net->groups,
		.key_dim = net->state,
		.value_dim = net->head_dim,
		.q = keys + net->groups * net->state,
		.k = keys,
		.out = x->out,
	});
	recurrent_rows_keep(&rows);
	threads_run(env->threads, s->n, 1, mamba_gate_rows, &rows);
	activation_changed(&x->gated);

	product_run(env, &(struct product){s->scratch->out, &l->m[TENSOR_MAMBA_OUT]}, 1, &x->gated,
		    s->n);
}
