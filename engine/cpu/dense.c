/* Feed-forwards that every token passes: the one of a dense layer, and the shared expert of a layer
 * with routed ones; both down · (gate ⊙ up) by the family's gated linear unit (Shazeer 2020). See
 * layers.h. Routed experts are moe.c's. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

/* ---- what becomes of gate and up ---- */

/* silu of what gate and up are within a limit: gate from above, up from both sides. */
static void dense_limit(const struct environment *env, float *gate, const float *up, size_t n)
{
	float limited[128], limit = env->config->glu_limit;
	for (size_t at = 0, piece; at < n; at += piece) {
		piece = n - at < 128 ? n - at : 128;
		for (size_t i = 0; i < piece; i++) {
			float g = gate[at + i], u = up[at + i];
			gate[at + i] = g > limit ? limit : g;
			limited[i] = u > limit ? limit : u < -limit ? -limit : u;
		}
		env->kernels->silu_mul(gate + at, limited, piece);
	}
}

void dense_gate(const struct environment *env, float *gate, const float *up, size_t n)
{
	const struct config *c = env->config;
	switch (c->glu) {
	case GLU_GELU:
		env->kernels->gelu_mul(gate, up, n);
		break;
	case GLU_NONE:
		env->kernels->relu_squared(gate, n);
		break;
	case GLU_LIMITED:
		dense_limit(env, gate, up, n);
		break;
	case GLU_CLAMPED:
		env->kernels->swiglu_clamped(gate, up, n, c->glu_alpha, c->glu_limit);
		break;
	default:
		env->kernels->silu_mul(gate, up, n);
		break;
	}
}

/* ---- dense layers ---- */

void dense_take(struct dense_scratch *d, struct arena *arena, const struct config *c, size_t rows)
{
	uint32_t width = 0, rows_of, cols;
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		config_tensor_shape(c, TENSOR_GATE, layer, &rows_of, &cols);
		if (c->layer[layer].feed_forward == FEED_FORWARD_DENSE && rows_of > width)
			width = rows_of;
	}
	activation_take(arena, &d->hidden, rows, width);
}

void dense_run(struct step *s, uint32_t layer)
{
	struct dense_scratch *d = &s->scratch->dense;
	const struct layer_weights *l = &s->env->weights->layer[layer];
	const struct product gate_up[] = {{d->hidden.f, &l->m[TENSOR_GATE]},
					  {s->scratch->out, &l->m[TENSOR_UP]}};
	d->hidden.k = l->m[TENSOR_UP].shape.rows;
	const struct product up = {d->hidden.f, &l->m[TENSOR_UP]};
	bool gated = config_gated(s->env->config);
	product_run(s->env, gated ? gate_up : &up, gated ? 2 : 1, &s->scratch->normed, s->n);
	dense_gate(s->env, d->hidden.f, s->scratch->out, (size_t)s->n * d->hidden.k);
	activation_changed(&d->hidden);
	product_run(s->env, &(struct product){s->scratch->out, &l->m[TENSOR_DOWN]}, 1, &d->hidden,
		    s->n);
}

/* ---- shared experts ---- */

void dense_take_shared(struct shared_scratch *d, struct arena *arena, const struct config *c,
		       size_t rows)
{
	activation_take(arena, &d->hidden, rows, c->shared_size);
	d->up = arena_take(arena, rows * c->shared_size, sizeof *d->up);
	d->out = arena_take(arena, rows * c->hidden_size, sizeof *d->out);
	d->scale = arena_take(arena, rows, sizeof *d->scale);
}

void dense_run_shared(struct shared_scratch *d, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	bool gated = config_gated(env->config);
	struct product in[3];
	uint32_t count = 0;
	if (gated)
		in[count++] = (struct product){d->hidden.f, &l->m[TENSOR_SHARED_GATE]};
	in[count++] = (struct product){gated ? d->up : d->hidden.f, &l->m[TENSOR_SHARED_UP]};
	if (env->config->shared_gate)
		in[count++] = (struct product){d->scale, &l->m[TENSOR_SHARED_SCALE]};
	product_run(env, in, count, &s->scratch->normed, s->n);
	dense_gate(env, d->hidden.f, d->up, (size_t)s->n * d->hidden.k);
	activation_changed(&d->hidden);
	product_run(env, &(struct product){d->out, &l->m[TENSOR_SHARED_DOWN]}, 1, &d->hidden, s->n);
	const float *post_norm = weights_vector(l, TENSOR_SHARED_POST_NORM);
	if (post_norm)
		activation_norm(s, d->out, d->out, NULL, post_norm, s->n);
}

struct dense_addition {
	const struct shared_scratch *shared;
	const struct step *step;
};

static void dense_add_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct dense_addition *a = ctx;
	const struct kernels *k = a->step->env->kernels;
	size_t width = a->step->env->config->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float weight = 1;
		if (a->step->env->config->shared_gate)
			k->sigmoid_mul(&weight, a->shared->scale + t, 1);
		watch_add_scaled(k, a->step->scratch->out + t * width, weight,
				 a->shared->out + t * width, width);
	}
}

void dense_add_shared(struct shared_scratch *d, struct step *s)
{
	threads_run(s->env->threads, s->n, 8, dense_add_tokens, &(struct dense_addition){d, s});
}
