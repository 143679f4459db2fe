/* Inputs of each layer's own (Gemma 3n and 4): beside its row of the embedding a token has a row of
 * a wider table, a part of which goes to each layer; to it comes a projection of the embedding. A
 * layer ends by adding what a gate lets through of its part. See layers.h. */
#include "engine/cpu/layers.h"

#include <math.h>
#include <string.h>

static size_t per_layer_width(const struct config *c)
{
	return (size_t)c->per_layer * c->layers;
}

void per_layer_take(struct per_layer_scratch *p, struct arena *arena, const struct config *c,
		    size_t rows)
{
	p->projected = arena_take(arena, rows * per_layer_width(c), sizeof *p->projected);
	activation_take(arena, &p->gated, rows, c->per_layer);
}

/* ---- before the first layer ---- */

int per_layer_read(const struct step *s, uint32_t row, bool there, struct err *e)
{
	const struct config *c = s->env->config;
	size_t width = per_layer_width(c);
	float *to = s->stream->per_layer + row * width, scale = sqrtf((float)c->per_layer);
	int failed = 0;
	if (!there)
		failed = weights_row(s->env->weights, TABLE_PER_LAYER, s->tokens[row], to, e);
	for (size_t i = 0; i < width && !failed; i++)
		to[i] *= scale;
	return failed;
}

struct per_layer_task {
	const struct per_layer_scratch *scratch;
	const struct step *step;
	uint32_t layer;
};

/* inputs = (norm(projection / √hidden) + inputs) / √2, the norm of each layer's part. */
static void per_layer_join(void *ctx, uint32_t begin, uint32_t end)
{
	const struct per_layer_task *a = ctx;
	const struct config *c = a->step->env->config;
	const struct kernels *k = a->step->env->kernels;
	const float *norm = weights_vector(&a->step->env->weights->once,
					   TENSOR_PER_LAYER_INPUTS_NORM);
	const float scale = (float)(1 / sqrt(c->hidden_size)), half = (float)(1 / sqrt(2));
	size_t size = c->per_layer, width = per_layer_width(c);
	for (size_t t = begin; t < end; t++) {
		float *from = a->scratch->projected + t * width,
		      *to = a->step->stream->per_layer + t * width;
		for (size_t i = 0; i < width; i++)
			from[i] *= scale;
		for (size_t at = 0; at < width; at += size)
			k->rmsnorm(from + at, from + at, norm, c->per_layer, c->rms_eps);
		for (size_t i = 0; i < width; i++)
			to[i] = (from[i] + to[i]) * half;
	}
}

/* Makes `normed` the stream as it is. */
static void per_layer_take_stream(struct step *s)
{
	memcpy(s->scratch->normed.f, s->stream->x,
	       (size_t)s->n * s->env->config->hidden_size * sizeof *s->stream->x);
	activation_changed(&s->scratch->normed);
}

void per_layer_begin(struct step *s)
{
	struct per_layer_scratch *p = &s->scratch->per_layer;
	const struct environment *env = s->env;
	const struct product in = {p->projected, &env->weights->once.m[TENSOR_PER_LAYER_INPUTS]};
	struct per_layer_task task = {p, s, 0};
	per_layer_take_stream(s);
	product_run(env, &in, 1, &s->scratch->normed, s->n);
	threads_run(env->threads, s->n, 1, per_layer_join, &task);
}

/* ---- at a layer's end ---- */

/* gated = gelu(gate) ⊙ the layer's part of the inputs. */
static void per_layer_gate(void *ctx, uint32_t begin, uint32_t end)
{
	const struct per_layer_task *a = ctx;
	const struct config *c = a->step->env->config;
	size_t size = c->per_layer, width = per_layer_width(c);
	for (size_t t = begin; t < end; t++)
		a->step->env->kernels->gelu_mul(
			a->scratch->gated.f + t * size,
			a->step->stream->per_layer + t * width + a->layer * size, size);
}

void per_layer_run(struct step *s, uint32_t layer)
{
	struct per_layer_scratch *p = &s->scratch->per_layer;
	const struct environment *env = s->env;
	const struct layer_weights *w = &env->weights->layer[layer];
	const struct product gate = {p->gated.f, &w->m[TENSOR_PER_LAYER_GATE]},
			     out = {s->scratch->out, &w->m[TENSOR_PER_LAYER_OUT]};
	struct per_layer_task task = {p, s, layer};
	per_layer_take_stream(s);
	product_run(env, &gate, 1, &s->scratch->normed, s->n);
	threads_run(env->threads, s->n, 8, per_layer_gate, &task);
	activation_changed(&p->gated);
	product_run(env, &out, 1, &p->gated, s->n);
	activation_norm(s, s->scratch->out, s->scratch->out, NULL,
			weights_vector(w, TENSOR_PER_LAYER_POST_NORM), s->n);
	env->kernels->add(s->stream->x, s->scratch->out, (size_t)s->n * env->config->hidden_size);
}
