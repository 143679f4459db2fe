#include "engine/compute/attention.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Layers may differ in their heads: as much as the widest want. */
void attention_take(struct attention_scratch *a, struct arena *arena, const struct config *c,
		    size_t rows)
{
	size_t kv = 0;
	uint32_t attended = 0;
	for (uint32_t layer = 0; layer < c->layers + CONFIG_DRAFT_LAYERS; layer++) {
		const struct layer *l = &c->layer[layer];
		kv = larger(kv, (size_t)l->kv_heads * l->head_dim);
		attended = (uint32_t)larger(attended, (size_t)c->heads * l->head_dim);
	}
	a->projected_q = a->q = arena_take(arena, rows * attended, sizeof *a->q);
	a->query_gate = NULL;
	if (c->query_gate) {
		a->projected_q = arena_take(arena, 2 * rows * attended, sizeof *a->projected_q);
		a->query_gate = arena_take(arena, rows * attended, sizeof *a->query_gate);
	}
	a->k = arena_take(arena, rows * kv, sizeof *a->k);
	a->v = arena_take(arena, rows * kv, sizeof *a->v);
	activation_take(arena, &a->attended, rows, attended);
	a->runs = arena_take(arena, rows, sizeof *a->runs);
}

struct attend {
	struct attention_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
};

/* RMSNorm where the family has it, of each head or of all as one, then the rotation. */
static void finish_heads(const struct attend *a, float *heads, uint32_t count,
			 enum tensor_role norm_role, uint32_t t)
{
	const struct config *c = a->step->env->config;
	const struct kernels *k = a->step->env->kernels;
	const struct rotation *r = &a->step->rotations[a->layer->rope];
	const float *norm = weights_vector(a->weights, norm_role),
		    *cos = r->cos + (size_t)t * r->half, *sin = r->sin + (size_t)t * r->half;
	uint32_t dim = a->layer->head_dim;
	if (c->head_norms == HEAD_NORMS_TOGETHER)
		k->rmsnorm(heads, heads, norm, count * dim, c->rms_eps);
	for (uint32_t h = 0; h < count; h++, heads += dim) {
		if (c->head_norms == HEAD_NORMS_EACH)
			k->rmsnorm(heads, heads, norm, dim, c->rms_eps);
		k->rope(heads, cos, sin, r->half);
	}
}

/* A token's rows of q where each head has its query and then its gate. */
static void part_queries(struct attention_scratch *a, const struct config *c, size_t dim,
			 uint32_t t)
{
	size_t width = c->heads * dim;
	const float *from = a->projected_q + 2 * width * t;
	float *q = a->q + width * t, *gate = a->query_gate + width * t;
	for (size_t h = 0; h < c->heads; h++, from += 2 * dim) {
		memcpy(q + h * dim, from, dim * sizeof *q);
		memcpy(gate + h * dim, from + dim, dim * sizeof *gate);
	}
}

/* RMSNorm without weights: x / sqrt(mean(x²) + eps). */
static void normalise_values(const struct attend *a, float *v)
{
	const struct environment *env = a->step->env;
	uint32_t dim = a->layer->head_dim;
	for (uint32_t h = 0; h < a->layer->kv_heads; h++, v += dim)
		env->kernels->l2norm(v, v, dim, env->config->rms_eps * (float)dim,
				     sqrtf((float)dim));
}

/* Keys of tokens [begin, end) made ready and put into their blocks, with their values. */
static void place_keys(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attend *a = ctx;
	const struct config *c = a->step->env->config;
	const struct layer *l = a->layer;
	size_t dim = l->head_dim, kv_width = l->kv_heads * dim;
	for (uint32_t t = begin; t < end; t++) {
		const struct span *span = step_span(a->step, t);
		const struct context *x = span->context;
		float *k = a->scratch->k + t * kv_width, *v = a->scratch->v + t * kv_width;
		finish_heads(a, k, l->kv_heads, TENSOR_K_NORM, t);
		if (c->value_norm)
			normalise_values(a, v);
		size_t position = span->position + t - span->first;
		void *block = (void *)context_blocks_of(x, l)[position / KV_BLOCK];
		for (uint32_t h = 0; h < l->kv_heads; h++)
			kv_put_watched(a->step->env->kernels, block, x->type,
				       context_key_offset(l, h), context_value_offset(l, h),
				       position % KV_BLOCK, k + h * dim, v + h * dim, l->head_dim);
	}
}

/* The same, and their queries made ready. */
static void place_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attend *a = ctx;
	const struct config *c = a->step->env->config;
	for (uint32_t t = begin; t < end; t++) {
		if (c->query_gate)
			part_queries(a->scratch, c, a->layer->head_dim, t);
		float *q = a->scratch->q + (size_t)t * c->heads * a->layer->head_dim;
		finish_heads(a, q, c->heads, TENSOR_Q_NORM, t);
	}
	place_keys(ctx, begin, end);
}

