/* Latent attention (DeepSeek-AI 2024, multi-head latent attention): keys and values of all heads
 * are projections of one short vector, the latent. Only the latent is kept in the context, with one
 * rotated key that all heads share. See layers.h.
 *
 * The projections are absorbed: a head's query goes through its keys' projection, meets the latents
 * themselves, and the sum of latents that the query finds goes through the head's values'
 * projection. Prompts are computed in the same way as answers, so that a row's bits do not depend
 * on the other rows. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <string.h>

/* Rows of the whole tiles that hold a head's rows of a projection, at most. */
static uint32_t latent_tile_rows(const struct latent *l)
{
	return (l->value > l->rank ? l->value : l->rank) + 2 * (TILE_ROWS - 1);
}

static float latent_eps(const struct config *c)
{
	return c->latent.eps > 0 ? c->latent.eps : c->rms_eps;
}

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
	if (l->value % TILE_ROWS || l->rank % TILE_ROWS)
		a->tiles = arena_take(arena, heads * latent_tile_rows(l), sizeof *a->tiles);
	look_back_take(&a->look, arena, c, rows, l->rank);
}

struct latent_task {
	struct latent_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
};

/* ---- projections ---- */

static void latent_norm_low(void *ctx, uint32_t begin, uint32_t end)
{
	const struct latent_task *a = ctx;
	const struct environment *env = a->step->env;
	uint32_t rank = env->config->latent.query_rank;
	for (size_t t = begin; t < end; t++) {
		float *row = a->scratch->low.f + t * rank;
		env->kernels->rmsnorm(row, row, weights_vector(a->weights, TENSOR_LATENT_Q_NORM),
				      rank, latent_eps(env->config));
	}
}

/* Latents and queries; these by two products with a norm between them where query_rank is not 0. */
static void latent_project(const struct latent_task *task)
{
	struct latent_scratch *a = task->scratch;
	const struct step *s = task->step;
	const struct matrix *m = task->weights->m;
	bool low = s->env->config->latent.query_rank > 0;
	const struct product in[] = {
		{a->kv, &m[TENSOR_LATENT_KV]},
		{low ? a->low.f : a->q, &m[low ? TENSOR_LATENT_Q_LOW : TENSOR_LATENT_Q]}};
	product_run(s->env, in, 2, &s->scratch->normed, s->n);
	if (!low)
		return;
	threads_run(s->env->threads, s->n, 8, latent_norm_low, (void *)task);
	activation_changed(&a->low);
	product_run(s->env, &(struct product){a->q, &m[TENSOR_LATENT_Q]}, 1, &a->low, s->n);
}

/* ---- rows ---- */

/* to[rope] = from[rope] rotated. Pairs that are neighbours in `from` are put half a head apart in
 * `to`, in keys and queries alike, so their products stay the same. */
static void latent_rotate(const struct latent_task *a, float *to, const float *from, uint32_t t)
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

/* Puts a row's latent and shared key into its context. */
static void latent_place_keys(const struct latent_task *a, uint32_t t)
{
	const struct environment *env = a->step->env;
	const struct latent *l = &env->config->latent;
	const struct step_span *span = step_span_of(a->step, t);
	size_t position = span->position + t - span->first;
	float *kv = a->scratch->kv + (size_t)t * (l->rank + l->rope),
	      *turned = a->scratch->turned + (size_t)t * l->rope;
	env->kernels->rmsnorm(kv, kv, weights_vector(a->weights, TENSOR_LATENT_KV_NORM), l->rank,
			      latent_eps(env->config));
	latent_rotate(a, turned, kv + l->rank, t);
	memcpy(kv + l->rank, turned, l->rope * sizeof *turned);
	watch_kv_put(env->kernels,
		     (void *)context_blocks_of(span->context, a->layer)[position / KV_BLOCK],
		     span->context->type, context_key_offset(span->context->type, a->layer, 0), 0,
		     position % KV_BLOCK, kv, NULL, l->rank + l->rope, l->rank);
}

/* Splits each head's query of a row into the part that is absorbed and the part that is rotated. */
static void latent_split_query(const struct latent_task *a, uint32_t t)
{
	const struct latent_scratch *x = a->scratch;
	const struct config *c = a->step->env->config;
	const struct latent *l = &c->latent;
	for (size_t h = 0; h < c->heads; h++) {
		size_t row = t * (size_t)c->heads + h;
		const float *q = x->q + row * (l->nope + l->rope);
		memcpy(x->plain + row * l->nope, q, l->nope * sizeof *q);
		latent_rotate(a, x->query + row * (l->rank + l->rope) + l->rank, q + l->nope, t);
		x->index[h * a->step->n + t] = (uint32_t)row;
	}
}

static void latent_place_rows(void *ctx, uint32_t begin, uint32_t end)
{
	for (uint32_t t = begin; t < end; t++) {
		latent_place_keys(ctx, t);
		latent_split_query(ctx, t);
	}
}

