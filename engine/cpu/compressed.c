/* Compressed attention (DeepSeek-AI 2026, V4): one key a position for all heads, which is its value,
 * too, and a window. What lies before the window is seen through entries, each made of `pool`
 * positions (pools.c): all of them (heavily compressed), or those that an index chooses (compressed
 * sparse, chooser.c). See layers.h.
 *
 * The last numbers of heads are rotated, pairs being neighbours. Values are keys, so they come rotated,
 * and what a head finds is rotated back by its own position. Then each group of heads has a projection
 * of its own to a short vector, and one product takes all of these to the stream. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

enum { COMPRESSED_HEADS = 16 }; /* that look together */

void compressed_take(struct compressed_scratch *a, struct arena *arena, const struct config *c,
		     size_t rows)
{
	size_t dim = c->head_dim, groups = c->grouped.groups;
	activation_take(arena, &a->low, rows, c->latent.query_rank);
	a->q = arena_take(arena, rows * c->heads * dim, sizeof *a->q);
	a->kv = arena_take(arena, rows * dim, sizeof *a->kv);
	a->keys = arena_take(arena, rows * 2 * dim, sizeof *a->keys);
	a->gates = arena_take(arena, rows * 2 * dim, sizeof *a->gates);
	a->kept = arena_take(arena, rows * 4 * dim, sizeof *a->kept);
	a->pools = arena_take(arena, rows * pools_scratch(c->head_dim), sizeof *a->pools);
	a->index = arena_take(arena, rows * groups, sizeof *a->index);
	activation_take(arena, &a->attended, rows * groups, (uint32_t)(c->heads * dim / groups));
	activation_take(arena, &a->grouped, rows, c->grouped.groups * c->grouped.low);
	look_back_take(&a->look, arena, c, rows, c->head_dim);
	look_entries_take(&a->entries, arena, c, rows);
}

struct compressed_task {
	struct compressed_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
	struct pool pool; /* where the layer has entries */
};

static struct pool_place compressed_place(const struct compressed_task *a, size_t t)
{
	const struct step_span *span = step_span_of(a->step, t);
	return (struct pool_place){a->step, span, a->layer, span->position + t - span->first};
}

/* ---- projections ---- */

static void compressed_norm_low(void *ctx, uint32_t begin, uint32_t end)
{
	const struct compressed_task *a = ctx;
	const struct config *c = a->step->env->config;
	uint32_t rank = c->latent.query_rank;
	for (size_t t = begin; t < end; t++)
		a->step->env->kernels->rmsnorm(
			a->scratch->low.f + t * rank, a->scratch->low.f + t * rank,
			weights_vector(a->weights, TENSOR_LATENT_Q_NORM), rank, c->rms_eps);
}

static void compressed_project(const struct compressed_task *task)
{
	struct compressed_scratch *a = task->scratch;
	const struct step *s = task->step;
	const struct matrix *m = task->weights->m;
	const struct product in[] = {{a->low.f, &m[TENSOR_LATENT_Q_LOW]},
				     {a->kv, &m[TENSOR_LATENT_KV]},
				     {a->keys, &m[TENSOR_ENTRY_KEYS]},
				     {a->gates, &m[TENSOR_ENTRY_GATE]}};
	product_run(s->env, in, task->layer->pool ? 4 : 2, &s->scratch->normed, s->n);
	threads_run(s->env->threads, s->n, 8, compressed_norm_low, (void *)task);
	activation_changed(&a->low);
	product_run(s->env, &(struct product){a->q, &m[TENSOR_LATENT_Q]}, 1, &a->low, s->n);
}

/* ---- rows ---- */

static void compressed_rotate(const struct compressed_task *a, float *head, size_t t, bool back)
{
	const struct rotation *r = &a->step->rotations[a->layer->rope];
	rotation_turn_pairs(head + a->layer->head_dim - 2 * (size_t)r->half, r->cos + t * r->half,
			    r->sin + t * r->half, r->half, back);
}

/* Norms without weights, and the rotation, of a row's queries. */
static void compressed_finish_queries(const struct compressed_task *a, size_t t)
{
	const struct config *c = a->step->env->config;
	uint32_t dim = a->layer->head_dim;
	float *q = a->scratch->q + t * c->heads * dim;
	for (uint32_t h = 0; h < c->heads; h++, q += dim) { /* x / sqrt(mean(x²) + eps) */
		a->step->env->kernels->l2norm(q, q, dim, c->rms_eps * (float)dim,
					      sqrtf((float)dim));
		compressed_rotate(a, q, t, false);
	}
}

