#include "engine/compute/shared.h"
#include "engine/compute/glu.h"
#include "kernels/watch.h"

void shared_take(struct shared_scratch *d, struct arena *arena, const struct config *c, size_t rows)
{
	activation_take(arena, &d->hidden, rows, c->shared_size);
	d->up = arena_take(arena, rows * c->shared_size, sizeof *d->up);
	d->out = arena_take(arena, rows * c->hidden_size, sizeof *d->out);
	d->scale = arena_take(arena, rows, sizeof *d->scale);
}

void shared_run(struct shared_scratch *d, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct product in[] = {{d->hidden.f, &l->m[TENSOR_SHARED_GATE]},
				     {d->up, &l->m[TENSOR_SHARED_UP]},
				     {d->scale, &l->m[TENSOR_SHARED_SCALE]}};
	product_run(env, in, env->config->shared_gate ? 3 : 2, s->normed, s->n);
	glu_run(env, d->hidden.f, d->up, (size_t)s->n * d->hidden.k);
	activation_changed(&d->hidden);
	product_run(env, &(struct product){d->out, &l->m[TENSOR_SHARED_DOWN]}, 1, &d->hidden, s->n);
	const float *post_norm = weights_vector(l, TENSOR_SHARED_POST_NORM);
	if (post_norm)
		step_norm(s, d->out, d->out, NULL, post_norm, s->n);
}

struct addition {
	const struct shared_scratch *shared;
	const struct step *step;
};

static void add_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct addition *a = ctx;
	const struct kernels *k = a->step->env->kernels;
	size_t width = a->step->env->config->hidden_size;
	for (size_t t = begin; t < end; t++) {
		float weight = 1;
		if (a->step->env->config->shared_gate)
			k->sigmoid_mul(&weight, a->shared->scale + t, 1);
		add_scaled_watched(k, a->step->out + t * width, weight, a->shared->out + t * width,
				   width);
	}
}

void shared_add(struct shared_scratch *d, struct step *s)
{
	threads_run(s->env->threads, s->n, 8, add_tokens, &(struct addition){d, s});
}