/* What the heads from `offset` on have found, for n tokens, times the sigmoid of their gates. */
static void apply_gate(const struct attend *a, size_t offset, uint32_t n)
{
	uint32_t heads = a->step->env->config->heads, dim = a->layer->head_dim;
	size_t stride = (size_t)heads * dim;
	uint32_t width = heads / a->layer->kv_heads * dim;
	for (uint32_t t = 0; t < n; t++, offset += stride)
		a->step->env->kernels->sigmoid_mul(a->scratch->attended.f + offset,
						   a->scratch->query_gate + offset, width);
}

/* Items are (run of rows, key-value head): no row's sum is ever split, so threads cannot change it.
 */
static void attend_items(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attend *a = ctx;
	const struct config *c = a->step->env->config;
	const struct layer *l = a->layer;
	const float *sinks = weights_vector(a->weights, TENSOR_SINKS);
	uint32_t group = c->heads / l->kv_heads;
	size_t stride = (size_t)c->heads * l->head_dim;
	for (uint32_t i = begin; i < end; i++) {
		const struct row_run *run = &a->scratch->runs[i / l->kv_heads];
		uint32_t h = i % l->kv_heads;
		size_t offset = run->first * stride + (size_t)h * group * l->head_dim;
		struct attention look = runs_look(a->step, run, l);
		look.head_dim = l->head_dim;
		look.heads = group;
		look.key_offset = context_key_offset(l, h);
		look.value_offset = context_value_offset(l, h);
		look.window = l->window;
		look.sinks = sinks ? sinks + (size_t)h * group : NULL;
		attend_watched(a->step->env->kernels, a->scratch->attended.f + offset,
			       a->scratch->q + offset, stride, &look, run->n);
		if (c->query_gate)
			apply_gate(a, offset, run->n);
	}
}

static void attend(const struct attend *a)
{
	const struct environment *env = a->step->env;
	const struct layer *l = a->layer;
	uint64_t seen;
	uint32_t items =
		runs_make(a->step, a->layer->window, a->scratch->runs, &seen) * l->kv_heads;
	uint64_t work = seen * 2 * l->head_dim * (env->config->heads / l->kv_heads);
	threads_run(env->threads, items, product_grain(env, items, work), attend_items, (void *)a);
}

/* What projections of keys and values want besides their products. */
static void finish_projections(const struct attend *a)
{
	const struct environment *env = a->step->env;
	const struct attention_scratch *x = a->scratch;
	uint32_t n = a->step->n, width = a->weights->m[TENSOR_K].shape.rows;
	product_add_bias(env, x->k, weights_vector(a->weights, TENSOR_K_BIAS), n, width);
	product_add_bias(env, x->v, weights_vector(a->weights, TENSOR_V_BIAS), n, width);
	if (a->layer->keys_as_values)
		memcpy(x->v, x->k, (size_t)n * width * sizeof *x->v);
}

void attention_keys(struct attention_scratch *a, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct product kv[] = {{a->k, &l->m[TENSOR_K]}, {a->v, &l->m[TENSOR_V]}};
	struct attend look = {a, s, l, &env->config->layer[layer]};
	product_run(env, kv, look.layer->keys_as_values ? 1 : 2, s->normed, s->n);
	finish_projections(&look);
	threads_run(env->threads, s->n, 1, place_keys, &look);
}

void attention_run(struct attention_scratch *a, struct step *s, uint32_t layer)
{
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer_weights *l = &env->weights->layer[layer];
	struct attend look = {a, s, l, &c->layer[layer]};
	const struct product qkv[] = {{a->projected_q, &l->m[TENSOR_Q]},
				      {a->k, &l->m[TENSOR_K]},
				      {a->v, &l->m[TENSOR_V]}};
	product_run(env, qkv, look.layer->keys_as_values ? 2 : 3, s->normed, s->n);
	product_add_bias(env, a->projected_q, weights_vector(l, TENSOR_Q_BIAS), s->n,
			 l->m[TENSOR_Q].shape.rows);
	finish_projections(&look);

	threads_run(env->threads, s->n, 1, place_tokens, &look);
	attend(&look);
	a->attended.k = c->heads * look.layer->head_dim;
	activation_changed(&a->attended);

	product_run(env, &(struct product){s->out, &l->m[TENSOR_O]}, 1, &a->attended, s->n);
	product_add_bias(env, s->out, weights_vector(l, TENSOR_O_BIAS), s->n, c->hidden_size);
}
