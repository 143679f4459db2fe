#include "engine/compute/dense.h"
#include "engine/compute/glu.h"

/* 0 if no layer has one. */
static uint32_t width_of(const struct config *c)
{
	for (uint32_t layer = 0; layer < c->layers; layer++)
		if (!config_routed(c, layer))
			return c->intermediate_size;
	return 0;
}

void dense_take(struct dense_scratch *d, struct arena *arena, const struct config *c, size_t rows)
{
	activation_take(arena, &d->hidden, rows, width_of(c));
}

void dense_run(struct dense_scratch *d, struct step *s, uint32_t layer)
{
	const struct layer_weights *l = &s->env->weights->layer[layer];
	const struct product gate_up[] = {{d->hidden.f, &l->m[TENSOR_GATE]},
					  {s->out, &l->m[TENSOR_UP]}};
	product_run(s->env, gate_up, 2, s->normed, s->n);
	glu_run(s->env, d->hidden.f, s->out, (size_t)s->n * d->hidden.k);
	activation_changed(&d->hidden);
	product_run(s->env, &(struct product){s->out, &l->m[TENSOR_DOWN]}, 1, &d->hidden, s->n);
}
