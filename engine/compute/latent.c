#include "engine/compute/latent.h"
#include "kernels/watch.h"

#include <string.h>

void latent_take(struct latent_scratch *a, struct arena *arena, const struct config *c, size_t rows)
{
	const struct latent *l = &c->latent;
	size_t heads = rows * c->heads;
	activation_take(arena, &a->low, rows, l->query_rank);
	a->q = arena_take(arena, heads * (l->nope + l->rope), sizeof *a->q);
	a->plain = arena_take(arena, heads * l->nope, sizeof *a->plain);
	a->kv = arena_take(arena, rows * (l->rank + l->rope), sizeof *a->kv);
	a->query = arena_take(arena, heads * (l->rank + l->rope), sizeof *a->query);
	a->found = arena_take(arena, heads * l->rank, sizeof *a->found);
	a->turned = arena_take(arena, rows * l->rope, sizeof *a->turned);
	a->index = arena_take(arena, heads, sizeof *a->index);
	activation_take(arena, &a->attended, rows, c->heads * l->value);
	a->runs = arena_take(arena, rows, sizeof *a->runs);
}

struct looking {
	struct latent_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
};

/* ---- projections ---- */

static void normalise_low(void *ctx, uint32_t begin, uint32_t end)
{
	const struct looking *a = ctx;
	const struct environment *env = a->step->env;
	uint32_t rank = env->config->latent.query_rank;
	for (size_t t = begin; t < end; t++) {
		float *row = a->scratch->low.f + t * rank;
		env->kernels->rmsnorm(row, row, weights_vector(a->weights, TENSOR_LATENT_Q_NORM),
				      rank, env->config->rms_eps);
	}
}

static void project(const struct looking *look)
{
	struct latent_scratch *a = look->scratch;
	const struct step *s = look->step;
	const struct matrix *m = look->weights->m;
	bool low = s->env->config->latent.query_rank > 0;
	const struct product in[] = {
		{a->kv, &m[TENSOR_LATENT_KV]},
		{low ? a->low.f : a->q, &m[low ? TENSOR_LATENT_Q_LOW : TENSOR_LATENT_Q]}};
	product_run(s->env, in, 2, s->normed, s->n);
	if (!low)
		return;
	threads_run(s->env->threads, s->n, 8, normalise_low, (void *)look);
	activation_changed(&a->low);
	product_run(s->env, &(struct product){a->q, &m[TENSOR_LATENT_Q]}, 1, &a->low, s->n);
}

/* ---- rows ---- */

/* to[rope] = from[rope] rotated; where its pairs are neighbours they are put half a head apart,
 * keys' and queries' alike, which their products do not see. */
static void turn(const struct looking *a, float *to, const float *from, uint32_t t)
{
	const struct config *c = a->step->env->config;
	const struct rotation *r = &a->step->rotations[a->layer->rope];
	uint32_t half = c->latent.rope / 2;
	for (uint32_t i = 0; i < half; i++) {
		to[i] = from[c->latent.interleaved ? 2 * i : i];
		to[i + half] = from[c->latent.interleaved ? 2 * i + 1 : i + half];
	}
	a->step->env->kernels->rope(to, r->cos + (size_t)t * r->half, r->sin + (size_t)t * r->half,
				    r->half);
}

static void place_latent(const struct looking *a, uint32_t t)
{
	const struct environment *env = a->step->env;
	const struct latent *l = &env->config->latent;
	const struct span *span = step_span(a->step, t);
	size_t position = span->position + t - span->first;
	float *kv = a->scratch->kv + (size_t)t * (l->rank + l->rope),
	      *turned = a->scratch->turned + (size_t)t * l->rope;
	env->kernels->rmsnorm(kv, kv, weights_vector(a->weights, TENSOR_LATENT_KV_NORM), l->rank,
			      env->config->rms_eps);
	turn(a, turned, kv + l->rank, t);
	memcpy(kv + l->rank, turned, l->rope * sizeof *turned);
	kv_put_watched(env->kernels,
		       (void *)context_blocks_of(span->context, a->layer)[position / KV_BLOCK],
		       span->context->type, context_key_offset(a->layer, 0), 0, position % KV_BLOCK,
		       kv, NULL, l->rank + l->rope);
}

static void part_query(const struct looking *a, uint32_t t)
{
	const struct latent_scratch *x = a->scratch;
	const struct config *c = a->step->env->config;
	const struct latent *l = &c->latent;
	for (size_t h = 0; h < c->heads; h++) {
		size_t row = t * (size_t)c->heads + h;
		const float *q = x->q + row * (l->nope + l->rope);
		memcpy(x->plain + row * l->nope, q, l->nope * sizeof *q);
		turn(a, x->query + row * (l->rank + l->rope) + l->rank, q + l->nope, t);
		x->index[h * a->step->n + t] = (uint32_t)row;
	}
}

