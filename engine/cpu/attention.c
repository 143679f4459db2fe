/* Grouped-query softmax attention with rotary positions over a context's key-value blocks (Vaswani
 * et al. 2017; Ainslie et al. 2023; Su et al. 2021). See layers.h.
 *
 * Here are queries, keys and values; look_back.c has how they meet. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

/* Layers may differ in their heads: the arrays have room for the widest. */
void attention_take(struct attention_scratch *a, struct arena *arena, const struct config *c,
		    size_t rows)
{
	uint32_t kv = 0, attended = 0, value_dim = 0;
	for (uint32_t layer = 0; layer < c->layers + c->draft; layer++) {
		const struct layer *l = &c->layer[layer];
		if (l->mixer != MIXER_ATTENTION)
			continue;
		uint32_t kv_width = l->kv_heads * l->head_dim, width = c->heads * l->head_dim;
		kv = kv > kv_width ? kv : kv_width;
		attended = attended > width ? attended : width;
		if (l->head_dim > value_dim)
			value_dim = l->head_dim;
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
	look_back_take(&a->look, arena, c, rows, value_dim);
}

struct attention_task {
	struct attention_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
};

/* ---- projections ---- */

/* Norms where the family has them, of each head or of all heads as one, then the rotation. */
static void attention_finish_heads(const struct attention_task *a, float *heads, uint32_t count,
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

/* Puts the keys and values of tokens [begin, end) into their contexts' blocks. */
static void attention_place_keys(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attention_task *a = ctx;
	const struct config *c = a->step->env->config;
	const struct kernels *kernels = a->step->env->kernels;
	const struct layer *l = a->layer;
	size_t dim = l->head_dim, kv_width = l->kv_heads * dim;
	for (uint32_t t = begin; t < end; t++) {
		const struct step_span *span = step_span_of(a->step, t);
		const struct context *x = span->context;
		float *k = a->scratch->k + t * kv_width, *v = a->scratch->v + t * kv_width;
		attention_finish_heads(a, k, l->kv_heads, TENSOR_K_NORM, t);
		if (c->value_norm) /* RMSNorm without weights: x / sqrt(mean(x²) + eps) */
			for (uint32_t h = 0; h < l->kv_heads; h++)
				kernels->l2norm(v + h * dim, v + h * dim, l->head_dim,
						c->rms_eps * (float)dim, sqrtf((float)dim));
		size_t position = span->position + t - span->first;
		void *block = (void *)context_blocks_of(x, l)[position / KV_BLOCK];
		for (uint32_t h = 0; h < l->kv_heads; h++)
			watch_kv_put(kernels, block, x->type, context_key_offset(x->type, l, h),
				     context_value_offset(x->type, l, h), position % KV_BLOCK,
				     k + h * dim, v + h * dim, l->head_dim, 0);
	}
}

/* The same, and the tokens' queries. */
static void attention_place_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attention_task *a = ctx;
	const struct attention_scratch *x = a->scratch;
	const struct config *c = a->step->env->config;
	size_t dim = a->layer->head_dim, width = c->heads * dim;
	for (uint32_t t = begin; t < end; t++) {
		float *q = x->q + t * width;
		/* Where there is a gate, the projection gives each head's query, then its gate. */
		for (size_t h = 0; h < c->heads && c->query_gate; h++) {
			const float *from = x->projected_q + 2 * (t * width + h * dim);
			memcpy(q + h * dim, from, dim * sizeof *q);
			memcpy(x->query_gate + t * width + h * dim, from + dim, dim * sizeof *q);
		}
		attention_finish_heads(a, q, c->heads, TENSOR_Q_NORM, t);
	}
	if (!a->layer->keys_of)
		attention_place_keys(ctx, begin, end);
}

/* Copies of the contexts lack what follows. */
static void attention_changes(const struct step *s)
{
	for (const struct step_span *span = s->spans; span < s->spans + s->span_count; span++)
		context_changed(span->context, span->position);
}

/* Keys and values after their products. */
static void attention_finish_keys(const struct attention_task *a)
{
	const struct environment *env = a->step->env;
	const struct attention_scratch *x = a->scratch;
	uint32_t n = a->step->n, width = a->weights->m[TENSOR_K].shape.rows;
	product_add_bias(env, x->k, weights_vector(a->weights, TENSOR_K_BIAS), n, width);
	product_add_bias(env, x->v, weights_vector(a->weights, TENSOR_V_BIAS), n, width);
	if (a->layer->keys_as_values)
		memcpy(x->v, x->k, (size_t)n * width * sizeof *x->v);
}

/* ---- the mixer ---- */

void attention_run_keys(struct step *s, uint32_t layer)
{
	struct attention_scratch *a = &s->scratch->attention;
	const struct environment *env = s->env;
	const struct layer_weights *l = &env->weights->layer[layer];
	const struct product kv[] = {{a->k, &l->m[TENSOR_K]}, {a->v, &l->m[TENSOR_V]}};
	struct attention_task task = {a, s, l, &env->config->layer[layer]};
	product_run(env, kv, task.layer->keys_as_values ? 1 : 2, &s->scratch->normed, s->n);
	attention_finish_keys(&task);
	attention_changes(s);
	threads_run(env->threads, s->n, 1, attention_place_keys, &task);
}

void attention_run(struct step *s, uint32_t layer)
{
	struct attention_scratch *a = &s->scratch->attention;
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct layer *l = &c->layer[layer];
	const struct layer_weights *w = &env->weights->layer[layer];
	struct attention_task task = {a, s, w, l};
	const struct product qkv[] = {{a->projected_q, &w->m[TENSOR_Q]},
				      {a->k, &w->m[TENSOR_K]},
				      {a->v, &w->m[TENSOR_V]}};
	product_run(env, qkv,
		    l->keys_of		? 1
		    : l->keys_as_values ? 2
					: 3,
		    &s->scratch->normed, s->n);
	product_add_bias(env, a->projected_q, weights_vector(w, TENSOR_Q_BIAS), s->n,
			 w->m[TENSOR_Q].shape.rows);
	if (!l->keys_of)
		attention_finish_keys(&task);
	attention_changes(s);
	threads_run(env->threads, s->n, 1, attention_place_tokens, &task);

	const struct look look = {
		.step = s,
		.layer = l,
		.q = a->q,
		.out = a->attended.f,
		.gate = a->query_gate,
		.head_dim = l->head_dim,
		.group = c->heads / l->kv_heads,
		.sinks = weights_vector(w, TENSOR_SINKS),
	};
	if (l->index == INDEX_UNUSED) {
		look_back_run(&a->look, &look);
	} else {
		chooser_run(s, layer, NULL);
		look_chosen_run(&s->scratch->chooser.look, &a->look, &look);
	}
	a->attended.k = c->heads * l->head_dim;
	activation_changed(&a->attended);

	product_run(env, &(struct product){s->scratch->out, &w->m[TENSOR_O]}, 1, &a->attended,
		    s->n);
	product_add_bias(env, s->scratch->out, weights_vector(w, TENSOR_O_BIAS), s->n,
			 c->hidden_size);
}