/* Puts a row's key into its context. */
static void compressed_place_key(const struct compressed_task *a, size_t t)
{
	const struct environment *env = a->step->env;
	const struct pool_place p = compressed_place(a, t);
	const struct context *x = p.span->context;
	uint32_t dim = a->layer->head_dim;
	float *key = a->scratch->kv + t * dim;
	env->kernels->rmsnorm(key, key, weights_vector(a->weights, TENSOR_LATENT_KV_NORM), dim,
			      env->config->rms_eps);
	compressed_rotate(a, key, t, false);
	watch_kv_put(env->kernels, (void *)context_blocks_of(x, a->layer)[p.position / KV_BLOCK],
		     x->type, context_key_offset(x->type, a->layer, 0), 0, p.position % KV_BLOCK,
		     key, NULL, dim, dim);
}

/* Keeps what entries are made of. */
static void compressed_keep(const struct compressed_task *a, size_t t)
{
	const struct pool_place p = compressed_place(a, t);
	size_t width = (size_t)a->pool.dim * a->pool.parts;
	float *kept = a->scratch->kept + 2 * t * width;
	memcpy(kept, a->scratch->keys + t * width, width * sizeof *kept);
	memcpy(kept + width, a->scratch->gates + t * width, width * sizeof *kept);
	pools_keep(&p, &a->pool, kept);
}

static void compressed_place_rows(void *ctx, uint32_t begin, uint32_t end)
{
	const struct compressed_task *a = ctx;
	for (size_t t = begin; t < end; t++) {
		compressed_finish_queries(a, t);
		compressed_place_key(a, t);
		if (a->layer->pool)
			compressed_keep(a, t);
	}
}

static void compressed_finish_entries(void *ctx, uint32_t begin, uint32_t end)
{
	const struct compressed_task *a = ctx;
	for (size_t t = begin; t < end; t++) {
		const struct pool_place p = compressed_place(a, t);
		pools_finish(&p, &a->pool,
			     a->scratch->pools + t * pools_scratch(a->layer->head_dim));
	}
}

static void compressed_turn_back(void *ctx, uint32_t begin, uint32_t end)
{
	const struct compressed_task *a = ctx;
	size_t heads = a->step->env->config->heads, dim = a->layer->head_dim;
	for (size_t t = begin; t < end; t++)
		for (size_t h = 0; h < heads; h++)
			compressed_rotate(a, a->scratch->attended.f + (t * heads + h) * dim, t,
					  true);
}

/* ---- the mixer ---- */

static void compressed_look(const struct compressed_task *task, struct step *s, uint32_t layer)
{
	struct compressed_scratch *a = task->scratch;
	const struct layer *l = task->layer;
	const struct look look = {
		.step = s,
		.layer = l,
		.q = a->q,
		.out = a->attended.f,
		.head_dim = l->head_dim,
		.latent_dim = l->head_dim,
		.group = COMPRESSED_HEADS,
		.sinks = weights_vector(task->weights, TENSOR_SINKS),
	};
	if (l->index == INDEX_OWN)
		chooser_run(s, layer, &a->low);
	if (l->pool)
		look_entries_run(&a->entries, &look);
	else
		look_back_run(&a->look, &look);
}

void compressed_run(struct step *s, uint32_t layer)
{
	struct compressed_scratch *a = &s->scratch->compressed;
	const struct environment *env = s->env;
	const struct config *c = env->config;
	struct compressed_task task = {a, s, &env->weights->layer[layer], &c->layer[layer], {0}};
	const struct matrix *m = task.weights->m;
	if (task.layer->pool)
		task.pool = pools_of_entries(c, task.layer, task.weights);
	compressed_project(&task);
	threads_run(env->threads, s->n, 1, compressed_place_rows, &task);
	if (task.layer->pool)
		threads_run(env->threads, s->n, 8, compressed_finish_entries, &task);
	compressed_look(&task, s, layer);
	threads_run(env->threads, s->n, 4, compressed_turn_back, &task);
	activation_changed(&a->attended);
	product_run_groups(env, &(struct product){a->grouped.f, &m[TENSOR_GROUPED_LOW]},
			   &a->attended, c->grouped.groups, s->n, a->index);
	activation_changed(&a->grouped);
	product_run(env, &(struct product){s->scratch->out, &m[TENSOR_GROUPED_OUT]}, 1, &a->grouped,
		    s->n);
}