static void place_rows(void *ctx, uint32_t begin, uint32_t end)
{
	for (uint32_t t = begin; t < end; t++) {
		place_latent(ctx, t);
		part_query(ctx, t);
	}
}

/* ---- heads ---- */

/* A head's rows of a matrix that has those of all heads, `rows` each: its rows of x to y. */
static void multiply_head(const struct looking *a, enum tensor_role role, uint32_t head,
			  uint32_t rows, float *y, size_t ldy, const float *x)
{
	const struct matrix *w = &a->weights->m[role];
	const struct input in = {.k = w->shape.cols, .f = x};
	uint32_t n = a->step->n;
	multiply_watched(a->step->env->kernels, y, ldy, w, head * rows, (head + 1) * rows, &in,
			 a->scratch->index + (size_t)head * n, n);
}

static void absorb_queries(void *ctx, uint32_t begin, uint32_t end)
{
	const struct looking *a = ctx;
	const struct config *c = a->step->env->config;
	const struct latent *l = &c->latent;
	for (uint32_t h = begin; h < end; h++) /* between heads lies what is rotated */
		multiply_head(a, TENSOR_LATENT_KEYS, h, l->rank,
			      a->scratch->query + (size_t)h * l->rope,
			      (size_t)c->heads * (l->rank + l->rope), a->scratch->plain);
}

static void find_values(void *ctx, uint32_t begin, uint32_t end)
{
	const struct looking *a = ctx;
	const struct config *c = a->step->env->config;
	for (uint32_t h = begin; h < end; h++)
		multiply_head(a, TENSOR_LATENT_VALUES, h, c->latent.value, a->scratch->attended.f,
			      (size_t)c->heads * c->latent.value, a->scratch->found);
}

static void run_heads(const struct looking *a, void (*body)(void *, uint32_t, uint32_t),
		      uint64_t work)
{
	const struct environment *env = a->step->env;
	uint32_t heads = env->config->heads;
	threads_run(env->threads, heads, product_grain(env, heads, work * a->step->n), body,
		    (void *)a);
}

/* Heads that look at the latents together. */
enum { LOOK_HEADS = 16 };

static uint32_t groups_of(const struct config *c)
{
	return (c->heads + LOOK_HEADS - 1) / LOOK_HEADS;
}

/* Items are (run, heads): no row's sum is ever split, so threads cannot change it. */
static void look_back(void *ctx, uint32_t begin, uint32_t end)
{
	const struct looking *a = ctx;
	const struct config *c = a->step->env->config;
	const struct latent *l = &c->latent;
	uint32_t groups = groups_of(c);
	for (uint32_t i = begin; i < end; i++) {
		const struct row_run *run = &a->scratch->runs[i / groups];
		uint32_t h = i % groups * LOOK_HEADS, left = c->heads - h;
		size_t row = (size_t)run->first * c->heads + h, width = l->rank + l->rope;
		struct attention look = runs_look(a->step, run, a->layer);
		look.head_dim = (uint32_t)width;
		look.latent_dim = l->rank;
		look.heads = left < LOOK_HEADS ? left : LOOK_HEADS;
		look.key_offset = context_key_offset(a->layer, 0);
		attend_watched(a->step->env->kernels, a->scratch->found + row * l->rank,
			       a->scratch->query + row * width, c->heads * width, &look, run->n);
	}
}

void latent_run(struct latent_scratch *a, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct latent *l = &c->latent;
	const struct looking look = {a, s, &env->weights->layer[layer], &c->layer[layer]};
	uint64_t seen;
	project(&look);
	threads_run(env->threads, s->n, 1, place_rows, (void *)&look);
	run_heads(&look, absorb_queries, (uint64_t)l->rank * l->nope);
	uint32_t items = runs_make(s, 0, a->runs, &seen) * groups_of(c);
	uint64_t work = seen * (2 * l->rank + l->rope) * LOOK_HEADS;
	threads_run(env->threads, items, product_grain(env, items, work), look_back, (void *)&look);
	run_heads(&look, find_values, (uint64_t)l->rank * l->value);
	activation_changed(&a->attended);
	product_run(env, &(struct product){s->out, &look.weights->m[TENSOR_LATENT_O]}, 1,
		    &a->attended, s->n);
}