/* ---- heads ---- */

/* A product for one head: `rows` rows of w for each head, by what lies at x[rows][heads][…]. */
struct latent_product {
	enum tensor_role role;
	uint32_t rows;
	const float *x;
	float *y; /* of the first head */
	size_t head_stride, token_stride;
};

/* A head whose rows of w are no whole tiles: these are multiplied with their neighbours' rows, and
 * the head's own outputs are taken. */
static void latent_multiply_part(const struct latent_task *a, const struct latent_product *p,
				 uint32_t h)
{
	const struct matrix *w = &a->weights->m[p->role];
	const struct input in = {.k = w->shape.cols, .f = p->x};
	uint32_t n = a->step->n, wide = latent_tile_rows(&a->step->env->config->latent);
	uint32_t row0 = h * p->rows / TILE_ROWS * TILE_ROWS,
		 row1 = ((h + 1) * p->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
	row1 = row1 < w->shape.rows ? row1 : w->shape.rows;
	/* Row r of the product is element r of each token's; row0 is no more than h · wide. */
	float *y = a->scratch->tiles + (size_t)h * n * wide - row0;
	watch_multiply(a->step->env->kernels, y, wide, w, row0, row1, &in,
		       a->scratch->index + (size_t)h * n, n);
	for (size_t t = 0; t < n; t++)
		memcpy(p->y + h * p->head_stride + t * p->token_stride,
		       y + t * wide + (size_t)h * p->rows, p->rows * sizeof *y);
}

static void latent_multiply_head(const struct latent_task *a, const struct latent_product *p,
				 uint32_t h)
{
	const struct matrix *w = &a->weights->m[p->role];
	const struct input in = {.k = w->shape.cols, .f = p->x};
	uint32_t n = a->step->n, row0 = h * p->rows;
	if (p->rows % TILE_ROWS)
		latent_multiply_part(a, p, h);
	else /* row r of the product is element r of each token's */
		watch_multiply(a->step->env->kernels, p->y + h * p->head_stride - row0,
			       p->token_stride, w, row0, row0 + p->rows, &in,
			       a->scratch->index + (size_t)h * n, n);
}

static void latent_absorb_queries(void *ctx, uint32_t begin, uint32_t end)
{
	const struct latent_task *a = ctx;
	const struct config *c = a->step->env->config;
	size_t stride = c->latent.rank + c->latent.rope; /* between heads lies the rotated part */
	const struct latent_product p = {TENSOR_LATENT_KEYS, c->latent.rank, a->scratch->plain,
					 a->scratch->query,  stride,	     c->heads * stride};
	for (uint32_t h = begin; h < end; h++)
		latent_multiply_head(a, &p, h);
}

static void latent_project_values(void *ctx, uint32_t begin, uint32_t end)
{
	const struct latent_task *a = ctx;
	const struct config *c = a->step->env->config;
	size_t stride = c->latent.value;
	const struct latent_product p = {TENSOR_LATENT_VALUES, c->latent.value, a->scratch->found,
					 a->scratch->attended.f, stride, c->heads * stride};
	for (uint32_t h = begin; h < end; h++)
		latent_multiply_head(a, &p, h);
}

/* Heads that look at the latents together. */
enum { LOOK_HEADS = 16 };

/* ---- the mixer ---- */

void latent_run(struct step *s, uint32_t layer)
{
	struct latent_scratch *a = &s->scratch->latent;
	const struct environment *env = s->env;
	const struct config *c = env->config;
	const struct latent *l = &c->latent;
	struct latent_task task = {a, s, &env->weights->layer[layer], &c->layer[layer]};
	uint64_t absorb = (uint64_t)l->rank * l->nope * s->n,
		 values = (uint64_t)l->rank * l->value * s->n;
	latent_project(&task);
	threads_run(env->threads, s->n, 1, latent_place_rows, &task);
	threads_run(env->threads, c->heads, product_grain(env, c->heads, absorb),
		    latent_absorb_queries, &task);
	const struct look look = {
		.step = s,
		.layer = task.layer,
		.q = a->query,
		.out = a->found,
		.head_dim = l->rank + l->rope,
		.latent_dim = l->rank,
		.group = LOOK_HEADS,
	};
	if (task.layer->index == INDEX_UNUSED) {
		look_back_run(&a->look, &look);
	} else {
		chooser_run(s, layer, &a->low);
		look_chosen_run(&s->scratch->chooser.look, &a->look, &look);
	}
	threads_run(env->threads, c->heads, product_grain(env, c->heads, values),
		    latent_project_values, &task);
	activation_changed(&a->attended);
	product_run(env, &(struct product){s->scratch->out, &task.weights->m[TENSOR_LATENT_O]}, 1,
		    &a->attended, s->n);
}
